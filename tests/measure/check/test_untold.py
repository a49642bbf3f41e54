"""A comparison within bounds as large as the results is no verification."""

import numpy as np
import pytest

from autotune.measure.check.compare import mismatch
from autotune.measure.check.expected import Expected

VALUES = np.float32([3, -4, 0, np.nan, np.inf])
INF = np.inf


@pytest.mark.parametrize(
    ("bounds", "untold"),
    [
        (None, 0),
        ([0, 0, 0, 0, 0], 0),
        ([1e-6, 1, 1, 1, 1], 0),
        ([2.5, 3.9, 2, 0, 0], 0),  # 2.89 is the root mean square of what is finite
        ([3, 1, 3, 0, 0], 2),
        ([INF, INF, INF, INF, INF], 5),
    ],
    ids=["exact", "zero", "small", "less", "some", "unknown"],
)
def test_elements_where_zeros_would_pass_are_untold(bounds, untold):
    given = None if bounds is None else np.float32(bounds)
    assert Expected(VALUES, given).untold() == untold


@pytest.mark.parametrize(("bound", "untold"), [(0, 0), (1e-6, 0), (INF, 4)])
def test_zeros_are_told_from_numbers_as_large_as_inputs(bound, untold):
    assert Expected(np.zeros(4, "f4"), np.full(4, bound, "f4")).untold() == untold


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint64", "float16", "float64"])
def test_what_may_be_off_by_one_tells_of_more_than_one(dtype):
    values = np.full((3, 5), 1, dtype)
    assert Expected(values, np.full((3, 5), 0.5, "float32")).untold() == 0
    assert Expected(values, np.full((3, 5), 1.2, "float32")).untold() == values.size


@pytest.mark.parametrize(("bound", "passes"), [(0.9, False), (1.2, False), (2, True)])
def test_all_is_untold_where_zeros_pass(bound, passes):
    values = np.where(np.arange(400) % 3, 1, -1).astype("float16")
    one = Expected(values, np.full(400, bound, "float32"))
    assert one.untold() == (400 if passes else 0)
    assert (mismatch("y", np.zeros_like(values), one) is None) is passes
