"""NCHW convolutions of 16-bit floats without copies: right in the emulator, and within limits."""

import math

import numpy as np
import pytest
from autotune.templates.convolutions import conv2d_nchw_half
from autotune.templates.convolutions.conv2d_nhwc import Conv2dNhwc
from autotune.templates.convolutions.window_shape import Window

from autotune.driver.kernel_of import kernel_of
from autotune.kernel import launch_violation
from autotune.target import Target
from tests.templates.assembled import needs_nvcc, spilled
from tests.templates.emulated import arrays_of
from tests.templates.products.test_gemm_padded import in_the_emulator

HOPPER = Target("cuda -arch=sm_90")
SAME = Window((3, 3), (1, 1), (1, 1, 1, 1))
CHOICE = {"rows": 2, "across": 1, "groups": 1, "channels": 16, "filter_stages": 2, "split": 1}
LAYERS = {
    "channels and filters that fill no tile": (Conv2dNhwc(2, 9, 11, 70, 20, SAME, "float16"), {}),
    "several tiles of filters and of pixels": (
        Conv2dNhwc(1, 9, 18, 130, 48, SAME, "bfloat16"),
        {"groups": 2, "across": 2, "rows": 4, "channels": 32},
    ),
    "a stride, uneven padding": (
        Conv2dNhwc(1, 9, 18, 64, 24, Window((3, 5), (2, 2), (1, 2, 0, 1)), "float16"),
        {"rows": 4},
    ),
    "one K tile, and strides with dilations": (
        Conv2dNhwc(1, 14, 13, 32, 16, Window((3, 3), (2, 1), (2, 2, 2, 2), (2, 3)), "float16"),
        {"rows": 7, "filter_stages": 1},
    ),
    "groups": (
        Conv2dNhwc(2, 7, 7, 24, 96, Window((1, 1), (2, 2)), "float16", groups=2),
        {"rows": 4, "filter_stages": 3},
    ),
    "odd channels, even taps": (
        Conv2dNhwc(2, 7, 9, 72, 51, Window((2, 1)), "bfloat16"), {"rows": 6, "filter_stages": 3},
    ),
}  # fmt: skip


@pytest.mark.many_cases
@pytest.mark.parametrize("name", LAYERS)
def test_results_are_those_of_the_convolution(name, tmp_path):
    shape, change = LAYERS[name]
    choice = CHOICE | change
    assert conv2d_nchw_half.violation(shape, choice, HOPPER) is None
    made = conv2d_nchw_half.kernel(shape, choice)
    got, wanted = in_the_emulator(made, tmp_path, arrays_of(made), optimized=True)
    np.testing.assert_allclose(got, wanted, rtol=2e-2, atol=3e-2)


LARGE = [
    Conv2dNhwc(1, 56, 56, 64, 64, SAME, "float16"),
    Conv2dNhwc(8, 28, 28, 128, 128, Window((5, 5), (2, 2), (2, 2, 2, 2)), "bfloat16"),
    Conv2dNhwc(1, 7, 7, 512, 512, SAME, "float16"),
    Conv2dNhwc(32, 14, 14, 264, 96, Window((1, 7), (1, 1), (0, 3, 0, 3)), "float16", groups=3),
]


@pytest.mark.parametrize("shape", LARGE)
def test_untuned_choices_fit_on_a_device(shape):
    choice = conv2d_nchw_half.default_choice(shape, HOPPER)
    assert conv2d_nchw_half.violation(shape, choice, HOPPER) is None
    made = kernel_of(conv2d_nchw_half.kernel(shape, choice), HOPPER)
    assert launch_violation(made, HOPPER.limits) is None


@needs_nvcc
@pytest.mark.many_cases
@pytest.mark.parametrize("shape", LARGE)
def test_untuned_choices_do_not_spill(shape, tmp_path):
    choice = conv2d_nchw_half.default_choice(shape, HOPPER)
    made = kernel_of(conv2d_nchw_half.kernel(shape, choice), HOPPER)
    assert set(spilled(made, tmp_path)) == {0}


def test_channels_are_split_among_up_to_eight_blocks():
    assert conv2d_nchw_half.candidates(LARGE[2])["split"] == [1, 2, 4, 8]


@pytest.mark.parametrize("rows", [2, 4, 6, 16])
@pytest.mark.parametrize(("stages", "split"), [(1, 8), (2, 4)])
def test_there_is_room_for_barriers_behind_the_sums_of_a_cluster(rows, stages, split):
    """The state of a barrier may be written back over what was stored to its memory."""
    shape = Conv2dNhwc(1, 15, 28, 130, 128, Window((1, 7), padding=(0, 3, 0, 3)), "float16")
    choice = CHOICE | {"rows": rows, "filter_stages": stages, "split": split}
    made = conv2d_nchw_half.kernel(shape, choice)
    sums, barriers = 16 * split * -(-rows // split) * 128, 8 * stages
    assert made.calls[1].launch.shared_bytes >= sums + barriers
    assert "barriers = shared_address(shared_memory) + BARRIERS_AT;" in made.source


def test_estimates_of_many_choices_are_those_of_each():
    shape, options = LARGE[0], conv2d_nchw_half.candidates(LARGE[0])
    untuned = conv2d_nchw_half.default_choice(shape, HOPPER)
    least = conv2d_nchw_half.estimate(shape, untuned, HOPPER)
    for name, values in options.items():
        for value in values:
            choice = untuned | {name: value}
            if conv2d_nchw_half.violation(shape, choice, HOPPER) is None:
                assert conv2d_nchw_half.estimate(shape, choice, HOPPER) >= least


@pytest.mark.parametrize("target", ["cuda -arch=sm_80", "cuda -arch=sm_100", "cuda -emulate"])
def test_other_targets_do_not_have_these_kernels(target):
    assert not conv2d_nchw_half.offered(LARGE[0], Target(target))
    assert conv2d_nchw_half.untuned_cycles(LARGE[0], Target(target)) == math.inf


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rows": 20, "across": 2}, "too many sums"),
        ({"filter_stages": 3, "channels": 32}, "more stages than K tiles"),
        ({"filter_stages": 1}, "no stage to prefetch"),
        ({"split": 8, "filter_stages": 1}, "an empty range"),
    ],
)
def test_choices_that_cannot_run_are_refused(change, message):
    assert message in conv2d_nchw_half.violation(LARGE[0], CHOICE | change, HOPPER)
