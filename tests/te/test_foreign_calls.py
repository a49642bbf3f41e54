"""Functions of Python, math and numpy that are called with expressions and tensors."""

import math

import numpy as np
import pytest

from autotune import te, topi
from autotune.errors import ExpressionError
from autotune.ir import foreign_calls

A = te.placeholder((4, 4), name="A")


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (np.exp, r"numpy.exp takes arrays, not what te computes; use te.exp"),
        (np.abs, "use te.abs"),
        (np.arctan, "use te.atan"),
        (lambda x: np.maximum(x, 0), "use te.max"),
        (np.sum, "use te.sum"),
        (np.max, "use te.max"),
        (np.sign, "numpy.sign takes arrays, .* write it with operators and the functions of te"),
        (lambda x: np.ones(3) * x, "numpy.multiply: an array is no operand .* te.placeholder"),
        (math.exp, r"A\[i, j\] has no value .* use te.exp and others"),
        (int, r"A\[i, j\] has no value .* use astype\('int32'\)"),
        (round, r"round\(A\[i, j\]\): use te.nearbyint"),
        (abs, r"abs\(A\[i, j\]\): use te.abs"),
        (lambda x: x**2, r"\*\* \(2\): use te.power"),
    ],
    ids=[
        "exp",
        "abs",
        "arctan",
        "maximum",
        "sum",
        "max",
        "sign",
        "array",
        "math",
        "int",
        "round",
        "abs",
        "power",
    ],
)
def test_a_foreign_function_is_refused_with_the_name_of_that_of_te(function, message):
    with pytest.raises(ExpressionError, match=message):
        te.compute((4, 4), lambda i, j: function(A[i, j]), name="C")


@pytest.mark.parametrize("module", [te, topi], ids=["te", "topi"])
def test_what_is_named_instead_is_there(module):
    short = module.__name__.rpartition(".")[2]
    offered = foreign_calls._INSTEAD[short]
    ufuncs = {f.__name__ for f in vars(np).values() if isinstance(f, np.ufunc)}
    refused = [(name, "__call__") for name in ufuncs - foreign_calls._OPERATORS.keys()]
    refused += [(name, "reduce") for name in foreign_calls._REDUCTIONS]
    named = {foreign_calls._renamed(name, method, short) for name, method in refused}
    assert {name for name in named if hasattr(module, name)} == offered


def test_whole_tensors_are_told_of_topi():
    with pytest.raises(ExpressionError, match=r"use topi\.exp"):
        np.exp(A)
    with pytest.raises(ExpressionError, match=r"use topi\.matmul"):
        np.matmul(A, A)
    with pytest.raises(ExpressionError, match=r"use topi\.sum"):
        np.sum(A)
    with pytest.raises(ExpressionError, match=r"use topi\.max$"):
        np.max(A)
    with pytest.raises(ExpressionError, match="operators and the functions of topi"):
        np.square(A)


def test_numpys_operators_apply():
    assert str(np.add(A[0, 0], 1)) == str(A[0, 0] + 1)
    two = np.float32(2)
    assert str(two < A[0, 0]) == str(A[0, 0] > two)
    assert (np.float64(2) * A).shape == (4, 4)
    assert [np.ones(2)[0], A].index(A) == 1
