"""Convolutions of few inputs a result, which stay in registers: right, and where offered."""

import autotune.templates  # noqa: F401 - registers the tasks
import numpy as np
import pytest
from autotune.templates.convolutions import conv2d_small_k
from autotune.templates.convolutions.conv2d_shape import Conv2d

from autotune.emulator import EmulatedKernel, compile_emulated
from tests.templates.emulated import arrays_of

CHOICE = {"filters": 10, "each": 2, "threads": 64}


def conv(n, h, w, co, ci, kh, kw, **rest):
    given = {"stride": (1, 1), "padding": (0, 0), "bias": True, "relu": False} | rest
    return Conv2d(n, h, w, co, ci, kh, kw, **given)


LAYERS = {
    "points": (conv(2, 7, 9, 21, 6, 1, 1, residual=True, activation="silu"), {}),
    "stem": (conv(1, 20, 22, 24, 3, 3, 3, stride=(2, 2), padding=(1, 0, 0, 1)), {"each": 4}),
    "groups": (conv(2, 9, 8, 15, 6, 1, 5, padding=(0, 2), groups=3, affine=True), {"each": 1}),
    "dilation": (conv(1, 12, 13, 8, 2, 3, 2, dilation=(2, 3), padding=(2, 1), kept=True), {}),
}


@pytest.mark.parametrize("name", LAYERS)
def test_results_are_those_of_the_reference(name, tmp_path):
    shape, change = LAYERS[name]
    source = conv2d_small_k.kernel(shape, {**CHOICE, **change})
    kernel, arrays = source.kernel("cuda"), arrays_of(source)
    library = compile_emulated(kernel, tmp_path / "kernel.so", arch="sm_90", checked=False)
    EmulatedKernel(library, kernel).run(arrays, order=7, checked=False)
    results = 2 if shape.kept else 1
    wanted = source.reference(*(x.astype(np.float64) for x in arrays[:-results]))
    for found, one in zip(arrays[-results:], wanted if results == 2 else [wanted], strict=True):
        np.testing.assert_allclose(found.astype(np.float64), one, rtol=1e-5, atol=1e-5)


def test_long_sums_are_not_offered():
    assert conv2d_small_k.offered(conv(1, 9, 9, 8, 7, 3, 3))
    assert not conv2d_small_k.offered(conv(1, 9, 9, 8, 8, 3, 3))
