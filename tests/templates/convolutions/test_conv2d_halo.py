"""Convolutions that load a pixel once for all taps: right in the emulator, and within limits."""

import numpy as np
import pytest
from autotune.templates.convolutions import conv2d_halo, conv2d_padded
from autotune.templates.convolutions.conv2d_nhwc import Conv2dNhwc
from autotune.templates.convolutions.window_shape import Window
from autotune.templates.epilogue import Epilogue
from autotune.templates.products import gemm_half

from autotune.errors import TemplateError
from autotune.kernel import launch_violation
from autotune.target import Target
from tests.templates.assembled import needs_nvcc, spilled
from tests.templates.emulated import arrays_of
from tests.templates.products.test_gemm_padded import in_the_emulator

HOPPER = Target("cuda -arch=sm_90")
SAME = Window((3, 3), (1, 1), (1, 1, 1, 1))
UNEVEN = Window((3, 5), (1, 1), (1, 2, 3, 1), (2, 1))
REST = Epilogue(bias=True, residual=True, affine=True, activation="gelu")
BIAS = Epilogue(bias=True, activation="silu")
CHOICE = {
    "wgmma": conv2d_halo.VALUE, "warps_m": 4, "warps_n": 1, "frags_m": 1, "frags_n": 9,
    "chunk": 64, "stages": 3, "split": 1, "band": 1,
}  # fmt: skip
LAYERS = {
    "one square": (Conv2dNhwc(2, 9, 11, 72, 64, SAME, "float16", BIAS), {}),
    "channels": (Conv2dNhwc(1, 10, 19, 136, 72, UNEVEN, "bfloat16"), {"frags_m": 2, "band": 2}),
    "few channels": (Conv2dNhwc(3, 7, 8, 40, 24, SAME, "float16", REST), {"frags_n": 5}),
    "squares": (
        Conv2dNhwc(1, 17, 18, 96, 144, SAME, "float16", BIAS),
        {"warps_m": 8, "frags_m": 2, "band": 2, "frags_n": 12, "stages": 4},
    ),
    "all filters": (
        Conv2dNhwc(3, 17, 18, 32, 64, SAME, "float16", REST),
        {"warps_m": 8, "band": 2, "frags_n": 4, "stages": 9},
    ),
    "all filters of few channels": (
        Conv2dNhwc(3, 17, 25, 40, 40, UNEVEN, "bfloat16", BIAS),
        {"frags_n": 5, "stages": 15},
    ),
    "all filters of two tiles": (
        Conv2dNhwc(2, 20, 17, 144, 72, Window((1, 3)), "float16"),
        {"frags_m": 2, "stages": 6},
    ),
    "lines": (
        Conv2dNhwc(2, 1, 37, 64, 128, Window((1, 7), padding=(0, 3, 0, 3)), "float16"),
        {"warps_m": 8, "frags_m": 2, "band": 4, "frags_n": 8},
    ),
}


@pytest.mark.many_cases
@pytest.mark.parametrize("name", LAYERS)
def test_results_are_those_of_the_convolution(name, tmp_path, monkeypatch):
    # Few tiles are several steps.
    monkeypatch.setattr(conv2d_halo.common, "multiprocessors", lambda target: 2)
    shape, change = LAYERS[name]
    made = conv2d_halo.kernel(shape, CHOICE | change)
    got, wanted = in_the_emulator(made, tmp_path, arrays_of(made), optimized=True)
    np.testing.assert_allclose(got, wanted, rtol=2e-2, atol=3e-2)


def test_results_on_copies_are_those_of_the_convolution(tmp_path):
    shape = Conv2dNhwc(1, 9, 10, 67, 13, SAME, "float16", REST)
    made = conv2d_padded.Padded(gemm_half).kernel(shape, CHOICE)
    got, wanted = in_the_emulator(made, tmp_path, arrays_of(made), optimized=True)
    np.testing.assert_allclose(got, wanted, rtol=2e-2, atol=3e-2)


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        (Conv2dNhwc(1, 9, 9, 64, 36, SAME, "float16"), "multiples of 8"),
        (Conv2dNhwc(1, 9, 9, 64, 64, Window((3, 3), (2, 2)), "float16"), "stride"),
        (Conv2dNhwc(1, 9, 9, 64, 64, SAME, "tf32"), "16-bit floats"),
        (Conv2dNhwc(1, 9, 9, 64, 64, SAME, "float16", groups=2), "in one group"),
        (Conv2dNhwc(1, 9, 9, 64, 64, Window((1, 1), padding=(1,) * 4), "float16"), "taps"),
    ],
    ids=["channels", "stride", "floats", "groups", "taps"],
)
def test_shapes_that_have_no_such_kernel_are_an_error_that_says_so(shape, message):
    assert message in conv2d_halo.refusal(shape)
    with pytest.raises(TemplateError, match=message):
        conv2d_halo.kernel(shape, CHOICE)
    assert conv2d_halo.VALUE not in gemm_half.candidates(shape)["wgmma"]


@pytest.mark.parametrize("sizes", [(8, 56, 96, 96), (1, 17, 2048, 32), (2, 200, 16, 8)], ids=str)
def test_the_best_choice_by_estimate_fits_a_block(sizes):
    images, side, co, ci = sizes
    shape = Conv2dNhwc(images, side, side, co, ci, SAME, "float16", BIAS)
    choice = conv2d_halo.default_choice(shape, HOPPER)
    assert gemm_half.violation(shape, choice, HOPPER) is None
    kernel = conv2d_halo.kernel(shape, choice).kernel("cuda")
    assert launch_violation(kernel, HOPPER.limits) is None
    assert conv2d_halo.violation(shape, choice, Target("cuda -arch=sm_80")) is not None


@pytest.mark.parametrize(
    ("shape", "halos"),
    [
        (Conv2dNhwc(8, 40, 40, 96, 200, SAME, "float16", BIAS), True),
        (Conv2dNhwc(2, 64, 64, 352, 352, SAME, "bfloat16", BIAS), True),
        (Conv2dNhwc(8, 149, 149, 32, 32, Window((3, 3)), "float16", BIAS), True),
        (Conv2dNhwc(32, 56, 56, 64, 64, SAME, "float16", BIAS), True),
        (Conv2dNhwc(8, 28, 28, 160, 160, SAME, "float16"), False),
        (Conv2dNhwc(8, 56, 56, 256, 256, SAME, "float16"), False),
        (Conv2dNhwc(1, 56, 56, 64, 64, SAME, "float16"), False),
    ],
    ids=["channels", "long", "few channels", "one chunk", "edges", "whole panels", "short"],
)
def test_layers_that_are_known_to_gain_have_halos_untuned(shape, halos):
    choice = gemm_half.default_choice(shape, HOPPER)
    assert (choice["wgmma"] == conv2d_halo.VALUE) == halos
    assert gemm_half.violation(shape, choice, HOPPER) is None


@needs_nvcc
def test_wgmma_is_not_serialized_and_accumulators_stay_in_registers(tmp_path):
    shape = Conv2dNhwc(8, 56, 56, 96, 96, SAME, "float16", BIAS)
    choice = conv2d_halo.default_choice(shape, HOPPER)
    assert not any(spilled(conv2d_halo.kernel(shape, choice).kernel("cuda"), tmp_path))
