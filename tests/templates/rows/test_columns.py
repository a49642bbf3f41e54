"""Softmax along a middle axis, whose columns are read coalesced across planes."""

from itertools import product

import autotune.templates  # noqa: F401 - registers the tasks
import numpy as np
import pytest
from autotune.templates.rows import columns_cuda
from autotune.templates.rows.columns_cuda import Columns

from autotune.emulator import run_emulated
from autotune.errors import TemplateError
from autotune.kernel import launch_violation
from autotune.target import Target
from autotune.task import ConfigEntity, create
from autotune.task.kinds import OtherOptionEntity
from tests.templates.emulated import arrays_of

HOPPER = Target("cuda -arch=sm_90")
SHAPES = [
    Columns("softmax", 3, 50, 24),
    Columns("log_softmax", 2, 7, 33, "float16"),
    Columns("softmax", 40, 5, 3),
    Columns("softmax", 1, 700, 20, "bfloat16"),
    Columns("log_softmax", 5, 1, 8),
]


@pytest.mark.many_cases
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_choices_match_float64_in_the_emulator(shape):
    options = columns_cuda.candidates(shape)
    every = [dict(zip(options, each, strict=True)) for each in product(*options.values())]
    choices = [c for c in every if not columns_cuda.violation(shape, c, HOPPER)]
    default = columns_cuda.default_choice(shape, HOPPER)
    assert default in choices
    split = [c for c in choices if c["split"] > 1]
    some = (*choices[1 :: len(choices) // 2 + 1], *split[:: len(split) // 3 + 1])
    for choice in (default, choices[0], *some):
        source = columns_cuda.kernel(shape, choice)
        kernel, arrays = source.kernel("cuda"), arrays_of(source)
        assert launch_violation(kernel, HOPPER.limits) is None
        run_emulated(kernel, arrays, orders=(0,))
        wanted = source.reference(arrays[0].astype(np.float64))
        tolerance = 1e-4 if shape.dtype == "float32" else 3e-2
        np.testing.assert_allclose(
            arrays[1].astype(np.float64), wanted, tolerance, tolerance, err_msg=str(choice)
        )


@pytest.mark.parametrize(
    ("extents", "split"), [((1, 100_003, 8), True), ((64, 21, 1025), False), ((8, 900, 49), False)]
)
def test_untuned_few_long_columns_fill_a_device(extents, split):
    choice = columns_cuda.default_choice(Columns("softmax", *extents), HOPPER)
    assert (choice["split"] > 1) == split


def test_a_configuration_from_before_columns_could_be_split_still_makes_its_kernel():
    shape, task = (
        Columns("softmax", 1, 5000, 8),
        create("softmax.cuda", (1, 5000, "float32", 8), HOPPER),
    )
    old = {"threads": 8, "rows": 64, "width": 1, "keep": 0}
    entities = {name: OtherOptionEntity(value) for name, value in old.items()}
    source = task.instantiate(ConfigEntity(7, None, entities))
    assert source.defines == columns_cuda.kernel(shape, {**old, "split": 1}).defines


def test_an_inner_extent_of_1_means_rows():
    kernel = create("softmax.cuda", (8, 300, "float32", 1), HOPPER)
    assert kernel.instantiate(kernel.default()).kernel("cuda").name == "rows"
    kernel = create("softmax.cuda", (8, 300, "float32", 2), HOPPER)
    assert kernel.instantiate(kernel.default()).kernel("cuda").name == "columns"


def test_more_columns_than_kernels_count_are_refused_in_words():
    with pytest.raises(TemplateError, match=r"kernels take up to .* columns"):
        create("log_softmax.cuda", (2**20, 3, "float16", 2**12), HOPPER)
