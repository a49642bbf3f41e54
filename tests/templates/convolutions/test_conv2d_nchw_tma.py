"""NCHW convolutions of 16-bit floats by TMA: right in the emulator, and within limits."""

import math

import numpy as np
import pytest
from autotune.templates.convolutions.conv2d_nchw_tma import OF_IMAGES, OF_WINDOWS
from autotune.templates.convolutions.conv2d_nhwc import Conv2dNhwc
from autotune.templates.convolutions.image_planes import plane_of
from autotune.templates.convolutions.window_shape import Window
from autotune.templates.products.gemm_tma_form import Form

from autotune.driver.kernel_of import kernel_of
from autotune.errors import TemplateError
from autotune.kernel import launch_violation
from autotune.target import Target
from tests.templates.assembled import needs_nvcc, spilled
from tests.templates.emulated import arrays_of
from tests.templates.products.test_gemm_padded import in_the_emulator

HOPPER = Target("cuda -arch=sm_90")
SAME, POINT = Window((3, 3), (1, 1), (1, 1, 1, 1)), Window((1, 1))
CHOICE = {
    "wgmma": Form(0, 1, 1).knob, "warps_m": 4, "warps_n": 1, "frags_m": 1, "frags_n": 5,
    "chunk": 64, "stages": 2, "split": 1, "band": 1,
}  # fmt: skip
LAYERS = {
    "odd planes of several images in a tile": (Conv2dNhwc(3, 5, 5, 72, 24, POINT, "float16"), {}),
    "an odd plane in several tiles": (
        Conv2dNhwc(2, 9, 11, 20, 16, POINT, "bfloat16"), {"frags_n": 3},
    ),
    "odd planes, two fragments of filters": (
        Conv2dNhwc(2, 7, 7, 135, 16, POINT, "float16"), {"frags_m": 2},
    ),
    "planes in vectors": (Conv2dNhwc(2, 8, 4, 70, 24, POINT, "float16"), {"frags_n": 6}),
    "planes in halves of vectors, rows of tiles that are rotated": (
        Conv2dNhwc(3, 6, 6, 64, 72, POINT, "bfloat16"), {"frags_n": 8},
    ),
    "planes in words": (
        Conv2dNhwc(2, 5, 6, 130, 40, POINT, "float16"), {"warps_m": 8, "frags_n": 4},
    ),
    "channels and filters that fill no vectors": (
        Conv2dNhwc(1, 6, 5, 13, 11, POINT, "float16"), {"frags_n": 2},
    ),
    "windows": (Conv2dNhwc(2, 7, 9, 66, 20, SAME, "float16"), {"stages": 3}),
    "windows of whole boxes of channels, a stride, uneven padding": (
        Conv2dNhwc(2, 9, 10, 24, 64, Window((3, 2), (2, 1), (0, 1, 2, 0)), "bfloat16"),
        {"frags_n": 2},
    ),
    "strides of one tap, and a dilation": (
        Conv2dNhwc(1, 9, 12, 24, 16, Window((1, 3), (2, 2), (0, 2, 0, 2), (1, 2)), "float16"), {},
    ),
}  # fmt: skip


COPIED_WINDOWS = {
    "several tiles of windows": Conv2dNhwc(2, 9, 11, 20, 24, SAME, "bfloat16"),
    "strides, uneven padding": Conv2dNhwc(
        1, 10, 9, 72, 16, Window((3, 3), (2, 2), (0, 1, 1, 1)), "float16"
    ),
    "strides of one tap": Conv2dNhwc(2, 7, 9, 70, 40, Window((1, 1), (2, 2)), "float16"),
    "many taps": Conv2dNhwc(1, 9, 9, 16, 8, Window((5, 5), (1, 1), (2,) * 4), "float16"),
    "channels that fill no vectors": Conv2dNhwc(
        1, 6, 7, 80, 12, Window((2, 2), (1, 1), (0,) * 4, (2, 1)), "float16"
    ),
}
CASES = {
    **{name: (OF_IMAGES, *layer) for name, layer in LAYERS.items()},
    **{name: (OF_WINDOWS, layer, {}) for name, layer in COPIED_WINDOWS.items()},
}


@pytest.mark.many_cases
@pytest.mark.parametrize("name", CASES)
def test_results_are_those_of_the_convolution(name, tmp_path):
    family, shape, change = CASES[name]
    choice = CHOICE | change
    assert family.violation(shape, choice, HOPPER) is None
    made = family.kernel(shape, choice)
    got, wanted = in_the_emulator(made, tmp_path, arrays_of(made), optimized=True)
    np.testing.assert_allclose(got, wanted, rtol=2e-2, atol=3e-2)


def test_filters_that_tma_reads_are_not_copied():
    entries = ["arrange_weight", "arrange_data", "gemm_tma"]
    for shape, calls in [
        (Conv2dNhwc(2, 7, 7, 20, 24, POINT, "float16"), entries[1:]),
        (Conv2dNhwc(2, 7, 7, 20, 20, POINT, "float16"), entries),
        (Conv2dNhwc(2, 7, 7, 24, 24, Window((1, 1), (2, 2)), "float16"), entries),
        (Conv2dNhwc(2, 7, 7, 24, 24, SAME, "float16"), entries),
    ]:
        made = OF_IMAGES.kernel(shape, OF_IMAGES.default_choice(shape, HOPPER))
        assert [one.entry for one in made.calls] == calls
        assert [one.launch.early for one in made.calls] == [False] + [True] * (len(calls) - 1)


LARGE = [
    Conv2dNhwc(32, 14, 14, 1024, 256, POINT, "bfloat16"),
    Conv2dNhwc(32, 7, 7, 2048, 512, POINT, "float16"),
    Conv2dNhwc(2, 64, 64, 320, 320, SAME, "float16"),
    Conv2dNhwc(8, 56, 56, 128, 64, Window((3, 3), (2, 2), (1, 1, 1, 1)), "float16"),
]


@pytest.mark.parametrize("shape", LARGE)
def test_untuned_choices_fit_on_a_device(shape):
    choice = OF_IMAGES.default_choice(shape, HOPPER)
    assert OF_IMAGES.violation(shape, choice, HOPPER) is None
    made = kernel_of(OF_IMAGES.kernel(shape, choice), HOPPER)
    assert launch_violation(made, HOPPER.limits) is None


@needs_nvcc
@pytest.mark.many_cases
@pytest.mark.parametrize("shape", LARGE)
def test_untuned_choices_do_not_spill(shape, tmp_path):
    choice = OF_IMAGES.default_choice(shape, HOPPER)
    made = kernel_of(OF_IMAGES.kernel(shape, choice), HOPPER)
    assert set(spilled(made, tmp_path)) == {0}


def test_windows_are_copied_where_filters_are_rows_of_vectors():
    for shape, offered in [
        (Conv2dNhwc(1, 7, 7, 512, 512, SAME, "float16"), True),
        (Conv2dNhwc(1, 7, 7, 512, 24, Window((1, 1), (2, 2)), "float16"), True),
        (Conv2dNhwc(1, 7, 7, 512, 20, SAME, "float16"), False),
        (Conv2dNhwc(1, 7, 7, 512, 512, POINT, "float16"), False),
        (Conv2dNhwc(1, 20, 20, 512, 16, Window((7, 7)), "float16"), False),
    ]:
        assert OF_WINDOWS.offered(shape, HOPPER) == offered
        if offered:
            made = OF_WINDOWS.kernel(shape, OF_WINDOWS.default_choice(shape, HOPPER))
            assert [one.entry for one in made.calls] == ["arrange_data", "gemm_tma"]


def test_rows_of_odd_planes_are_staged_in_different_banks():
    odd = OF_IMAGES.candidates(LARGE[1])["frags_n"]
    assert odd
    assert all(width % 2 for width in odd)
    assert any(width % 2 == 0 for width in OF_IMAGES.candidates(LARGE[0])["frags_n"])


def test_results_of_other_products_are_no_planes():
    assert plane_of(OF_IMAGES.product_of(LARGE[1])) == 49
    assert plane_of(OF_IMAGES.product_of(LARGE[3])) == 28 * 28
    assert plane_of(LARGE[3]) == plane_of(LARGE[0].pointwise) == 0


@pytest.mark.parametrize(
    "shape",
    [
        Conv2dNhwc(2, 7, 7, 24, 24, SAME, "float32"),
        Conv2dNhwc(2, 7, 7, 32, 32, SAME, "float16", groups=2),
        Conv2dNhwc(2, 7, 7, 32, 3, SAME, "float16"),
    ],
)
def test_other_types_groups_and_few_channels_are_left_to_others(shape):
    assert not OF_IMAGES.offered(shape, HOPPER)
    assert OF_IMAGES.untuned_cycles(shape, HOPPER) == math.inf


@pytest.mark.parametrize("target", ["cuda -arch=sm_80", "cuda -arch=sm_100", "cuda -emulate"])
def test_other_targets_do_not_have_these_kernels(target):
    assert not OF_IMAGES.offered(LARGE[0], Target(target))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"wgmma": Form(0, 1).knob}, "planes of operands that are not swapped"),
        ({"split": 2}, "planes that are not staged"),
    ],
)
def test_choices_that_cannot_run_are_refused(change, message):
    assert message in OF_IMAGES.violation(LARGE[0], CHOICE | change, HOPPER)
    with pytest.raises(TemplateError, match=message):
        OF_IMAGES.kernel(LARGE[0], CHOICE | change)
