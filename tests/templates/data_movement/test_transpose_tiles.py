"""Transposes whose last axes are short, by tiles of several axes."""

from itertools import product

import autotune.templates  # noqa: F401 - registers the tasks
import numpy as np
import pytest
from autotune.templates.bank_conflicts import wavefronts
from autotune.templates.data_movement import transpose_cuda, transpose_tiles
from autotune.templates.data_movement.transpose_shape import Transpose

from autotune.emulator import run_emulated
from autotune.kernel import launch_violation
from autotune.target import Target
from autotune.task import ConfigEntity, create
from autotune.task.kinds import OtherOptionEntity
from tests.templates.emulated import arrays_of

HOPPER = Target("cuda -arch=sm_90")
SHAPES = [
    Transpose((2, 21, 16, 43, 8), (0, 2, 4, 1, 3), "float16"),
    Transpose((7, 6, 12, 65), (2, 0, 3, 1), "int32"),
    Transpose((5, 139, 6, 6), (2, 1, 3, 0), "int8"),
    Transpose((3, 50, 4, 5, 2), (4, 2, 0, 3, 1), "float64"),
    Transpose((9, 70, 3), (1, 0, 2)),
    Transpose((40, 3, 2, 2, 5), (3, 1, 4, 0, 2), "bool"),
    Transpose((11, 2, 2, 130), (3, 2, 1, 0), "int64"),
    Transpose((13, 40, 7), (1, 0, 2), "float16"),
    Transpose((6, 3, 16, 7, 7), (2, 0, 4, 1, 3), "float16"),
    Transpose((10, 9, 11, 4), (2, 0, 3, 1), "int8"),
]


@pytest.mark.many_cases
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_choices_move_all_elements(shape):
    options = transpose_tiles.candidates(shape)
    every = [dict(zip(options, each, strict=True)) for each in product(*options.values())]
    choices = [c for c in every if not transpose_tiles.violation(shape, c, HOPPER)]
    default = transpose_tiles.default_choice(shape, HOPPER)
    assert default in choices
    for choice in (default, *choices[:: len(choices) // 3 + 1]):
        source = transpose_tiles.kernel(shape, choice)
        kernel, arrays = source.kernel("cuda"), arrays_of(source)
        assert launch_violation(kernel, HOPPER.limits) is None
        run_emulated(kernel, arrays, orders=(3,))
        np.testing.assert_array_equal(arrays[-1], source.reference(arrays[0]), err_msg=str(choice))


@pytest.mark.parametrize(
    ("shape", "vectors"),
    [
        (Transpose((139, 176, 73, 7), (1, 2, 0, 3), "float16"), (8, 8)),
        (Transpose((38, 3, 108, 7, 7), (2, 0, 4, 1, 3), "float16"), (2, 2)),
        (Transpose((39, 9, 43, 47, 47), (3, 0, 1, 4, 2), "int8"), (1, 1)),
    ],
    ids=str,
)
def test_vectors_reach_across_axes_whose_runs_they_divide(shape, vectors):
    choice = transpose_tiles.default_choice(shape, HOPPER)
    knobs = transpose_tiles.kernel(shape, choice).defines
    assert (knobs["V_IN"], knobs["V_OUT"]) == vectors


@pytest.mark.parametrize(
    ("args", "entry"),
    [
        (((2, 213, 16, 43, 8), (0, 2, 4, 1, 3), "float16"), "transpose_tiles"),
        (((77, 6, 12, 65), (2, 0, 3, 1)), "transpose_tiles"),
        (((3000, 70, 3), (1, 0, 2)), "transpose_tiles"),
        (((70, 301, 66, 35), (0, 3, 2, 1), "float16"), "transpose_tiles"),
        (((1024, 1024), (1, 0)), "transpose"),
        (((300, 20, 500), (1, 0, 2)), "transpose"),
        (((1000, 18, 20), (0, 2, 1)), "transpose"),
    ],
)
def test_short_axes_are_what_tiles_of_several_are_for(args, entry):
    task = create("transpose.cuda", args, HOPPER)
    assert task.instantiate(task.default()).kernel("cuda").name == entry


def test_a_configuration_from_before_still_builds_its_kernel():
    shape = Transpose((77, 6, 12, 65), (2, 0, 3, 1))
    choice = transpose_cuda.default_choice(shape, HOPPER)
    entities = {name: OtherOptionEntity(value) for name, value in choice.items()}
    task = create("transpose.cuda", (shape.shape, shape.axes), HOPPER)
    source = task.instantiate(ConfigEntity(7, None, entities))
    assert source.text() == transpose_cuda.kernel(shape, choice).text()


@pytest.mark.parametrize(
    ("stride", "width", "count"), [(4, 4, 1), (8, 4, 2), (128, 4, 32), (0, 4, 1), (16, 16, 4)]
)
def test_wavefronts_are_those_of_32_banks(stride, width, count):
    assert wavefronts([lane * stride for lane in range(32)], width) == count


@pytest.mark.parametrize(
    ("extents", "axes", "dtype"),
    [
        ((39, 9, 43, 47, 47), (3, 0, 1, 4, 2), "int8"),
        ((4, 242, 15, 27, 3), (4, 2, 0, 1, 3), "float16"),
        ((38, 3, 108, 7, 7), (2, 0, 4, 1, 3), "float16"),
    ],
)
def test_untuned_tiles_divide_arrays_where_others_are_little_larger(extents, axes, dtype):
    shape = Transpose(extents, axes, dtype)
    choice = transpose_tiles.default_choice(shape, HOPPER)
    knobs = transpose_tiles.kernel(shape, choice).defines
    assert (knobs["IN_INSIDE"], knobs["OUT_INSIDE"]) == ("true", "true")
