"""Limits of elements that their dtype does not hold."""

import numpy as np
import pytest

import autotune
from autotune import te, topi
from autotune.graph import ops


@pytest.mark.parametrize("clip", [topi.clip, lambda x, *bounds: ops.Clip(*bounds).compute(x)])
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32"])
@pytest.mark.parametrize("bounds", [(-1000, 1000), (-5, 5), (float("-inf"), 3)])
def test_limits_beyond_the_range_of_a_dtype_limit_nothing(clip, dtype, bounds):
    given = np.array([0, 3, 100, 127], dtype)
    given = given if dtype == "uint8" else -given
    x = te.placeholder((4,), dtype, name="x")
    y = clip(x, *bounds)
    limited = np.zeros(4, dtype)
    autotune.build(te.create_schedule(y.op), [x, y], "c")(given, limited)
    np.testing.assert_array_equal(limited, np.clip(given.astype("float64"), *bounds))
