"""Convolutions of float32 by products of bfloat16: what they compute, what is offered."""

import time
from dataclasses import replace
from itertools import product

import autotune.templates  # noqa: F401 - registers the tasks
import numpy as np
import pytest
from autotune.templates.convolutions import conv2d_bf16x3, conv2d_cuda
from autotune.templates.convolutions.conv2d_shape import Conv2d

from autotune.emulator import EmulatedKernel, compile_emulated
from autotune.kernel import launch_violation
from autotune.target import Target
from autotune.task import ConfigEntity, create
from autotune.task.kinds import OtherOptionEntity
from tests.pace import is_within
from tests.templates.assembled import needs_nvcc, spilled
from tests.templates.emulated import arrays_of

HOPPER = Target("cuda -arch=sm_90")
CHOICE = {"rows": 4, "chunk": 16, "slices": 1, "split": 1, "stages": 1, "ahead": 2}
# Shapes with edges everywhere, and how their choices differ from that above.
LAYERS = {
    "filters-beyond-64": (Conv2d(1, 9, 10, 70, 16, 3, 3, (1, 1), (1, 1), True, False), {}),
    "stride-two-chunks": (
        Conv2d(2, 15, 17, 64, 24, 3, 3, (2, 2), (1, 1), False, True),
        {"rows": 2, "chunk": 8, "stages": 2},
    ),
    "one-tap": (
        Conv2d(1, 14, 14, 64, 48, 1, 1, (2, 2), (0, 0), False, False),
        {"rows": 7, "slices": 3},
    ),
    "pixels-on-their-own": (
        Conv2d(2, 10, 12, 64, 32, 1, 1, (1, 1), (0, 0), True, True, True),
        {"rows": 6, "slices": 2},
    ),
    "pixels-of-an-odd-plane": (
        Conv2d(2, 23, 23, 70, 24, 1, 1, (1, 1), (0, 0), True, True, True),
        {"rows": 5, "slices": 2, "split": 1},
    ),
    "odd-rows": (Conv2d(1, 9, 11, 70, 16, 3, 1, (1, 1), (1, 0), True, True, True, True), {}),
    "slices-rest": (
        Conv2d(1, 7, 7, 64, 64, 3, 3, (1, 1), (1, 1), True, False, True, True, kept=True),
        {"rows": 7, "slices": 2, "stages": 2},
    ),
    "few-channels": (Conv2d(1, 23, 31, 64, 3, 7, 7, (2, 2), (3, 3), False, False), {"chunk": 8}),
    "dilated-groups": (
        Conv2d(1, 9, 9, 32, 32, 3, 3, (1, 1), (2, 2), False, False, dilation=(2, 2), groups=2),
        {"rows": 8},
    ),
    "dilated-line": (
        Conv2d(1, 1, 60, 64, 16, 1, 3, (1, 1), (0, 16, 0, 16), True, True, dilation=(1, 16)),
        {},
    ),
    "dilated-line-odd-and-causal": (
        Conv2d(
            2,
            1,
            99,
            20,
            16,
            1,
            2,
            (1, 1),
            (0, 23, 0, 0),
            True,
            False,
            True,
            dilation=(1, 23),
            groups=2,
            kept=True,
        ),
        {"rows": 5, "chunk": 8},
    ),
    "dilated-line-shorter": (
        Conv2d(1, 1, 83, 64, 24, 1, 4, (1, 1), (0, 0), False, False, dilation=(1, 8)),
        {"rows": 7, "chunk": 8, "slices": 3},
    ),
    "line": (
        Conv2d(2, 1, 101, 70, 16, 1, 3, (1, 1), (0, 1, 0, 1), True, True, True),
        {"rows": 5},
    ),
    "line-causal-with-narrow-dilation-and-groups": (
        Conv2d(
            2,
            1,
            67,
            40,
            32,
            1,
            4,
            (1, 1),
            (0, 9, 0, 0),
            True,
            False,
            dilation=(1, 3),
            groups=2,
            kept=True,
        ),
        {"rows": 6, "chunk": 8, "stages": 2},
    ),
    "line-strided": (
        Conv2d(1, 1, 154, 64, 24, 1, 5, (1, 3), (0, 2, 0, 7), False, False),
        {"rows": 4, "chunk": 8, "slices": 3},
    ),
    "line-of-few-channels": (
        Conv2d(2, 1, 130, 64, 2, 1, 7, (1, 2), (0, 3, 0, 3), True, False),
        {"rows": 7, "chunk": 8},
    ),
    "uneven": (
        Conv2d(1, 8, 11, 20, 20, 2, 5, (1, 3), (0, 1, 1, 2), False, False, activation="relu6"),
        {"rows": 5, "chunk": 8, "stages": 3},
    ),
}


@pytest.mark.many_cases
@pytest.mark.parametrize("strange", [False, True], ids=["exact", "flagged"])
@pytest.mark.parametrize("name", LAYERS)
def test_sums_are_right_also_where_floats_have_no_pieces(name, strange, tmp_path):
    shape, change = LAYERS[name]
    source = conv2d_bf16x3.kernel(shape, {**CHOICE, **change})
    kernel, arrays = source.kernel("cuda"), arrays_of(source)
    if strange:
        arrays[0].flat[5], arrays[1].flat[7], arrays[1].flat[-1] = 1e30, 1e-42, np.nan
    # Checks take as long as all else.
    library = compile_emulated(kernel, tmp_path / "kernel.so", arch="sm_90", checked=False)
    EmulatedKernel(library, kernel).run(arrays, order=7, checked=False)
    given = (x for x, a in zip(arrays, source.args, strict=True) if a.role == "in")
    wanted = source.reference(*(x.astype(np.float64) for x in given))
    wanted = wanted if isinstance(wanted, tuple) else (wanted,)
    for array, want in zip(arrays[-len(wanted) :], wanted, strict=True):
        exists = ~np.isnan(want)  # a ReLU makes 0 of those
        assert strange or exists.all()
        np.testing.assert_allclose(array.astype(np.float64)[exists], want[exists], 1e-5, 3e-5)


def test_pixels_on_their_own_stand_in_rows_as_long_as_a_tiles():
    shape, _ = LAYERS["pixels-on-their-own"]
    assert (conv2d_bf16x3.tiled(shape).h, conv2d_bf16x3.tiled(shape).w) == (15, 8)
    odd, apart = replace(shape, h=7, w=7), replace(shape, stride=(2, 2))
    assert conv2d_bf16x3.tiled(odd) is odd
    assert conv2d_bf16x3.tiled(apart) is apart


def test_lines_with_wide_dilations_are_dense_convolutions_down_the_columns_of_an_image():
    line = Conv2d(1, 1, 4000, 64, 64, 1, 3, (1, 1), (0, 512), False, False, dilation=(1, 512))
    image = conv2d_bf16x3.tiled(line)
    assert (image.h, image.w, image.kh, image.kw) == (8, 512, 3, 1)
    assert (image.oh, image.ow, image.padding) == (8, 512, (1, 0, 1, 0))
    assert conv2d_bf16x3.offered(line, HOPPER)


def test_short_lines_with_dilations_too_wide_for_fmaf_have_a_kernel():
    sides, holes = (0, 320, 0, 320), (1, 64)
    args = (1, 1, 370, 346, 7, 1, 11, (1, 1), sides, True, False, False, False, holes, 1, "silu")
    task = create("conv2d_nchw.cuda", args, HOPPER)
    assert [one.entry for one in task.instantiate(task.default()).calls] == ["conv2d_bf16x3"]


def test_other_lines_are_images_of_rows_whose_halo_is_in_the_rows_beside_them():
    line = Conv2d(1, 1, 4000, 64, 64, 1, 3, (1, 1), (0, 1), False, False)
    image = conv2d_bf16x3.tiled(line)
    assert (image.h, image.w, image.kh, image.kw, image.padding) == (500, 8, 1, 3, (0, 1, 0, 1))
    assert (image.oh, image.ow) == (500, 8)
    narrow = conv2d_bf16x3.tiled(replace(line, dilation=(1, 4), padding=(0, 4)))
    assert (narrow.oh, narrow.ow, narrow.padding) == (500, 8, (0, 4, 0, 4))
    strided = conv2d_bf16x3.tiled(replace(line, stride=(1, 3), padding=(0, 2, 0, 7)))
    assert (strided.h, strided.w, strided.oh, strided.ow) == (167, 24, 167, 8)
    beyond = replace(line, padding=(0, 3))
    assert conv2d_bf16x3.tiled(beyond) is beyond


RESNET = [
    Conv2d(1, size, size, co, ci, k, k, (s, s), (p, p), False, False)
    for size, co, ci, k, s, p in (
        (224, 64, 3, 7, 2, 3), (56, 64, 64, 3, 1, 1), (56, 128, 64, 3, 2, 1),
        (28, 128, 128, 3, 1, 1), (28, 256, 128, 3, 2, 1), (14, 256, 256, 3, 1, 1),
        (14, 512, 256, 3, 2, 1), (7, 512, 512, 3, 1, 1),
    )
]  # fmt: skip
SHAPES = [
    *RESNET,
    Conv2d(16, 28, 28, 128, 128, 3, 3, (1, 1), (1, 1), True, True),
    Conv2d(2, 17, 19, 100, 36, 5, 5, (1, 1), (2, 2), False, False),
    Conv2d(1, 35, 35, 96, 64, 1, 7, (1, 1), (0, 3), False, False),
]


def valid(shape):
    """Return all choices that can run."""
    options = conv2d_bf16x3.candidates(shape)
    every = (dict(zip(options, each, strict=True)) for each in product(*options.values()))
    return [choice for choice in every if not conv2d_bf16x3.violation(shape, choice, HOPPER)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_every_shape_has_choices_that_fit_a_block_and_its_default_is_one(shape):
    choices = valid(shape)
    assert conv2d_bf16x3.default_choice(shape, HOPPER) in choices
    for choice in choices[:: len(choices) // 20 + 1]:
        kernel = conv2d_bf16x3.kernel(shape, choice).kernel("cuda")
        assert launch_violation(kernel, HOPPER.limits) is None


@pytest.mark.many_cases
@needs_nvcc
@pytest.mark.parametrize("shape", [RESNET[0], RESNET[1], RESNET[4], RESNET[7]], ids=str)
def test_products_are_not_serialized_and_sums_stay_in_registers(shape, tmp_path):
    choice = conv2d_bf16x3.default_choice(shape, HOPPER)
    kernel = conv2d_bf16x3.kernel(shape, choice).kernel("cuda")
    assert spilled(kernel, tmp_path)[0] <= 64


def entry(args, target):
    """Return what the untuned template launches last."""
    task = create("conv2d_nchw.cuda", args, target)
    return task.instantiate(task.default()).calls[-1].entry


LAYER = (1, 14, 14, 256, 256, 3, 3, 1, 1)


@pytest.mark.parametrize(
    "args", [LAYER, (1, 224, 224, 64, 3, 7, 7, 2, 3), (8, 28, 28, 128, 128, 3, 3, 1, 1, True)],
    ids=str,
)  # fmt: skip
def test_layers_run_on_tensor_cores_unless_that_is_excluded(args):
    assert entry(args, HOPPER) == "conv2d_bf16x3"
    rest = (False, False, False, False, 1, 1, "none", False, False)[len(args) - 9 :]
    excluded = (*args, *rest, True)
    assert not entry(excluded, HOPPER).startswith("conv2d_bf16x3")


@pytest.mark.parametrize("target", ["cuda -arch=sm_80", "cuda -arch=sm_100", "cuda -emulate"])
def test_other_targets_keep_the_space_of_fma(target):
    space = create("conv2d_nchw.cuda", LAYER, target).config_space
    assert "channels" in space.space_map


@pytest.mark.parametrize("args", [(1, 8, 8, 4, 4, 3, 3, 1, 1), (1, 14, 14, 16, 16, 1, 1)], ids=str)
def test_layers_that_would_not_gain_keep_fma(args):
    assert entry(args, HOPPER).startswith(("conv2d_nchw", "conv2d_small_k"))


def test_a_configuration_of_fma_from_a_log_still_builds_its_kernel():
    shape = Conv2d(1, 14, 14, 256, 256, 3, 3, (1, 1), (1, 1), False, False)
    choice = conv2d_cuda.default_choice(shape, HOPPER)
    entities = {name: OtherOptionEntity(value) for name, value in choice.items()}
    source = create("conv2d_nchw.cuda", LAYER, HOPPER).instantiate(ConfigEntity(7, None, entities))
    assert source.text() == conv2d_cuda.kernel(shape, choice).text()


def test_the_space_is_counted_in_a_fifth_of_a_second_and_what_it_draws_builds():
    task = create("conv2d_nchw.cuda", LAYER, HOPPER)
    begun = time.process_time()
    space = create("conv2d_nchw.cuda", LAYER, HOPPER).config_space
    assert len(space) == len(valid(RESNET[5]))
    assert is_within(time.process_time() - begun, 0.2)
    for index in space.sample(20, np.random.default_rng(0)):
        kernel = task.instantiate(space.get(index)).kernel("cuda")
        assert launch_violation(kernel, HOPPER.limits) is None


def test_filters_whose_rows_are_odd_are_known_to_be_copied_one_element_at_a_time():
    odd, even = (
        Conv2d(8, 49, 49, 17, ci, 5, 5, (1, 1), (2, 2), False, False) for ci in (109, 112)
    )
    choice = {"rows": 7, "chunk": 8, "slices": 1, "split": 1, "stages": 2, "ahead": 2}
    assert [conv2d_bf16x3.PiecesTiling(each, choice).w_copy for each in (odd, even)] == [1, 4]
    assert conv2d_bf16x3.cycles(odd, choice, HOPPER) > 1.3 * conv2d_bf16x3.cycles(
        even, choice, HOPPER
    )


@pytest.mark.parametrize(
    ("channels", "size", "stages", "spills"),
    [(65, (5, 5), 3, True), (65, (3, 7), 3, True), (65, (5, 5), 2, False), (66, (5, 5), 3, False),
     (65, (3, 5), 3, False), (65, (7, 7), 3, False)],
)  # fmt: skip
def test_three_stages_do_not_copy_odd_rows_of_so_many_taps_that_addresses_are_spilled(
    channels, size, stages, spills
):
    shape = Conv2d(1, 28, 28, 64, channels, *size, (1, 1), (2, 2), False, False)
    choice = {"rows": 4, "chunk": 8, "slices": 1, "split": 2, "stages": stages, "ahead": 2}
    reason = conv2d_bf16x3.violation(shape, choice, HOPPER) or ""
    assert ("spilled" in reason) == spills
