"""Inputs that a user gives in place of random ones."""

import numpy as np
import pytest

import autotune.task as at
from autotune.errors import MeasureError
from autotune.kernel import SourceKernel, arg
from autotune.measure import MeasureInput
from autotune.measure.check.verify import Oracle
from autotune.measure.run.value_files import read_values


@at.template("given_inputs")
def given_inputs():
    return SourceKernel("f", "void f(float* y) {}", args=[arg("y", (3,), role="out")])


TASK = at.create("given_inputs", (), "llvm")
TRIAL = MeasureInput(TASK.target, TASK, TASK.config_space.get(0))


@pytest.mark.parametrize(
    ("dtype", "given", "shown"),
    [
        ("int8", [1, 2, 200], "200"),
        ("uint8", [1, -1, 2], "-1"),
        ("int32", [1.0, 0.5, 2.0], r"0\.5"),
        ("int32", [1.0, np.nan, 2.0], "nan"),
        ("int64", [1.0, 1e30, 2.0], r"1e\+30"),
        ("bool", [0, 1, 2], "2"),
        ("float16", [1.0, 1e6, 2.0], "1000000"),
    ],
)
def test_inputs_that_an_argument_does_not_hold_are_refused(dtype, given, shown):
    args = [arg("x", (3,), dtype), arg("y", (3,), role="out")]
    kernel = SourceKernel("f", "void f(const void* x, float* y) {}", args=args).kernel("c")
    oracle = Oracle(ref_input=[np.array(given), np.zeros(3)])
    with pytest.raises(MeasureError, match=rf"'x' is {dtype}, which does not hold {shown}"):
        oracle.data(TRIAL, kernel, expected=False)
    oracle.close()


def test_inputs_of_another_dtype_are_converted_where_they_fit():
    args = [arg("x", (3,), "int8"), arg("h", (3,), "float16"), arg("y", (3,), role="out")]
    text = "void f(const void* x, const void* h, float* y) {}"
    kernel = SourceKernel("f", text, args=args).kernel("c")
    oracle = Oracle(
        ref_input=[np.array([1.0, -2.0, 3.0]), np.array([0.1, np.inf, 2]), np.zeros(3)]
    )
    x, h = oracle.data(TRIAL, kernel, expected=False).inputs
    assert read_values(x, "int8").tolist() == [1, -2, 3]
    assert read_values(h, "float16").tolist() == [np.float16(0.1), np.inf, 2]
    oracle.close()
