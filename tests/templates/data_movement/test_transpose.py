"""Permutations of axes: small planes share blocks, and old logs stay valid."""

import autotune.templates  # noqa: F401 - registers the tasks
import numpy as np
import pytest
from autotune.templates.data_movement import transpose_cuda
from autotune.templates.data_movement.transpose_shape import Transpose

from autotune.emulator import EmulatedKernel, compile_emulated
from autotune.target import Target
from autotune.task import ConfigEntity, create
from autotune.task.kinds import OtherOptionEntity
from tests.templates.emulated import arrays_of

HOPPER = Target("cuda -arch=sm_90")
SMALL = [
    Transpose((8, 19, 42, 2), (0, 1, 3, 2), "int16"),
    Transpose((70, 3, 3), (0, 2, 1)),
    Transpose((33, 16, 16), (0, 2, 1), "float16"),
    Transpose((5, 4, 7, 6), (3, 1, 0, 2), "int8"),
]


def right(shape, choice, folder):
    """Return whether a choice moves all elements, in the emulator."""
    source = transpose_cuda.kernel(shape, choice)
    kernel, arrays = source.kernel("cuda"), arrays_of(source)
    library = compile_emulated(kernel, folder / "kernel.so", arch="sm_90")
    EmulatedKernel(library, kernel).run(arrays, order=7)
    return np.array_equal(arrays[-1], source.reference(arrays[0]))


@pytest.mark.parametrize("shape", SMALL, ids=str)
def test_small_planes_share_a_block_and_are_transposed(shape, tmp_path):
    choice = transpose_cuda.default_choice(shape, HOPPER)
    assert transpose_cuda.violation(shape, choice, HOPPER) is None
    assert choice["planes"] > 1
    assert choice["planes"] * choice["lanes_x"] * choice["lanes_y"] <= 256
    assert right(shape, choice, tmp_path)
    if choice["staged"] == 0:
        assert right(shape, choice | {"staged": 1}, tmp_path)


def test_planes_of_several_tiles_have_blocks_of_their_own():
    shape = Transpose((64, 100, 100), (0, 2, 1))
    choice = transpose_cuda.default_choice(shape, HOPPER)
    assert choice["planes"] == 1
    assert "several" in transpose_cuda.violation(shape, choice | {"planes": 2}, HOPPER)


def test_blocks_are_full_where_the_last_axis_stays_however_short_it_is():
    choice = transpose_cuda.default_choice(Transpose((1000, 4, 100, 2), (0, 2, 1, 3)), HOPPER)
    assert choice["lanes_x"] * choice["lanes_y"] == 256


def test_a_configuration_from_before_planes_shared_blocks_still_builds_its_kernel():
    shape = Transpose((16, 40, 24), (0, 2, 1))
    choice = {"v": 4, "lanes_x": 8, "lanes_y": 8, "staged": 1}
    entities = {name: OtherOptionEntity(value) for name, value in choice.items()}
    task = create("transpose.cuda", ((16, 40, 24), (0, 2, 1)), HOPPER)
    source = task.instantiate(ConfigEntity(7, None, entities))
    assert (
        source.defines == transpose_cuda.kernel(shape, choice | {"planes": 1, "times": 1}).defines
    )


SEVERAL = [
    (Transpose((97, 131), (1, 0), "int8"), {"v": 1, "staged": 1, "times": 4}),
    (Transpose((3, 67, 41), (0, 2, 1), "float16"), {"v": 1, "staged": 1, "times": 2}),
    (Transpose((66, 70), (1, 0), "float16"), {"v": 2, "staged": 0, "times": 2}),
    (Transpose((33, 5, 35), (2, 1, 0), "float64"), {"v": 1, "staged": 1, "times": 2}),
    (Transpose((5, 7, 129), (1, 0, 2), "int8"), {"v": 1, "staged": 0, "times": 8}),
]


@pytest.mark.parametrize(("shape", "knobs"), SEVERAL)
def test_threads_of_several_vectors_move_all_elements(shape, knobs, tmp_path):
    choice = {"lanes_x": 16, "lanes_y": 8, "planes": 1, **knobs}
    assert transpose_cuda.violation(shape, choice, HOPPER) is None
    assert right(shape, choice, tmp_path)


@pytest.mark.parametrize(
    ("shape", "times"),
    [
        (Transpose((8191, 4093), (1, 0), "int8"), 8),
        (Transpose((8191, 4093), (1, 0), "float16"), 4),
        (Transpose((8191, 4093), (1, 0)), 4),
        (Transpose((101, 103), (1, 0)), 1),
        (Transpose((4096, 4096), (1, 0)), 1),
    ],
)
def test_untuned_threads_have_several_vectors_where_these_are_narrow_and_blocks_enough(
    shape, times
):
    assert transpose_cuda.default_choice(shape, HOPPER)["times"] == times
