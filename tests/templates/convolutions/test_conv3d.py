"""3-D convolutions and transposed ones, as 2-D ones between copies."""

from dataclasses import replace

import autotune.templates  # noqa: F401 - registers the tasks
import numpy as np
import pytest
from autotune.templates.convolutions import (
    conv2d_bf16x3,
    conv2d_cuda,
    conv2d_im2col,
    conv2d_product,
    conv2d_small_k,
    conv2d_transpose_direct,
)
from autotune.templates.convolutions.conv2d_transpose import Conv2dTranspose
from autotune.templates.convolutions.conv3d import Conv3d
from autotune.templates.convolutions.via_conv2d import ViaConv2d

from autotune.emulator import run_emulated
from autotune.errors import TemplateError
from autotune.graph import ops
from autotune.kernel import launch_violation
from autotune.target import Target
from autotune.task import ConfigEntity, OtherOptionEntity, create
from tests.templates.emulated import arrays_of, check_emulated

HOPPER, RNG = Target("cuda -arch=sm_90"), np.random.default_rng
# Arguments, and the kernels that run where nothing is read and written in place.
BOTH = ["arrange_data", "conv2d_nchw", "arrange_out"]
VOLUMES = {
    "cubes": (((1, 3, 5, 6, 7), (4, 3, 3, 3, 3), (1,), (1,)), BOTH),
    "steps, holes, sides": (
        ((2, 3, 5, 6, 4), (4, 3, 2, 3, 1), (2, 1, 2), (1, 0, 1, 0, 2, 1), (2, 1, 1)),
        BOTH,
    ),
    "one result": (
        ((1, 4, 3, 6, 5), (8, 4, 3, 3, 3), (1,), (0, 1, 1)),
        ["arrange_data", "conv2d_nchw"],
    ),
    "along depth": (((1, 4, 4, 6, 5), (8, 4, 3, 1, 1), (1,), (1, 0, 0)), ["conv2d_nchw"]),
    "along depth, of every second pixel": (
        ((2, 3, 5, 7, 6), (4, 3, 3, 1, 1), (2,), (1, 0, 0)),
        ["arrange_data", "conv2d_nchw"],
    ),
    "every second element": (
        ((2, 3, 5, 7, 6), (4, 3, 1, 1, 1), (2, 2, 3)),
        ["arrange_data", "conv2d_nchw"],
    ),
    "along rows, of every second plane": (
        ((1, 3, 4, 6, 5), (4, 3, 1, 1, 3), (2, 1, 2), (0, 0, 1)),
        ["arrange_data", "conv2d_nchw"],
    ),
    "channels last, of every second pixel": (
        ((1, 4, 6, 5, 4), (3, 1, 1, 4, 8), (2,), (1, 0, 0), (1,), "NDHWC"),
        ["arrange_data", "gemm_nn"],
    ),
    "one plane": (((2, 4, 1, 6, 5), (8, 4, 1, 3, 3), (1,), (0, 1, 1)), ["conv2d_nchw"]),
    "elements": (((1, 4, 3, 6, 5), (8, 4, 1, 1, 1)), ["conv2d_nchw"]),
    "channels last": (
        ((2, 5, 6, 4, 3), (2, 3, 1, 3, 4), (2, 1, 2), (1, 0, 1, 0, 2, 1), (2, 1, 1), "NDHWC"),
        ["arrange_data", "arrange_weight", "gemm_nn"],
    ),
    "channels last, along depth": (
        ((1, 4, 6, 5, 4), (3, 1, 1, 4, 8), (1,), (1, 0, 0), (1,), "NDHWC"),
        ["gemm_nn"],
    ),
    "channels last, planes": (
        ((2, 4, 6, 5, 4), (1, 3, 3, 4, 8), (1,), (0, 1, 1), (1,), "NDHWC"),
        ["gemm_nn"],
    ),
}
WOVEN = ["arrange_weight", "conv2d_nchw", "arrange_out"]
SPREAD = {
    "4x4 of 2": (((2, 3, 5, 6), (3, 4, 4, 4), (2,), (1,)), WOVEN),
    "uneven": (((1, 70, 4, 3), (70, 5, 3, 2), (2, 3), (1, 0), (1, 2)), WOVEN),
    "of 1": (((1, 5, 4, 4), (5, 6, 4, 4), (1,), (0,)), WOVEN[:2]),
    "16x16 of 8": (((1, 4, 3, 3), (4, 3, 16, 16), (8,), (4,)), WOVEN),
    "of rows": (((1, 4, 5, 3), (4, 3, 3, 3), (2, 1), (1, 0, 0, 1), (1, 0)), WOVEN),
}


@pytest.fixture(autouse=True)
def transposed_layers_are_between_copies(monkeypatch):
    monkeypatch.setattr(conv2d_transpose_direct, "is_faster", lambda *_: False)


@pytest.mark.many_cases
@pytest.mark.parametrize(
    ("template", "case"),
    [
        *(("conv3d.cuda", case) for case in VOLUMES.values()),
        *(("conv2d_transpose.cuda", case) for case in SPREAD.values()),
    ],
    ids=[*VOLUMES, *SPREAD],
)
def test_kernels_match_their_reference_in_the_emulator(template, case):
    args, entries = case
    if "conv2d_nchw" in entries and template == "conv3d.cuda":
        entries = ["conv2d_nchw"]
    task = create(template, args, "cuda -emulate")
    assert [each.entry for each in task.instantiate(task.default()).calls] == entries
    check_emulated(template, args, 2)


def volume(data, weight, strides=(1,), padding=(0,), dilation=(1,)):
    return Conv3d(ops.Conv3d(strides, padding, dilation, 1, "NCDHW", "OIDHW"), data, weight)


def check_volume(shape, family, choice):
    source = ViaConv2d(family).kernel(shape, choice)
    arrays = arrays_of(source)
    run_emulated(source.kernel("cuda"), arrays, orders=(0,))
    wanted = source.reference(*(x.astype(np.float64) for x in arrays[:-1]))
    np.testing.assert_allclose(arrays[-1], wanted, rtol=1e-4, atol=1e-4)
    return [call.entry for call in source.calls]


@pytest.mark.many_cases
@pytest.mark.parametrize("name", [name for name in VOLUMES if not name.startswith("channels")])
def test_volumes_are_right_between_copies(name):
    args, entries = VOLUMES[name]
    shape = volume(*args)
    choice = conv2d_cuda.default_choice(shape.conv2d, Target("cuda -emulate"))
    assert check_volume(shape, conv2d_cuda, choice) == entries


# Planes with padding before, behind and on both sides, steps and holes, of one and two volumes.
IN_PLACE = {
    "cubes": ((2, 6, 5, 6, 7), (4, 6, 3, 3, 3), (1,), (1,)),
    "steps, holes, sides": (
        (2, 6, 7, 6, 4), (4, 6, 3, 3, 1), (2, 1, 2), (1, 1, 0, 2, 2, 1), (2, 1, 1),
    ),
    "every second element": ((2, 6, 5, 7, 6), (4, 6, 1, 1, 1), (2, 2, 3)),
    "planes": ((2, 5, 4, 9, 9), (3, 5, 1, 3, 3), (1,), (0, 1, 1)),
    "lines": ((2, 6, 5, 1, 40), (4, 6, 3, 1, 3), (1,), (1, 0, 1)),
    "odd planes": ((2, 9, 4, 5, 5), (7, 9, 2, 1, 1), (2, 2, 1), (0, 0, 0, 2, 0, 0)),
}  # fmt: skip
COPIED = ["arrange_data", "im2col_bf16x3", "gemm_bf16x3"]
BY_PIECES = {"rows": 4, "chunk": 8, "slices": 1, "split": 1, "stages": 1, "ahead": 2}
BY_FAMILY = {
    conv2d_bf16x3: BY_PIECES | {"stages": 2},
    conv2d_cuda: None,
    conv2d_small_k: {"filters": 3, "each": 2, "threads": 64},
}


@pytest.mark.parametrize("family", BY_FAMILY, ids=lambda each: each.__name__.split(".")[-1])
@pytest.mark.parametrize("name", IN_PLACE)
def test_volumes_are_right_in_place(name, family):
    shape = replace(volume(*IN_PLACE[name]), in_place=True)
    emulated = Target("cuda -emulate")
    choice = BY_FAMILY[family] or conv2d_cuda.default_choice(shape.conv2d, emulated)
    if family is conv2d_bf16x3 and shape.conv2d.ci <= 8:
        choice = choice | {"stages": 1}
    [entry] = check_volume(shape, family, choice)
    assert entry == {conv2d_cuda: "conv2d_nchw"}.get(family, family.__name__.split(".")[-1])


@pytest.mark.parametrize(
    ("args", "entries"),
    [
        (((2, 16, 11, 17, 17), (16, 16, 1, 3, 3), (1,), (0, 1, 1)), ["conv2d_bf16x3"]),
        (((1, 7, 11, 24, 24), (16, 7, 3, 3, 3), (1,), (1,)), ["conv2d_nchw"]),
        (((1, 256, 16, 56, 56), (512, 256, 1, 1, 1), (2,)), COPIED),
        (((1, 4, 11, 24, 24), (29, 4, 3, 3, 3), (2,), (1,)), ["conv2d_nchw"]),
        (
            ((2, 64, 7, 56, 56), (29, 64, 3, 3, 3), (2,), (1,)),
            ["arrange_data", "gemm_bf16x3_fused", "gemm_bf16x3_reduce", "arrange_out"],
        ),
    ],
)
def test_untuned_volumes_are_in_place_where_that_is_estimated_to_be_faster(args, entries):
    task = create("conv3d.cuda", args, HOPPER)
    assert [each.entry for each in task.instantiate(task.default()).calls] == entries


@pytest.mark.parametrize("family", [conv2d_im2col, conv2d_product], ids=["im2col", "product"])
def test_what_was_chosen_of_families_that_are_not_in_place_runs_between_copies(family):
    args = ((2, 32, 16, 20, 20), (70, 32, 3, 3, 3), (1,), (1,))
    task, shape = create("conv3d.cuda", args, HOPPER), volume(*args)
    assert shape.faster(HOPPER).in_place
    choice = family.default_choice(shape.conv2d, HOPPER)
    knobs = {name: OtherOptionEntity(value) for name, value in choice.items()}
    made = task.instantiate(ConfigEntity(7, None, knobs))
    assert made.calls == ViaConv2d(family).kernel(shape, choice).calls
    assert [made.calls[i].entry for i in (0, -1)] == ["arrange_data", "arrange_out"]


@pytest.mark.parametrize(
    ("template", "args"),
    [
        ("conv3d.cuda", ((1, 64, 8, 28, 28), (64, 64, 3, 3, 3), (1,), (1,))),
        ("conv3d.cuda", ((1, 8, 28, 28, 64), (3, 3, 3, 64, 64), (1,), (1,), (1,), "NDHWC")),
        ("conv2d_transpose.cuda", ((8, 128, 16, 16), (128, 64, 4, 4), (2,), (1,))),
        ("conv2d_transpose.cuda", ((1, 4, 3, 3), (4, 3, 64, 64), (32,), (16,))),
    ],
)
def test_defaults_fit_the_device(template, args):
    task = create(template, args, "cuda -arch=sm_90")
    kernel = task.instantiate(task.default()).kernel("cuda")
    assert launch_violation(kernel, task.target.limits) is None
    assert task.target.limits == Target("cuda -arch=sm_90").limits


@pytest.mark.many_cases
@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("name", SPREAD)
def test_phases_are_right_as_groups_and_as_channels(name, apart):
    (data, weight, strides, padding, *more), _ = SPREAD[name]
    op = ops.Conv2dTranspose(strides, padding, *more)
    shape, target = Conv2dTranspose(op, data, weight, apart), Target("cuda -emulate")
    family = ViaConv2d(conv2d_cuda)
    source = family.kernel(shape, family.default_choice(shape, target))
    arrays = arrays_of(source)
    run_emulated(source.kernel("cuda"), arrays, orders=(0,))
    wanted = source.reference(*(x.astype(np.float64) for x in arrays[:-1]))
    np.testing.assert_allclose(arrays[-1], wanted, rtol=1e-4, atol=1e-4)


def test_the_space_has_phases_as_channels_and_as_groups():
    task = create("conv2d_transpose.cuda", ((1, 512, 8, 8), (512, 256, 4, 4), (2,), (1,)), HOPPER)
    configs = [task.config_space.get(i) for i in task.config_space.sample(20, RNG(0))]
    assert {config["apart"].val for config in configs} == {0, 1}
    kernels = {config["apart"].val: task.instantiate(config) for config in configs}
    assert [[call.entry for call in kernels[way].calls] for way in (0, 1)] == [
        ["arrange_weight", "conv2d_bf16x3", "arrange_out"],
        ["arrange_weight", "arrange_data", "conv2d_bf16x3", "arrange_out"],
    ]


def test_few_pixels_have_phases_as_groups_untuned():
    few = create("conv2d_transpose.cuda", ((1, 512, 8, 8), (512, 256, 4, 4), (2,), (1,)), HOPPER)
    many = create("conv2d_transpose.cuda", ((1, 64, 128, 128), (64, 3, 4, 4), (2,), (1,)), HOPPER)
    assert (few.default()["apart"].val, many.default()["apart"].val) == (1, 0)


def test_a_configuration_from_before_still_builds_its_kernel():
    task = create("conv2d_transpose.cuda", ((1, 512, 8, 8), (512, 256, 4, 4), (2,), (1,)), HOPPER)
    shape = Conv2dTranspose(ops.Conv2dTranspose((2,), (1,)), (1, 512, 8, 8), (512, 256, 4, 4))
    knobs = conv2d_bf16x3.default_choice(shape.conv2d, HOPPER)
    old = ConfigEntity(0, None, {name: OtherOptionEntity(v) for name, v in knobs.items()})
    assert [each.entry for each in task.instantiate(old).calls] == [
        "arrange_weight", "conv2d_bf16x3", "arrange_out",
    ]  # fmt: skip


def test_sums_are_counted_once():
    shape = Conv2dTranspose(ops.Conv2dTranspose((2,), (1,)), (1, 3, 5, 6), (3, 4, 4, 4))
    assert shape.out == (1, 4, 10, 12)
    assert shape.flop == 2 * 3 * 5 * 6 * 4 * 4 * 4
    assert shape.bytes == 4 * (3 * 30 + 3 * 4 * 16 + 4 * 120)


@pytest.mark.parametrize(
    ("template", "args", "message"),
    [
        ("conv3d.cuda", ((1, 3, 5, 6, 7), (4, 2, 3, 3, 3)), "3 input channels"),
        ("conv3d.cuda", ((1, 3, 2, 6, 7), (4, 3, 3, 3, 3)), "no larger than the padded data"),
        ("conv2d_transpose.cuda", ((1, 3, 5, 6), (2, 4, 3, 3)), r"\[in, out, height, width\]"),
        ("conv2d_transpose.cuda", ((1, 3, 5, 6), (3, 4, 1, 1), (1,), (1,)), "padding exceeds"),
    ],
)
def test_what_cannot_be_is_an_error_that_says_so(template, args, message):
    with pytest.raises(TemplateError, match=message):
        create(template, args, "cuda")
