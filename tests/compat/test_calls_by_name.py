"""Functions of C and CUDA that scripts call by their names, and comparisons of expressions."""

import numpy as np
import pytest

from autotune import tvm
from autotune.errors import ExpressionError, LoweringError
from autotune.tvm import te, tir


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("expf", np.exp), ("__logf", np.log), ("tir.exp", np.exp), ("rsqrtf", lambda x: x**-0.5),
        ("fabsf", np.abs), ("erf", None), ("rintf", np.rint),
    ],
    ids=["expf", "__logf", "tir.exp", "rsqrtf", "fabsf", "erf", "rintf"],
)  # fmt: skip
def test_a_function_called_by_its_name_is_that_of_te(name, expected):
    a = te.placeholder((4,), name="A")
    b = te.compute((4,), lambda i: tir.call_pure_extern("float32", name, a[i]), name="B")
    given = np.array([0.4, 1.5, 2.5, 7.0], "float32")
    out = np.zeros(4, "float32")
    tvm.build(te.create_schedule(b.op), [a, b], "llvm")(given, out)
    if expected is not None:
        np.testing.assert_allclose(out, expected(given), rtol=1e-6)
    assert np.isfinite(out).all()


def test_a_call_has_two_arguments_and_the_dtype_that_it_is_given():
    x, y = te.var("x", "float32"), te.var("y", "float32")
    assert str(tvm.call_pure_intrin("float32", "pow", x, y)) == str(te.power(x, y))
    assert tir.call_extern("float64", "fmaxf", x, y).dtype == "float64"


def test_a_function_that_nothing_defines_is_refused_when_it_is_built():
    a = te.placeholder((4,), name="A")
    b = te.compute((4,), lambda i: tir.call_pure_extern("float32", "twice", a[i]), name="B")
    s = te.create_schedule(b.op)
    with pytest.raises(LoweringError, match=r"calling 'twice': te has no .*import_c"):
        tvm.build(s, [a, b], "llvm")
    s[b].pragma(b.op.axis[0], "import_c", "float twice(float x) { return 2 * x; }")
    out = np.zeros(4, "float32")
    tvm.build(s, [a, b], "llvm")(np.arange(4, dtype="float32"), out)
    np.testing.assert_array_equal(out, [0, 2, 4, 6])


def test_intrinsics_of_llvm_are_functions_of_te():
    x = te.var("x", "float32")
    found = tir.call_llvm_pure_intrin("float32", "llvm.exp2.f32", tir.const(1, "uint32"), x)
    assert str(found) == str(te.exp2(x))


@pytest.mark.parametrize(
    ("call", "problem"),
    [
        (lambda: tir.call_intrin("int32", "tir.shuffle", 1), "te has no such function"),
        (lambda: tir.call_extern("int32", "twice", "text"), "got the text 'text'"),
    ],
)
def test_other_calls_are_refused_at_once(call, problem):
    with pytest.raises(ExpressionError, match=problem):
        call()


@pytest.mark.parametrize(("name", "given", "expected"), [("expf", 2, 1), ("fmaxf", 1, 2)])
def test_a_call_with_another_number_of_arguments_names_the_function(name, given, expected):
    with pytest.raises(ExpressionError, match=rf"'{name}': expected {expected} .*, got {given}"):
        tir.call_pure_extern("float32", name, *[te.var("x", "float32")] * given)


def test_expressions_are_compared_by_their_structure():
    i, j = te.var("i"), te.var("j")
    assert tvm.ir.structural_equal(i + 1, i + 1)
    assert not tir.analysis.expr_deep_equal(i + 1, j + 1)
    tvm.ir.assert_structural_equal(3, tir.const(3, "int32"))
    with pytest.raises(ValueError, match="expected the same expression, got i and j"):
        tvm.ir.assert_structural_equal(i, j)


def test_free_variables_may_stand_for_each_other_if_asked():
    i, j, x = te.var("i"), te.var("j"), te.var("x", "float32")
    equal = tvm.ir.structural_equal
    assert equal(i * 2 + j, j * 2 + i, map_free_vars=True)
    assert equal(i + i, j + j, map_free_vars=True)
    assert not equal(i + j, i + i, map_free_vars=True)
    assert not equal(i + i, i + j, map_free_vars=True)
    assert not equal(x, i, map_free_vars=True)
