"""NHWC convolutions on tensor cores with any channels: right by each instruction, and chosen."""

import autotune.templates  # noqa: F401 - registers the tasks
import numpy as np
import pytest
from autotune.templates.convolutions import conv2d_padded
from autotune.templates.convolutions.conv2d_nhwc import Conv2dNhwc
from autotune.templates.convolutions.window_shape import Window
from autotune.templates.epilogue import Epilogue
from autotune.templates.products import gemm_half, gemm_mma
from autotune.templates.products.gemm_tma_form import Form

from autotune.kernel import launch_violation
from autotune.target import Target
from autotune.task import ConfigEntity, OtherOptionEntity, create
from tests.templates.emulated import arrays_of
from tests.templates.products.test_gemm_padded import in_the_emulator

HOPPER, AMPERE = Target("cuda -arch=sm_90"), Target("cuda -arch=sm_80")
EITHER, OF_GROUPS = conv2d_padded.Padded(gemm_half), conv2d_padded.Padded(gemm_mma)
SWAPPED = Form(0, 1, 1).knob
SAME = Window((3, 3), (1, 1), (1, 1, 1, 1))
UNEVEN = Window((3, 3), (2, 1), (1, 2, 0, 1), (1, 2))
REST = Epilogue(bias=True, residual=True, affine=True, activation="gelu")
BIAS = Epilogue(bias=True, activation="silu")
CHOICE = {
    "warps_m": 4, "warps_n": 1, "frags_m": 1, "frags_n": 8, "chunk": 64, "stages": 3, "split": 1,
    "band": 1,
}  # fmt: skip
KNOBS = {
    "mma.sync": {"wgmma": 0, "frags_n": 4},
    "cp.async": {"wgmma": 1},
    "TMA": {"wgmma": 2},
    "TMA, split": {"wgmma": 2, "split": 2},
}
LAYERS = {
    "odd": Conv2dNhwc(2, 9, 7, 67, 13, UNEVEN, "float16", BIAS),
    "odd filters": Conv2dNhwc(1, 9, 8, 71, 72, SAME, "bfloat16"),
    "even": Conv2dNhwc(1, 9, 8, 70, 74, UNEVEN, "float16", REST),
    "odd, all after": Conv2dNhwc(1, 7, 9, 65, 20, SAME, "bfloat16", REST),
}


@pytest.mark.many_cases
@pytest.mark.parametrize("knobs", KNOBS)
@pytest.mark.parametrize("name", LAYERS)
def test_results_on_copies_are_those_of_the_convolution(name, knobs, tmp_path):
    made = EITHER.kernel(LAYERS[name], {**CHOICE, **KNOBS[knobs]})
    got, wanted = in_the_emulator(made, tmp_path, arrays_of(made))
    np.testing.assert_allclose(got, wanted, rtol=2e-2, atol=3e-2)


FLOATS = {
    "mma.sync": {"wgmma": 0, "frags_n": 4, "chunk": 32},
    "TMA": {"wgmma": SWAPPED, "frags_n": 5, "chunk": 32},
    "TMA, split": {"wgmma": SWAPPED, "split": 2, "chunk": 32},
}
LAYERS_OF_FLOATS = {
    "odd": Conv2dNhwc(2, 9, 7, 67, 13, UNEVEN, "tf32", BIAS),
    "few filters": Conv2dNhwc(1, 9, 8, 11, 38, SAME, "tf32", REST),
    "odd filters": Conv2dNhwc(1, 7, 9, 5, 36, SAME, "tf32", REST),
}


@pytest.mark.many_cases
@pytest.mark.parametrize("knobs", FLOATS)
@pytest.mark.parametrize("name", LAYERS_OF_FLOATS)
def test_results_of_floats_on_copies_are_those_of_the_convolution(name, knobs, tmp_path):
    made = EITHER.kernel(LAYERS_OF_FLOATS[name], {**CHOICE, **FLOATS[knobs]})
    got, wanted = in_the_emulator(made, tmp_path, arrays_of(made))
    assert np.linalg.norm(got - wanted) < 2e-3 * np.linalg.norm(wanted)


@pytest.mark.many_cases
@pytest.mark.parametrize("split", [1, 2])
@pytest.mark.parametrize(
    "shape",
    [
        Conv2dNhwc(2, 7, 6, 3 * 5, 3 * 7, SAME, "float16", REST, groups=3),
        Conv2dNhwc(1, 8, 9, 2 * 20, 2 * 13, UNEVEN, "bfloat16", BIAS, groups=2),
        Conv2dNhwc(1, 6, 9, 4 * 3, 4 * 10, Window((1, 1)), "float16", BIAS, groups=4),
        Conv2dNhwc(1, 8, 9, 3 * 5, 3 * 13, SAME, "tf32", REST, groups=3),
    ],
    ids=["odd", "odd-inputs", "odd-outputs", "floats"],
)
def test_groups_of_any_channels_run_on_copies(shape, split, tmp_path):
    choice = {
        "warps_m": 2, "warps_n": 1, "frags_m": 1, "frags_n": 2, "chunk": 32, "stages": 2,
        "split": split, "band": 1,
    }  # fmt: skip
    made = OF_GROUPS.kernel(shape, choice)
    got, wanted = in_the_emulator(made, tmp_path, arrays_of(made))
    np.testing.assert_allclose(got, wanted, rtol=2e-2, atol=3e-2)


def test_groups_of_odd_channels_run_untuned():
    args = (1, 9, 9, 15, 21, 3, 3, 1, 1, True, "relu", False, False, 1, "float16", 3)
    task = create("conv2d_nhwc.cuda", args, "cuda -arch=sm_90")
    source = task.instantiate(task.default())
    assert [one.entry for one in source.calls][:2] == ["pad", "gemm_mma"]


def test_only_what_needs_it_is_copied():
    choice = {**CHOICE, "wgmma": 2}
    filters = EITHER.kernel(Conv2dNhwc(1, 9, 9, 67, 64, SAME, "float16"), choice)
    both = EITHER.kernel(Conv2dNhwc(1, 9, 9, 64, 66, SAME, "float16"), choice)
    assert "padded_data" not in [one.name for one in filters.workspace]
    assert {"padded_data", "padded_weight"} <= {one.name for one in both.workspace}
    assert filters.calls[1].launch.early


def test_filters_of_a_tap_do_not_meet_the_zeros_of_another(tmp_path):
    shape = Conv2dNhwc(1, 6, 6, 64, 72, Window((3, 3)), "float16")
    made = gemm_half.kernel(shape, {**CHOICE, "wgmma": 2})
    arrays = arrays_of(made)
    arrays[0][:] = 1
    arrays[1][1, 1, 0, 5] = np.inf
    got, _ = in_the_emulator(made, tmp_path, arrays)
    assert np.isposinf(got[..., 5]).all()
    assert np.isfinite(np.delete(got, 5, axis=-1)).all()


LAST = (False, "none", False, False, 1, "tf32")
FEW_PIXELS = (1, 36, 39, 487, 10, 7, 1, 2, (3, 0), *LAST)


def test_few_pixels_of_few_channels_are_multiplied_without_copies_untuned():
    task = create("conv2d_nhwc.cuda", FEW_PIXELS, HOPPER)
    source = task.instantiate(task.default())
    assert [one.entry for one in source.calls] == ["gemm_mma"]


WORDS = {
    "warps_m": 2, "warps_n": 4, "frags_m": 1, "frags_n": 2, "chunk": 16, "stages": 3, "split": 1,
    "band": 1,
}  # fmt: skip
BOXES = {**CHOICE, "wgmma": SWAPPED, "frags_n": 5, "chunk": 32}


@pytest.mark.parametrize(
    ("knobs", "entry"), [(BOXES, "pad"), (WORDS, "gemm_mma")], ids=["copies", "words"]
)
def test_a_configuration_of_one_space_alone_is_replayed_whatever_is_estimated(knobs, entry):
    task = create("conv2d_nhwc.cuda", FEW_PIXELS, HOPPER)
    old = ConfigEntity(0, None, {name: OtherOptionEntity(v) for name, v in knobs.items()})
    assert task.instantiate(old).calls[0].entry == entry


def test_few_pixels_of_floats_have_a_space_with_copies_and_without():
    task = create("conv2d_nhwc.cuda", (1, 14, 14, 58, 132, 1, 7, 1, (0, 3), *LAST), HOPPER)
    both = [task.default(), *task.suggested()]
    entries = [task.instantiate(point).calls[0].entry for point in both]
    assert entries == ["gemm_mma", "pad"]
    old = ConfigEntity(0, None, {name: OtherOptionEntity(v) for name, v in WORDS.items()})
    assert task.instantiate(task.own(old)).calls[0].entry == "gemm_mma"


@pytest.mark.parametrize(
    ("args", "entry"),
    [
        (
            (8, 97, 97, 12, 29, 7, 1, 2, (3, 0), True, "relu", True, False, 1, "tf32"),
            "conv2d_rows",
        ),
        ((1, 392, 392, 118, 3, 3, 3, 4, 1, *LAST[:-1], "float16"), "conv2d_rows"),
        ((8, 16, 16, 16, 30, 3, 3, 1, 1, True, "silu", False, False, 1, "tf32"), "gemm_mma"),
        ((8, 10, 10, 17, 195, 3, 1, 1, (1, 0), *LAST), "gemm_mma"),
        ((8, 38, 38, 25, 80, 2, 2, 2, 0, *LAST), "pad"),
        ((2, 23, 23, 39, 141, 1, 7, 1, (0, 3), *LAST), "pad"),
    ],
    ids=["large copies, residual", "large copies", "split", "split, odd", "few copies", "long"],
)
def test_the_bytes_of_copies_and_the_launch_that_a_split_hides_count(args, entry):
    task = create("conv2d_nhwc.cuda", args, HOPPER)
    assert task.instantiate(task.default()).calls[0].entry == entry


@pytest.mark.parametrize(
    ("shape", "entries"),
    [
        (
            Conv2dNhwc(2, 49, 49, 386, 378, Window((1, 7), padding=(0, 3, 0, 3)), "float16", BIAS),
            ["pad", "gemm_tma"],
        ),
        (
            Conv2dNhwc(1, 63, 63, 373, 544, Window((5, 5), (2, 2), (2,) * 4), "float16"),
            ["pad", "gemm_tma", "gemm_tma_reduce"],
        ),
        (Conv2dNhwc(1, 56, 56, 100, 100, SAME, "bfloat16", BIAS), ["pad", "gemm_wgmma"]),
        (Conv2dNhwc(2, 96, 96, 258, 130, Window((1, 1), (2, 2)), "float16"), ["gemm_mma"]),
        (Conv2dNhwc(2, 13, 13, 7, 3, SAME, "float16"), ["conv2d_rows"]),
    ],
    ids=["even", "odd", "short", "large images", "tiny"],
)
def test_wgmma_runs_untuned_where_it_outweighs_the_copies(shape, entries):
    w, after = shape.window, shape.epilogue
    args = (
        shape.images, shape.h, shape.w, shape.co, shape.ci, *w.size, w.stride, w.padding,
        after.bias, after.activation, False, False, w.dilation, shape.dtype,
    )  # fmt: skip
    task = create("conv2d_nhwc.cuda", args, "cuda -arch=sm_90")
    source = task.instantiate(task.default())
    assert [one.entry for one in source.calls] == entries
    assert launch_violation(source.kernel("cuda"), task.target.limits) is None


def test_other_devices_have_no_copies_of_even_channels():
    shape = Conv2dNhwc(2, 49, 49, 386, 378, SAME, "float16")
    assert conv2d_padded.gains(shape, HOPPER)
    assert not conv2d_padded.gains(shape, AMPERE)
    task = create("conv2d_nhwc.cuda", (2, 49, 49, 387, 378, 3, 3, 1, 1, False, "none", False,
                                       False, 1, "float16"), AMPERE)  # fmt: skip
    assert [one.entry for one in task.instantiate(task.default()).calls][:2] == ["pad", "gemm_mma"]
    assert "wgmma" not in conv2d_padded.Padded(gemm_mma).candidates(shape)


def test_the_space_has_each_instruction():
    shape = Conv2dNhwc(2, 49, 49, 387, 378, SAME, "float16")
    assert {0, 1, 2} <= set(EITHER.candidates(shape)["wgmma"])
    mma = {"wgmma": 0, **gemm_mma.default_choice(conv2d_padded.copied(shape), HOPPER)}
    assert EITHER.violation(shape, mma, HOPPER) is None
    untuned = EITHER.default_choice(shape, HOPPER)
    assert EITHER.violation(shape, untuned, HOPPER) is None
    assert EITHER.violation(shape, untuned, AMPERE) is not None
