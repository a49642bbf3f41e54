"""Whole numbers beside tensors of dtypes that do not hold them."""

import numpy as np
import pytest

import autotune
from autotune import te, topi


@pytest.mark.many_cases
@pytest.mark.parametrize(
    ("combine", "expected"),
    [
        (lambda x: topi.greater(x, 300), lambda a: a > 300),
        (lambda x: topi.less(x, 300), lambda a: a < 300),
        (lambda x: topi.greater(x, -1000), lambda a: a > -1000),
        (lambda x: topi.maximum(x, 1000), lambda a: np.maximum(a, 1000)),
        (lambda x: topi.add(x, 300), lambda a: a + 300),
        (lambda x: topi.subtract(-1000, x), lambda a: -1000 - a),
    ],
)
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_a_number_that_a_narrow_dtype_does_not_hold_is_int32(dtype, combine, expected):
    given = np.array([0, 1, 44, 100, 127], dtype)
    x = te.placeholder((5,), dtype, name="x")
    y = combine(x)
    found = np.zeros(5, y.dtype)
    autotune.build(te.create_schedule(y.op), [x, y], "c")(given, found)
    np.testing.assert_array_equal(found, expected(given.astype("int32")))
