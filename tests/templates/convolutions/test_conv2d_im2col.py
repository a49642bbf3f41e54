"""Convolutions by explicit im2col: right, and where they are offered."""

import autotune.templates  # noqa: F401 - registers the tasks
import numpy as np
import pytest
from autotune.templates.convolutions import conv2d_cuda, conv2d_im2col
from autotune.templates.convolutions.conv2d_shape import Conv2d

from autotune.kernel import launch_violation
from autotune.target import Target
from autotune.task import ConfigEntity, create
from autotune.task.kinds import OtherOptionEntity
from tests.templates.emulated import arrays_of, in_the_emulator

HOPPER = Target("cuda -arch=sm_90")
CHOICE = {"tile_n": 128, "chunk": 32, "stages": 3, "in_turn": 0, "split": 1, "band": 1}
PATCHES = (1, 224, 224, 768, 3, 16, 16, 16, 0, True)
LINE = (1, 1, 3000, 512, 512, 1, 3, (1, 2), (0, 1, 0, 1), True)
# Rows of its dilation would start between two taps.
GAPS = (1, 1, 4000, 64, 64, 1, 3, 1, (0, 500), True, False, False, False, (1, 512))
LAYERS = {
    "begun": (Conv2d(2, 24, 33, 70, 3, 8, 8, (8, 8), (0, 0), True, False, activation="gelu"), {}),
    "gaps": (
        Conv2d(2, 15, 16, 70, 16, 3, 3, (4, 3), (0, 0), False, True),
        {"chunk": 64, "stages": 2},
    ),
    "line": (
        Conv2d(2, 1, 61, 40, 48, 1, 3, (1, 2), (0, 1), True, False, activation="gelu"),
        {"chunk": 64, "stages": 2},
    ),
    "uneven": (
        Conv2d(1, 9, 16, 70, 15, 3, 4, (2, 2), (0, 2, 3, 4), False, True, dilation=(2, 1)),
        {},
    ),
    "dilated": (Conv2d(1, 1, 50, 70, 32, 1, 5, (1, 1), (0, 8), True, False, dilation=(1, 4)), {}),
    "points": (
        Conv2d(2, 10, 13, 70, 37, 1, 1, (2, 2), (0, 0), True, False, residual=True),
        {"tile_n": 64},
    ),
    "points in place": (Conv2d(2, 9, 12, 70, 40, 1, 1, (1, 1), (0, 0), False, True), {}),
    "points beyond": (Conv2d(1, 7, 9, 70, 33, 1, 1, (1, 2), (1, 2), True, False), {}),
    "odd": (Conv2d(1, 29, 30, 40, 3, 14, 14, (14, 14), (0, 0), True, False), {}),
}


@pytest.mark.many_cases
@pytest.mark.parametrize("strange", [False, True], ids=["exact", "flagged"])
@pytest.mark.parametrize("name", LAYERS)
def test_results_are_right_with_infinities_and_nans_too(name, strange, tmp_path):
    shape, change = LAYERS[name]
    source = conv2d_im2col.kernel(shape, {**CHOICE, **change})
    arrays = arrays_of(source)
    if strange:
        arrays[0].flat[5], arrays[1].flat[7], arrays[1].flat[-1] = 1e30, 1e-42, np.nan
    got, wanted = in_the_emulator(source, tmp_path, arrays)
    exists = ~np.isnan(wanted)  # a ReLU makes 0 of those
    assert strange or exists.all()
    np.testing.assert_allclose(got[exists], wanted[exists], 1e-5, 3e-5)


@pytest.mark.parametrize("args", [PATCHES, LINE, GAPS], ids=["patches", "line", "wide gaps"])
def test_patch_embeddings_and_1d_convolutions_of_speech_use_im2col_untuned(args):
    task = create("conv2d_nchw.cuda", args, HOPPER)
    source = task.instantiate(task.default())
    assert [one.entry for one in source.calls] == ["im2col_bf16x3", "gemm_bf16x3"]
    assert launch_violation(source.kernel("cuda"), HOPPER.limits) is None
    assert [one.name for one in source.args] == ["data", "weight", "bias", "out"]


@pytest.mark.parametrize(
    "args",
    [
        (4, 28, 28, 1024, 512, 1, 1, 2, 0),
        (4, 27, 27, 1024, 1240, 1, 1, 1, 0, True, True),
        (1, 152, 152, 116, 65, 3, 3, 1, 12, True, False, True, False, 12),
    ],
    ids=["stride", "bias", "dilated, with a residual"],
)
def test_large_layers_whose_images_are_split_again_and_again_use_im2col_untuned(args):
    task = create("conv2d_nchw.cuda", args, HOPPER)
    source = task.instantiate(task.default())
    assert [one.entry for one in source.calls] == ["im2col_bf16x3", "gemm_bf16x3"]
    assert launch_violation(source.kernel("cuda"), HOPPER.limits) is None


def test_images_that_are_the_matrix_are_not_copied():
    shape = LAYERS["points in place"][0]
    buffers = [each.name for each in conv2d_im2col.kernel(shape, CHOICE).workspace]
    assert buffers == ["packed_a", "packed_b", "flags"]
    assert "columns" in [
        each.name for each in conv2d_im2col.kernel(LAYERS["points"][0], CHOICE).workspace
    ]


def test_a_configuration_from_before_still_builds_its_kernel():
    shape = Conv2d(1, 224, 224, 768, 3, 16, 16, (16, 16), (0, 0), True, False)
    choice = conv2d_cuda.default_choice(shape, HOPPER)
    entities = {name: OtherOptionEntity(value) for name, value in choice.items()}
    task = create("conv2d_nchw.cuda", PATCHES, HOPPER)
    source = task.instantiate(ConfigEntity(7, None, entities))
    assert source.text() == conv2d_cuda.kernel(shape, choice).text()


@pytest.mark.parametrize(
    "shape",
    [
        Conv2d(1, 1, 4000, 64, 64, 1, 3, (1, 1), (0, 1), True, False),
        Conv2d(1, 224, 224, 768, 3, 16, 16, (16, 16), (0, 0), True, False, affine=True),
        Conv2d(1, 224, 224, 96, 3, 4, 4, (4, 4), (0, 0), True, False),
        Conv2d(1, 28, 28, 256, 128, 1, 1, (1, 1), (0, 0), True, False),
        Conv2d(8, 105, 108, 352, 40, 1, 1, (2, 2), (0, 0), False, False),
    ],
    ids=["few-filters", "affine", "short", "small pixels", "few channels"],
)
def test_other_layers_are_not_offered(shape):
    assert not conv2d_im2col.offered(shape, HOPPER)


def test_other_targets_keep_their_spaces():
    shape = Conv2d(1, 224, 224, 768, 3, 16, 16, (16, 16), (0, 0), True, False)
    assert conv2d_im2col.offered(shape, HOPPER)
    for target in ("cuda -arch=sm_80", "cuda -emulate"):
        assert not conv2d_im2col.offered(shape, Target(target))
