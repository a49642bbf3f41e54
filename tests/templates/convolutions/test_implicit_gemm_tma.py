"""Implicit GEMM by TMA in im2col mode: right in the emulator, and chosen where it gains."""

import numpy as np
import pytest
from autotune.templates.convolutions.conv2d_nhwc import AcrossGroups, Conv2dNhwc
from autotune.templates.convolutions.window_shape import Window
from autotune.templates.epilogue import Epilogue
from autotune.templates.products import gemm_half, gemm_tma, gemm_tma_tiling, gemm_transposed
from autotune.templates.products.gemm_tma_form import FORMS

from autotune.errors import TemplateError
from autotune.kernel import launch_violation
from autotune.target import Target
from tests.templates.assembled import needs_nvcc, spilled
from tests.templates.emulated import arrays_of, in_the_emulator

HOPPER = Target("cuda -arch=sm_90")
REST = Epilogue(bias=True, residual=True, affine=True, activation="gelu")
BIAS = Epilogue(bias=True, activation="silu")
SWAPPED = gemm_tma.Form(0, 1, 1)
CHOICE = {
    "wgmma": 2, "warps_m": 4, "warps_n": 1, "frags_m": 1, "frags_n": 8, "chunk": 64, "stages": 3,
    "split": 1, "band": 1,
}  # fmt: skip
SAME = Window((3, 3), (1, 1), (1, 1, 1, 1))
UNEVEN = Window((3, 3), (2, 1), (1, 2, 0, 1), (1, 2))
LAYERS = {
    "uneven": (Conv2dNhwc(2, 9, 7, 72, 64, UNEVEN, "float16"), {}),
    "bias": (
        Conv2dNhwc(2, 11, 8, 136, 128, SAME, "bfloat16", BIAS),
        {"frags_n": 16, "chunk": 128, "stages": 2},
    ),
    "split": (Conv2dNhwc(1, 9, 16, 72, 64, SAME, "float16", REST), {"split": 2}),
    "ping-pong": (
        Conv2dNhwc(3, 9, 16, 264, 64, Window((1, 3), padding=(0, 1, 0, 1)), "float16", REST),
        {"wgmma": 6, "stages": 4},
    ),
    "tf32-filters-as-they-are": (
        Conv2dNhwc(2, 9, 7, 72, 32, UNEVEN, "tf32", BIAS),
        {"wgmma": SWAPPED.knob, "frags_n": 5, "chunk": 32},
    ),
    "tf32-filters-walk": (
        Conv2dNhwc(3, 9, 7, 136, 64, SAME, "tf32", REST),
        {"wgmma": SWAPPED.knob + 2, "warps_m": 8, "frags_n": 3, "chunk": 32},
    ),
    "tf32-filters-split": (
        Conv2dNhwc(2, 9, 7, 72, 64, SAME, "tf32", REST),
        {"wgmma": SWAPPED.knob, "split": 2, "chunk": 32},
    ),
    "tf32-filters-channels": (
        Conv2dNhwc(2, 9, 7, 68, 44, UNEVEN, "tf32", REST),
        {"wgmma": SWAPPED.knob, "frags_n": 6, "chunk": 64},
    ),
    "tf32-filters-few-channels": (
        Conv2dNhwc(2, 9, 7, 12, 20, SAME, "tf32", BIAS),
        {"wgmma": SWAPPED.knob, "frags_n": 6, "chunk": 32},
    ),
    "tf32": (
        Conv2dNhwc(2, 9, 7, 71, 32, UNEVEN, "tf32", BIAS),
        {"frags_n": 9, "chunk": 32},
    ),
    "tf32-ping-pong": (
        Conv2dNhwc(3, 9, 16, 136, 96, Window((3, 1), padding=(1, 0, 1, 0)), "tf32", REST),
        {"wgmma": 6, "chunk": 32, "stages": 4},
    ),
    "channels": (
        Conv2dNhwc(2, 9, 7, 72, 72, UNEVEN, "float16", BIAS),
        {"chunk": 128, "stages": 2},
    ),
    "few-channels": (Conv2dNhwc(2, 9, 9, 136, 8, SAME, "bfloat16"), {"frags_n": 9}),
    "patches": (
        Conv2dNhwc(5, 8, 12, 40, 64, Window((4, 4), (4, 4)), "float16"),
        {"wgmma": 4, "frags_n": 5},
    ),
    "groups": (AcrossGroups(2, 9, 7, 96, 128, UNEVEN, "float16", BIAS, 2), {"frags_n": 6}),
    "groups-ping-pong": (
        AcrossGroups(3, 9, 16, 192, 256, SAME, "bfloat16", REST, 2),
        {"wgmma": 6, "frags_n": 12, "stages": 4},
    ),
    "groups-whose-channels-do-not-fill-boxes": (
        AcrossGroups(2, 9, 7, 96, 144, Window((2, 3), (2, 1), (1, 1, 0, 1)), "float16", BIAS, 3),
        {"frags_n": 4, "chunk": 128, "stages": 2},
    ),
    "groups-of-32-joined": (AcrossGroups(2, 9, 7, 128, 128, UNEVEN, "float16", BIAS, 4), {}),
    "groups-of-16-joined": (
        AcrossGroups(3, 9, 16, 128, 128, Window((1, 4), (1, 2)), "bfloat16", REST, 8),
        {"chunk": 128, "stages": 2, "warps_m": 8},
    ),
    "groups-of-16-by-8-filters": (
        AcrossGroups(1, 9, 16, 64, 128, SAME, "bfloat16", REST, 8),
        {"frags_n": 4, "split": 2},
    ),
    "groups-with-fewer-filters-joined": (
        AcrossGroups(1, 9, 16, 96, 192, SAME, "float16", REST, 6),
        {"frags_n": 4},
    ),
    "groups-with-more-filters": (
        AcrossGroups(1, 9, 16, 288, 96, SAME, "float16", BIAS, 3),
        {"frags_n": 6},
    ),
    "tf32-groups": (
        AcrossGroups(2, 9, 7, 192, 96, UNEVEN, "tf32", REST, 3),
        {"wgmma": SWAPPED.knob, "frags_n": 5, "chunk": 32},
    ),
    "tf32-groups-of-some-channels": (
        AcrossGroups(2, 9, 7, 256, 72, Window((2, 2)), "tf32", BIAS, 2),
        {"wgmma": SWAPPED.knob, "warps_m": 8, "frags_n": 6, "chunk": 64, "split": 2},
    ),
    "groups-split": (
        AcrossGroups(1, 9, 16, 64, 256, SAME, "float16", REST, 4),
        {"split": 2, "frags_n": 2, "warps_m": 8},
    ),
}


@pytest.mark.many_cases
@pytest.mark.parametrize("name", LAYERS)
def test_results_are_those_of_the_convolution(name, tmp_path, monkeypatch):
    monkeypatch.setattr(gemm_tma_tiling, "MULTIPROCESSORS", 2)  # few tiles are several steps
    shape, change = LAYERS[name]
    family = gemm_transposed if shape.dtype == "tf32" and "filters" not in name else gemm_tma
    source = family.kernel(shape, {**CHOICE, **change})
    got, wanted = in_the_emulator(source, tmp_path, arrays_of(source))
    np.testing.assert_allclose(got, wanted, rtol=2e-2, atol=2e-2)


@pytest.mark.many_cases
@pytest.mark.parametrize(
    ("shape", "change"),
    [
        (AcrossGroups(1, 9, 9, 96, 72, SAME, "float16", groups=3), {"frags_n": 4}),
        (
            AcrossGroups(1, 5, 9, 96, 240, Window((1, 3)), "float16", groups=3),
            {"frags_n": 4, "warps_m": 8},
        ),
        (
            AcrossGroups(2, 5, 9, 64, 96, Window((2, 2)), "bfloat16", groups=2),
            {"frags_n": 4, "chunk": 128, "stages": 2, "split": 2, "frags_m": 2},
        ),
        (
            AcrossGroups(3, 9, 16, 64, 112, SAME, "float16", groups=2),
            {"wgmma": 6, "frags_n": 4, "stages": 4},
        ),
        (AcrossGroups(1, 9, 9, 64, 64, SAME, "float16", groups=4), {"frags_n": 8}),
        (
            AcrossGroups(1, 9, 9, 128, 40, SAME, "tf32", groups=2),
            {"wgmma": SWAPPED.knob, "frags_n": 5, "chunk": 32, "stages": 4},
        ),
    ],
    ids=["24", "80", "split", "ping-pong", "joined", "tf32"],
)
def test_what_is_infinite_stays_in_its_group(shape, change, tmp_path, monkeypatch):
    monkeypatch.setattr(gemm_tma_tiling, "MULTIPROCESSORS", 2)
    source = gemm_tma.kernel(shape, {**CHOICE, **change})
    arrays = arrays_of(source)
    arrays[0][0, 2, 3, shape.ci // shape.groups :] = np.inf
    got, wanted = in_the_emulator(source, tmp_path, arrays)
    assert np.array_equal(np.isfinite(got), np.isfinite(wanted))
    assert np.isfinite(wanted).any()
    assert not np.isfinite(wanted).all()


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        (Conv2dNhwc(1, 9, 9, 64, 36, SAME, "float16"), "multiples of 8"),
        (Conv2dNhwc(1, 9, 9, 64, 50, SAME, "tf32"), "multiples of 4"),
        (Conv2dNhwc(1, 9, 9, 64, 48, SAME, "tf32", transpose_b=True), "a multiple of 32"),
        (Conv2dNhwc(1, 9, 9, 64, 64, SAME, "float16", groups=2), "in one group"),
        (
            Conv2dNhwc(1, 50, 50, 64, 64, Window((3, 3), padding=(128,) * 4), "float16"),
            "within 127 pixels",
        ),
        (Conv2dNhwc(1, 300, 300, 64, 64, Window((130, 1)), "float16"), "within 127 pixels"),
        (Conv2dNhwc(1, 70, 70, 64, 64, Window((9, 9), (9, 9)), "float16"), "at most 8"),
    ],
    ids=["channels", "floats", "filters", "groups", "padding", "end", "stride"],
)  # fmt: skip
def test_shapes_that_tma_cannot_load_are_an_error_that_says_so(shape, message):
    assert message in gemm_tma.refusal(shape)
    with pytest.raises(TemplateError, match=message):
        gemm_tma.kernel(shape, CHOICE)
    assert not {form.knob for form in FORMS} & set(gemm_half.candidates(shape)["wgmma"])


def test_a_tile_has_columns_of_one_group():
    shape = AcrossGroups(1, 9, 9, 96, 128, SAME, "float16", groups=2)
    assert gemm_tma.violation(shape, CHOICE, HOPPER) == "columns of several groups"
    assert 16 * 4 not in [8 * each for each in gemm_tma.candidates(shape)["frags_n"]]
    choice = gemm_tma.default_choice(shape, HOPPER)
    assert gemm_tma.violation(shape, choice, HOPPER) is None
    assert gemm_tma.refusal(AcrossGroups(1, 9, 9, 96, 96, SAME, "float16", groups=2)) is None
    joined = AcrossGroups(1, 9, 9, 128, 128, SAME, "float16", groups=4)
    assert gemm_tma.candidates(joined)["frags_n"] == [8]
    assert "that are joined" in gemm_tma.violation(joined, CHOICE | {"frags_n": 4}, HOPPER)


def test_groups_of_floats_as_tf32_have_whole_rows_of_tiles():
    shape = AcrossGroups(4, 28, 28, 256, 256, SAME, "tf32", groups=4)
    assert gemm_tma.refusal(shape) is None
    choice = gemm_tma.default_choice(shape, HOPPER)
    assert gemm_tma.Form.of(choice["wgmma"]).swapped
    assert choice["warps_m"] * choice["frags_m"] == 4
    few = AcrossGroups(4, 28, 28, 128, 128, SAME, "tf32", groups=4)
    assert "as TF32 multiples of 64" in gemm_tma.refusal(few)


def test_the_untuned_choice_fits_a_block_and_supports_im2col():
    shape = Conv2dNhwc(2, 64, 64, 320, 320, SAME, "float16", BIAS)
    choice = gemm_tma.default_choice(shape, HOPPER)
    assert gemm_tma.violation(shape, choice, HOPPER) is None
    kernel = gemm_tma.kernel(shape, choice).kernel("cuda")
    assert launch_violation(kernel, HOPPER.limits) is None
    forms = [gemm_tma.Form.of(knob) for knob in gemm_tma.candidates(shape)["wgmma"]]
    assert not any(form.swapped for form in forms)


@pytest.mark.parametrize(
    ("shape", "boxes"),
    [
        (Conv2dNhwc(2, 16, 16, 1280, 2560, SAME, "float16", BIAS), True),
        (Conv2dNhwc(2, 64, 64, 320, 320, UNEVEN, "float16"), True),
        (Conv2dNhwc(8, 28, 28, 128, 128, SAME, "bfloat16", REST), True),
        (Conv2dNhwc(1, 56, 56, 64, 64, SAME, "float16", BIAS), False),
        (Conv2dNhwc(1, 28, 28, 128, 128, SAME, "float16", BIAS), False),
        (Conv2dNhwc(8, 56, 56, 128, 72, SAME, "float16", BIAS), False),
        (Conv2dNhwc(2, 130, 130, 224, 224, SAME, "float16", BIAS), True),
    ],
    ids=["long", "stride", "rest", "short", "split", "few channels", "channels"],
)
def test_layers_that_are_known_to_gain_use_tma_untuned(shape, boxes):
    choice = gemm_half.default_choice(shape, HOPPER)
    assert (choice["wgmma"] > 1) == boxes
    assert gemm_half.violation(shape, choice, HOPPER) is None


@needs_nvcc
def test_wgmma_is_not_serialized_and_accumulators_stay_in_registers(tmp_path):
    shape = Conv2dNhwc(2, 64, 64, 320, 320, SAME, "float16", BIAS)
    choice = gemm_tma.default_choice(shape, HOPPER)
    assert not any(spilled(gemm_tma.kernel(shape, choice).kernel("cuda"), tmp_path))
