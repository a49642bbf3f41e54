"""Sums on tensor cores run on over zeros beyond their end, and nowhere else."""

import numpy as np
import pytest

from autotune import build
from autotune.codegen import kernel_of_schedule
from autotune.errors import LoweringError
from autotune.target import Target
from tests.lowering.tensor_core_products import product


@pytest.mark.many_cases
@pytest.mark.parametrize(("k", "within"), [(90, None), (90, 32), (80, 80)])
def test_a_sum_that_ends_with_its_operands_runs_on(k, within):
    schedule, args = product(32, 64, k, rows=2, within=within)
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-3, 4, [int(n) for n in t.shape]).astype("float16") for t in args[:2])
    found = np.zeros((32, 64), args[2].dtype)
    build(schedule, args, "cuda -arch=sm_90 -emulate")(a, b, found)
    np.testing.assert_array_equal(found, a.astype("float32") @ b.astype("float32"))


@pytest.mark.parametrize("k", [48, 64, 90])
def test_parts_of_a_sum_that_tiles_do_not_divide_are_refused(k):
    """Beyond the end of a part are the steps of the next one, no zeros."""
    schedule, args = product(32, 64, k, rows=2, within=24)
    with pytest.raises(LoweringError, match="tensor_core"):
        kernel_of_schedule(schedule, args, Target("cuda -arch=sm_90"), "kernel")
