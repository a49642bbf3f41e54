"""Expressions: folding, promotion, equality, errors."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.errors import ExpressionError
from autotune.ir import (
    EQ,
    Add,
    Call,
    Cast,
    FloatImm,
    FloorDiv,
    FloorMod,
    IntImm,
    IterVar,
    Max,
    Min,
    Mul,
    Range,
    TruncDiv,
    TruncMod,
    Var,
    as_expr,
    cast,
    const,
    promote,
    same,
)

N = Var("i")
M = Var("j")
X = Var("x", "float32")


def test_adding_zero_gives_the_operand_itself():
    assert (N + 0) is N
    assert (0 + N) is N
    assert (N - 0) is N


def test_multiplying_by_one_gives_the_operand_itself():
    assert (N * 1) is N
    assert (1 * X) is X


def test_an_integer_times_zero_is_zero():
    assert same(N * 0, const(0))
    assert same(0 * N, const(0))


def test_a_float_times_zero_stays_since_it_may_be_nan():
    assert isinstance(X * 0.0, Mul)


def test_an_integer_minus_itself_is_zero_and_a_float_is_not():
    assert same(N - N, const(0))
    assert not isinstance(X - X, FloatImm)


def test_constants_fold():
    assert same(const(2) + 3, const(5))
    assert same(const(2.0) * 3, const(6.0))
    assert same(const(7) // 2, const(3))
    assert same(const(7) < 8, const(True))


@pytest.mark.parametrize("extreme", [Max, Min])
def test_the_larger_or_smaller_of_a_nan_and_a_number_folds_to_the_nan(extreme):
    nan = const(math.nan, "float32")
    for one in (extreme.fold(nan, const(1.0)), extreme.fold(const(1.0), nan)):
        assert math.isnan(one.value)


def test_a_raw_constructor_does_not_fold():
    assert isinstance(Add(const(1), const(2)), Add)


@given(st.integers(-100, 100), st.integers(-100, 100).filter(bool))
def test_floor_division_of_constants_is_pythons(a, b):
    assert FloorDiv.fold(const(a), const(b)).value == a // b
    assert FloorMod.fold(const(a), const(b)).value == a % b


@given(st.integers(-100, 100), st.integers(-100, 100).filter(bool))
def test_truncated_division_of_constants_is_cs(a, b):
    assert TruncDiv.fold(const(a), const(b)).value == math.trunc(a / b)
    assert TruncMod.fold(const(a), const(b)).value == math.fmod(a, b)


def test_division_by_one_gives_the_operand_and_no_remainder():
    assert (N // 1) is N
    assert same(N % 1, const(0))


def test_division_by_the_constant_zero_is_refused():
    with pytest.raises(ExpressionError, match=r"division by zero"):
        N // 0


def test_true_division_of_integers_names_the_divisions_there_are():
    with pytest.raises(ExpressionError, match=r"ambiguous; use te.floordiv"):
        N / 2


def test_floor_division_of_floats_floors_the_quotient():
    value = X // 2
    assert isinstance(value, Call)
    assert value.name == "floor"


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ("int32", "float16", "float16"),
        ("int32", "int64", "int64"),
        ("float16", "float32", "float32"),
        ("float16", "bfloat16", "float32"),
        ("bool", "int8", "int8"),
        ("int8", "uint8", "uint8"),
        ("int32", "uint32", "uint32"),
        ("int32", "uint8", "int32"),
        ("uint32", "int8", "uint32"),
        ("float64", "float32", "float64"),
    ],
)
def test_dtypes_meet_as_in_tvm(a, b, expected):
    assert promote(a, b) == expected
    assert promote(b, a) == expected


def test_a_python_number_takes_the_dtype_of_the_other_operand():
    half = Var("h", "float16")
    assert (half * 2).dtype == "float16"
    assert (half * 2.5).dtype == "float16"
    assert (Var("l", "int64") + 1).dtype == "int64"


def test_a_python_float_makes_an_integer_operand_float32():
    value = N * 0.5
    assert value.dtype == "float32"
    assert isinstance(value.a, Cast)


def test_numpy_scalars_are_numbers_on_both_sides():
    assert (X * np.float32(2)).dtype == "float32"
    assert (np.float32(2) * X).dtype == "float32"
    assert same(np.int64(3) + N, 3 + N)


def test_mixed_operands_are_cast_to_where_they_meet():
    value = Var("b", "int8") + Var("w", "int32")
    assert value.dtype == "int32"
    assert isinstance(value.a, Cast)


def test_comparison_gives_bool():
    assert (N < 3).dtype == "bool"


def test_equality_is_a_node_whose_truth_is_structural():
    node = N + 1 == N + 1
    assert isinstance(node, EQ)
    assert node
    assert bool(N + 1 == M + 1) is False
    assert N + 1 != M + 1


def test_an_expression_has_no_other_truth_value():
    with pytest.raises(ExpressionError, match=r"i < 3 has no truth value .*; use te.if_then_else"):
        bool(N < 3)


def test_constants_have_the_truth_of_their_value():
    assert const(1)
    assert not const(0)
    assert const(3) < 4


def test_casting_a_constant_converts_it_at_once():
    assert same(cast(const(3), "float32"), const(3.0))
    assert same(cast(const(300), "uint8"), IntImm(44, "uint8"))
    assert same(cast(const(2.7), "int32"), const(2))


def test_a_cast_to_the_own_dtype_is_nothing():
    assert N.astype("int32") is N


def test_an_unknown_dtype_is_refused_with_the_known_ones():
    with pytest.raises(ExpressionError, match=r"'float23' is unknown; expected one of bool, int8"):
        N.astype("float23")


def test_integer_constants_wrap_around():
    assert (const(127, "int8") + const(1, "int8")).value == -128


def test_an_axis_stands_for_its_variable():
    axis = IterVar(N, Range(0, 8), "data")
    assert same(axis + 1, N + 1)
    assert same(1 + axis, 1 + N)
    assert as_expr(axis) is N
    assert axis.extent.value == 8


def test_an_axis_without_a_domain_has_no_extent():
    with pytest.raises(ExpressionError, match=r"'i': its extent is known only after lowering"):
        _ = IterVar(N, None, "data").extent


def test_logic_folds_constants_away():
    condition = N < 3
    assert (condition & const(True)) is condition
    assert same(condition & const(False), const(False))
    assert (condition | const(False)) is condition
    assert same(~~condition, condition)


def test_bitwise_operators_of_integers_are_calls():
    assert (N & 3).name == "bitwise_and"
    assert (N << 2).name == "shift_left"
    assert (~N).name == "bitwise_not"


def test_bitwise_operators_refuse_floats():
    with pytest.raises(ExpressionError, match=r"bitwise_and: expected integers, got float32"):
        X & X


def test_a_stranger_is_no_operand():
    with pytest.raises(TypeError):
        N + "1"
    with pytest.raises(ExpressionError, match=r"expected an expression, an axis or a number"):
        as_expr("1")


def test_same_tells_constants_of_different_dtypes_apart():
    assert not same(const(1), const(1, "int64"))
    assert not same(const(1), const(1.0))
    assert same((N + 1) * X, (N + 1) * X)
    assert not same(N + M, M + N)


def test_arithmetic_on_bools_counts_them():
    condition = N < 3
    assert (condition + condition).dtype == "int32"
    assert same(const(True) + True, const(2))
    assert (condition == condition).dtype == "bool"
