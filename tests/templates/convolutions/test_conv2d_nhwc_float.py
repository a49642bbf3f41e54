"""Convolutions NHWC of float32 on tensor cores: right, and offered beside those by fmaf."""

import numpy as np
import pytest
from autotune.templates.alternatives import KNOB
from autotune.templates.convolutions import conv2d_in_groups, conv2d_nhwc_float
from autotune.templates.convolutions.conv2d_nhwc import Conv2dNhwc
from autotune.templates.convolutions.window_shape import Window
from autotune.templates.epilogue import Epilogue
from autotune.templates.products import gemm_bf16x3_fused, gemm_cuda, gemm_mma

from autotune.kernel import launch_violation
from autotune.target import Target
from autotune.task import create
from tests.templates.assembled import needs_nvcc, spilled
from tests.templates.emulated import arrays_of, in_the_emulator

HOPPER = Target("cuda -arch=sm_90")
REST = Epilogue(bias=True, residual=True, affine=True, activation="gelu", alpha=0.5)
CHOICE = {
    "groups": 1, "tile_n": 24, "stages": 2, "ahead": 1, "split": 1, "swapped": 0,
}  # fmt: skip
SAME = (1, 1, 1, 1)
FUSED, MMA = "gemm_bf16x3_fused", "gemm_mma"
# Shapes with edges everywhere, and how their choices differ from that above.
LAYERS = {
    "odd-dilated": (Conv2dNhwc(2, 9, 8, 22, 17, Window((1, 3), (1, 1), (0, 3, 0, 3), (1, 3))), {}),
    "k-tiles-of-one-tap": (
        Conv2dNhwc(1, 9, 11, 24, 32, Window((3, 3), (1, 1), SAME), epilogue=REST), {"ahead": 2},
    ),
    "strides": (
        Conv2dNhwc(1, 19, 21, 70, 6, Window((2, 3), (2, 1), (0, 1, 0, 0)), epilogue=REST),
        {"groups": 2, "tile_n": 40},
    ),
    "inside": (Conv2dNhwc(3, 9, 9, 7, 12, Window((3, 3))), {"tile_n": 8, "split": 2}),
    "one-pixel": (
        Conv2dNhwc(1, 5, 5, 7, 130, Window((5, 5)), epilogue=REST),
        {"tile_n": 8, "split": 5, "ahead": 3, "stages": 3},
    ),
    "in-groups": (
        Conv2dNhwc(2, 9, 8, 54, 34, Window((1, 3), (1, 1), (0, 1, 0, 1)), groups=2, epilogue=REST),
        {"tile_n": 32},
    ),
    "in-groups-split": (
        Conv2dNhwc(1, 9, 8, 42, 24, Window((3, 3)), groups=3, epilogue=REST),
        {"tile_n": 16, "split": 2},
    ),
}  # fmt: skip


@pytest.mark.many_cases
@pytest.mark.parametrize("strange", [False, True], ids=["exact", "flagged"])
@pytest.mark.parametrize("name", LAYERS)
def test_layers_are_right_also_where_floats_have_no_pieces(name, strange, tmp_path):
    shape, change = LAYERS[name]
    source = gemm_bf16x3_fused.kernel(shape, {**CHOICE, **change})
    arrays = arrays_of(source)
    if strange:
        arrays[0].flat[5], arrays[1].flat[7], arrays[1].flat[-1] = np.inf, 1e-42, np.nan
    checked = name in ("odd-dilated", "in-groups-split") and not strange
    got, wanted = in_the_emulator(source, tmp_path, arrays, checked)
    np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("filters", "groups", "strips"), [(119, 1, 1), (120, 1, 0), (118, 2, 0)])
def test_rows_that_are_no_whole_sectors_are_written_in_strips(filters, groups, strips):
    shape = Conv2dNhwc(8, 50, 53, filters, 4, Window((4, 4), (2, 2), SAME), groups=groups)
    choice = gemm_bf16x3_fused.default_choice(shape, HOPPER)
    assert gemm_bf16x3_fused.FusedTiling(shape, choice).strips == strips


def test_layers_in_groups_as_tf32_are_right(tmp_path):
    shape = Conv2dNhwc(2, 9, 8, 54, 34, Window((1, 3), (1, 1), (0, 1, 0, 1)), "tf32", REST, 2)
    source = gemm_bf16x3_fused.kernel(shape, {**CHOICE, "tile_n": 32, "split": 2})
    got, wanted = in_the_emulator(source, tmp_path, arrays_of(source))
    np.testing.assert_allclose(got, wanted, rtol=5e-3, atol=5e-3)


# On an H200 208.8 us instead of 306.8, 6.09 instead of 6.72, and 11.83 that would be 9.36.
@pytest.mark.parametrize(
    ("args", "entry"),
    [
        ((8, 76, 79, 212, 440, 5, 5, 2, 2, False, "none", False, False, 1, "tf32", 4), FUSED),
        ((2, 16, 16, 64, 356, 3, 3, 1, 1, True, "none", True, False, 1, "tf32", 4), FUSED),
        ((1, 104, 104, 120, 64, 3, 3, 1, 1, False, "none", False, False, 1, "tf32", 4), MMA),
    ],
)
def test_groups_as_tf32_run_untuned_by_the_kernel_of_the_least_estimate(args, entry):
    task = create("conv2d_nhwc.cuda", args, HOPPER)
    chosen = task.default()
    assert task.instantiate(chosen).kernel("cuda").calls[0].entry == entry
    before = create("conv2d_nhwc.cuda", args, Target("cuda -arch=sm_80"))
    assert before.instantiate(before.default()).kernel("cuda").calls[0].entry == MMA


def test_families_of_groups_as_tf32_are_estimated_once(monkeypatch):
    estimated = []

    def cycles(family, shape, target):
        estimated.append(family)
        return 1.0

    monkeypatch.setattr(conv2d_in_groups, "_cycles", cycles)
    args = (2, 17, 19, 66, 354, 3, 3, 1, 1, True, "none", True, False, 1, "tf32", 2)
    task = create("conv2d_nhwc.cuda", args, HOPPER)
    task.instantiate(task.default())
    assert estimated == [gemm_bf16x3_fused, gemm_mma]


LARGE = Conv2dNhwc(16, 28, 28, 128, 128, Window((3, 3), (1, 1), SAME))


@needs_nvcc
def test_sums_stay_in_registers(tmp_path):
    choice = gemm_bf16x3_fused.default_choice(LARGE, HOPPER)
    kernel = gemm_bf16x3_fused.kernel(LARGE, choice).kernel("cuda")
    assert max(spilled(kernel, tmp_path)) <= 16


def test_a_large_layer_runs_on_tensor_cores_and_without_them_by_fmaf():
    args = (16, 28, 28, 128, 128, 3, 3, 1, 1)
    on_hopper = create("conv2d_nhwc.cuda", args, HOPPER)
    kernel = on_hopper.instantiate(on_hopper.default()).kernel("cuda")
    assert kernel.calls[0].entry == "gemm_bf16x3_fused"
    assert launch_violation(kernel, HOPPER.limits) is None
    before = create("conv2d_nhwc.cuda", args, Target("cuda -arch=sm_80"))
    source = before.instantiate(before.default())
    assert source.kernel("cuda").calls[0].entry == "gemm_nn"


def test_what_was_chosen_when_there_was_one_family_is_of_that_one():
    chosen = gemm_cuda.default_choice(LARGE, HOPPER)
    assert conv2d_nhwc_float.family_of(LARGE, HOPPER, chosen) is gemm_cuda
    both = conv2d_nhwc_float.family_of(LARGE, HOPPER, (KNOB,))
    assert both == conv2d_nhwc_float.family_of(LARGE, HOPPER, ())
