"""Transposes of planes of odd extents, as contiguous runs of bytes."""

from itertools import product

import autotune.templates  # noqa: F401 - registers the tasks
import numpy as np
import pytest
from autotune.templates.data_movement import transpose_runs
from autotune.templates.data_movement.transpose_shape import Transpose

from autotune.emulator import EmulatedKernel, compile_emulated
from autotune.kernel import launch_violation
from autotune.target import Target
from autotune.task import ConfigEntity, create
from autotune.task.kinds import OtherOptionEntity
from tests.templates.emulated import arrays_of

HOPPER = Target("cuda -arch=sm_90")
PLANES = [
    Transpose((150, 17, 5), (0, 2, 1)),
    Transpose((141, 3, 3), (0, 2, 1), "int8"),
    Transpose((139, 64, 3), (0, 2, 1), "int8"),
    Transpose((133, 7, 11), (0, 2, 1), "float16"),
    Transpose((35, 4, 49, 4), (0, 1, 3, 2)),
    Transpose((137, 5, 3), (0, 2, 1), "float64"),
]
PARTS = [
    Transpose((2, 3, 25, 25), (0, 2, 3, 1)),
    Transpose((2, 25, 25, 3), (0, 3, 1, 2), "float16"),
    Transpose((3, 200), (1, 0), "int8"),
    Transpose((201, 5), (1, 0), "float64"),
    Transpose((3, 1, 128, 7), (0, 3, 2, 1), "int16"),
]


@pytest.mark.many_cases
@pytest.mark.parametrize("shape", [*PLANES, *PARTS], ids=str)
def test_every_choice_moves_all_elements(shape, tmp_path):
    options = transpose_runs.candidates(shape)
    assert options["part"] == [0] if shape in PLANES else 0 not in options["part"]
    every = [dict(zip(options, each, strict=True)) for each in product(*options.values())]
    choices = [c for c in every if not transpose_runs.violation(shape, c, HOPPER)]
    default = transpose_runs.default_choice(shape, HOPPER)
    assert default in choices
    for choice in (default, *choices[:: len(choices) // 4 + 1]):
        source = transpose_runs.kernel(shape, choice)
        kernel, arrays = source.kernel("cuda"), arrays_of(source)
        assert launch_violation(kernel, HOPPER.limits) is None
        library = compile_emulated(kernel, tmp_path / "kernel.so", arch="sm_90")
        EmulatedKernel(library, kernel).run(arrays, order=7)
        np.testing.assert_array_equal(arrays[-1], source.reference(arrays[0]), err_msg=str(choice))


@pytest.mark.parametrize(
    ("args", "entry"),
    [
        (((1000, 17, 20), (0, 2, 1)), "transpose_runs"),
        (((8, 3, 224, 224), (0, 2, 3, 1)), "transpose_runs"),
        (((1000, 18, 20), (0, 2, 1)), "transpose"),
        (((10, 17, 5), (0, 2, 1)), "transpose"),
        (((1000, 17, 2, 20), (0, 3, 2, 1)), "transpose_tiles"),
        (((100, 27, 2, 29), (0, 3, 2, 1)), "transpose"),
        (((1001, 1003), (1, 0)), "transpose"),
    ],
)
def test_many_planes_of_odd_extents_move_as_runs_and_others_as_tiles(args, entry):
    task = create("transpose.cuda", args, HOPPER)
    assert task.instantiate(task.default()).calls[0].entry == entry


def test_a_configuration_of_tiles_still_builds_its_kernel():
    choice = {"v": 1, "lanes_x": 32, "lanes_y": 8, "staged": 1, "planes": 1}
    entities = {name: OtherOptionEntity(value) for name, value in choice.items()}
    task = create("transpose.cuda", ((1000, 17, 20), (0, 2, 1)), HOPPER)
    source = task.instantiate(ConfigEntity(7, None, entities))
    assert source.calls[0].entry == "transpose"


@pytest.mark.parametrize(
    ("extents", "axes", "dtype"),
    [
        ((400, 65, 257), (0, 2, 1), "float32"),
        ((129, 2, 80_001), (1, 2, 0), "float32"),
        ((151, 20_001), (1, 0), "float16"),
    ],
)
def test_large_planes_of_odd_extents_are_moved_in_parts(extents, axes, dtype):
    task = create("transpose.cuda", (extents, axes, dtype), HOPPER)
    assert task.default()["part"].val > 0


@pytest.mark.parametrize(
    ("extents", "dtype", "gather"),
    [
        ((3000, 73, 131), "float16", 0),  # a plane a block
        ((20_000, 7, 9), "float32", 1),
        ((3000, 63, 48), "int8", 0),
    ],
)
def test_planes_are_transposed_where_banks_conflict_least(extents, dtype, gather):
    shape = Transpose(extents, (0, 2, 1), dtype)
    assert transpose_runs.default_choice(shape, HOPPER)["gather"] == gather
