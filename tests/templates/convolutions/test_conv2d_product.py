"""Pointwise convolutions as products with an epilogue of rows: right, and where offered."""

import autotune.templates  # noqa: F401 - registers the tasks
import numpy as np
import pytest
from autotune.templates.convolutions import conv2d_product
from autotune.templates.convolutions.conv2d_shape import Conv2d

from autotune.target import Target
from autotune.task import ConfigEntity, create
from autotune.task.kinds import OtherOptionEntity
from tests.templates.emulated import arrays_of, in_the_emulator

HOPPER = Target("cuda -arch=sm_90")
CHOICE = {"groups": 1, "tile_n": 24, "stages": 2, "ahead": 1, "split": 1, "swapped": 0}
FEW_FILTERS = (2, 123, 123, 32, 346, 1, 1, 1, 0, True, True, True)


def points(n, h, w, co, ci, **rest):
    given = {"stride": (1, 1), "padding": (0, 0), "bias": True, "relu": False} | rest
    return Conv2d(n, h, w, co, ci, 1, 1, **given)


LAYERS = {
    "odd": (points(2, 7, 9, 70, 37, residual=True, activation="gelu"), {}),
    "even": (points(1, 8, 10, 33, 40, affine=True, relu=True), {"tile_n": 40}),
    "swapped": (points(3, 5, 13, 20, 70, residual=True), {"swapped": 1}),
    "split": (points(2, 6, 11, 20, 200, shift=True), {"swapped": 1, "split": 3}),
    "stride": (points(2, 10, 11, 22, 37, stride=(3, 2)), {}),
    "stride, swapped": (points(2, 9, 14, 20, 70, stride=(2, 3)), {"swapped": 1}),
}

# The same of windows, which are gathered.
FEW = {
    "in groups": (
        Conv2d(2, 9, 8, 24, 18, 3, 3, (1, 1), (1, 1), True, True, residual=True, groups=3),
        {"tile_n": 8},
    ),
    "uneven": (
        Conv2d(1, 9, 11, 14, 5, 3, 2, (2, 1), (0, 1, 1, 0), True, False, affine=True),
        {"tile_n": 16, "ahead": 2},
    ),
    "dilated, in groups, split": (
        Conv2d(2, 9, 9, 24, 24, 3, 3, (1, 1), (2, 2), True, False, True, True, (2, 2), 2, "gelu"),
        {"tile_n": 16, "split": 3},
    ),
    "inside": (
        Conv2d(1, 7, 10, 7, 33, 2, 2, (1, 1), (0, 0), False, False), {"tile_n": 8, "groups": 2},
    ),
    "padded point": (
        Conv2d(1, 9, 9, 7, 40, 1, 1, (2, 2), (1, 1), True, False), {"tile_n": 8},
    ),
}  # fmt: skip


@pytest.mark.many_cases
@pytest.mark.parametrize("strange", [False, True], ids=["exact", "flagged"])
@pytest.mark.parametrize("name", FEW)
def test_windows_are_right_also_where_floats_have_no_pieces(name, strange, tmp_path):
    shape, change = FEW[name]
    source = conv2d_product.kernel(shape, {**CHOICE, "swapped": 1, **change})
    arrays = arrays_of(source)
    if strange:
        arrays[0].flat[5], arrays[1].flat[7], arrays[1].flat[-1] = np.inf, 1e-42, np.nan
    checked = name.startswith("dilated") and not strange
    got, wanted = in_the_emulator(source, tmp_path, arrays, checked)
    np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.many_cases
@pytest.mark.parametrize("name", LAYERS)
def test_results_have_the_epilogue_of_their_channel(name, tmp_path):
    shape, change = LAYERS[name]
    source = conv2d_product.kernel(shape, {**CHOICE, **change})
    got, wanted = in_the_emulator(source, tmp_path, arrays_of(source))
    np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "shape",
    [
        points(1, 8, 8, 64, 64, kept=True),
        Conv2d(1, 8, 8, 64, 64, 1, 1, (1, 1), (1, 1), True, False),
        Conv2d(1, 8, 8, 128, 64, 1, 1, (1, 1), (0, 0), True, False, groups=2),
        Conv2d(1, 8, 8, 64, 64, 1, 3, (1, 1), (0, 1), True, False),
    ],
    ids=["kept", "padding", "groups", "taps"],
)
def test_other_convolutions_are_none_of_these(shape):
    assert not conv2d_product.offered(shape, HOPPER)


def test_a_layer_of_few_filters_runs_so_untuned_and_old_logs_stay_valid():
    task = create("conv2d_nchw.cuda", FEW_FILTERS, HOPPER)
    assert task.instantiate(task.default()).kernel("cuda").name == "gemm_bf16x3_fused"
    old = {"rows": 8, "chunk": 16, "slices": 1, "split": 1, "stages": 2, "ahead": 2}
    entities = {name: OtherOptionEntity(value) for name, value in old.items()}
    kernel = task.instantiate(ConfigEntity(0, None, entities)).kernel("cuda")
    assert kernel.name == "conv2d_bf16x3"
