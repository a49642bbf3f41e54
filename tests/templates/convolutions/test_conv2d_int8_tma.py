"""Layers of bytes by TMA: exact in the emulator, refused where zeros are not the zero point."""

import numpy as np
import pytest
from autotune.templates.convolutions import conv2d_int8_tma, conv2d_int8_words
from autotune.templates.convolutions.conv2d_int8 import IntegerConv2dNhwc
from autotune.templates.convolutions.window_shape import Window
from autotune.templates.products import gemm_tma_tiling
from autotune.templates.quantised import Requantisation, Residual

from autotune.emulator import EmulatedKernel, compile_emulated

CHOICE = {
    "wgmma": 2, "warps_m": 4, "warps_n": 1, "frags_m": 1, "frags_n": 4, "chunk": 64, "stages": 3,
    "split": 1, "band": 1,
}  # fmt: skip
SAME = Window((3, 3), (1, 1), (1, 1, 1, 1))
ADDED = Residual("int8", -3, (0.71, 1.32), -128.0, 100.0)
LAYERS = {
    "images": (
        IntegerConv2dNhwc(2, 9, 7, 48, 48, Window((3, 2), (2, 1), (1, 1, 0, 1), (1, 2)), 1,
                          Requantisation("uint8", 0, "uint8", 9, -5.0, 200.0)),
        {"stages": 4},
    ),
    "whole taps, ping-pong": (
        IntegerConv2dNhwc(3, 9, 16, 160, 128, SAME, 1, Requantisation("int8", 0, "int8", 3)),
        {"wgmma": 6, "frags_n": 18, "stages": 4},
    ),
    "rows, with a residual": (
        IntegerConv2dNhwc(1, 10, 13, 80, 176, Window((1, 1)), 1,
                          Requantisation("uint8", 200, "uint8", 7, residual=ADDED)),
        {"warps_m": 8, "frags_m": 2, "frags_n": 6, "stages": 2},
    ),
    "ranges of K": (
        IntegerConv2dNhwc(1, 9, 8, 64, 80, SAME, 1,
                          Requantisation("uint8", 0, "int8", 7, residual=ADDED)),
        {"split": 3, "frags_n": 4},
    ),
}  # fmt: skip


def arrays_for(source):
    """Return arguments whose results fill the range of bytes."""
    rng = np.random.default_rng(0)
    whole = {
        each.name: rng.integers(np.iinfo(each.dtype).min, np.iinfo(each.dtype).max + 1, each.shape)
        for each in source.args
        if each.dtype != "float32"
    }
    rows = whole["weight"].reshape(len(whole["weight"]), -1)
    whole["weights"] = rows.sum(1)
    size = 40 / (74 * 74 * rows.shape[1] ** 0.5)
    channels = len(rows)
    floats = {"scale": rng.uniform(size, 2 * size, channels), "shift": rng.normal(0, 9, channels)}
    return [(whole | floats)[each.name].astype(each.dtype) for each in source.args]


@pytest.mark.many_cases
@pytest.mark.parametrize("name", LAYERS)
def test_bytes_are_those_of_exact_sums(name, tmp_path, monkeypatch):
    monkeypatch.setattr(gemm_tma_tiling, "MULTIPROCESSORS", 2)  # few tiles are several steps
    shape, change = LAYERS[name]
    check(conv2d_int8_tma.kernel(shape, {**CHOICE, **change}), tmp_path)


PIXELS = {
    "seven columns": (
        IntegerConv2dNhwc(2, 20, 45, 64, 4, Window((7, 7), (2, 2), (3, 3, 3, 3)), 1,
                          Requantisation("uint8", 127, "uint8", 0, 0.0)),
        {"warpgroups": 1, "tiles": 2},
    ),
    "three columns": (
        IntegerConv2dNhwc(1, 9, 24, 32, 4, Window((3, 3), (1, 1), (0, 1, 1, 0)), 1,
                          Requantisation("int8", -9, "int8", 4)),
        {"warpgroups": 2, "tiles": 1},
    ),
    "filters that are no whole vectors of a warp": (
        IntegerConv2dNhwc(1, 3, 24, 16, 4, Window((1, 3)), 1,
                          Requantisation("int8", 0, "int8", 4)),
        {"warpgroups": 1, "tiles": 1},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PIXELS)
def test_images_of_pixels_that_are_words_give_bytes_of_exact_sums(name, tmp_path):
    shape, choice = PIXELS[name]
    check(conv2d_int8_words.kernel(shape, choice), tmp_path)


def check(source, tmp_path):
    """Run a kernel in the emulator, and compare."""
    arrays = arrays_for(source)
    kernel = source.kernel("cuda")
    # Checks take as long as all else.
    library = compile_emulated(kernel, tmp_path / "kernel.so", arch="sm_90", checked=False)
    EmulatedKernel(library, kernel).run(arrays, order=7, checked=False)
    wanted = np.asarray(source.reference(*arrays[:-1]))
    assert len(np.unique(wanted)) > 20
    np.testing.assert_array_equal(arrays[-1], wanted)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"ci": 40}, "multiples of 16"),
        ({"end": Requantisation("uint8", 7, "uint8")}, "padding must be 0"),
        ({"end": Requantisation("uint8", 0)}, "results must be bytes"),
    ],
)
def test_layers_that_these_kernels_cannot_compute_are_refused(change, message):
    given = {"ci": 32, "end": Requantisation("uint8", 0, "uint8"), **change}
    shape = IntegerConv2dNhwc(1, 9, 9, 32, window=SAME, groups=1, **given)
    assert message in conv2d_int8_tma.refusal(shape)
