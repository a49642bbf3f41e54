"""Functions on expressions and operators on whole tensors."""

import pytest

from autotune import te
from autotune.errors import ExpressionError
from autotune.ir import const, same

HERE = r"test_functions\.py:\d+: "
A = te.placeholder((4, 8), name="A")
B = te.placeholder((8,), name="B")


def text(tensor):
    return str(tensor.op.body[0])


def test_tensors_of_one_shape_add_elementwise():
    c = A + A
    assert (c.op.name, c.op.tag, c.shape) == ("T_add", "broadcast", (4, 8))
    assert text(c) == "A[ax0, ax1] + A[ax0, ax1]"


def test_missing_leading_dimensions_broadcast():
    assert text(A * B) == "A[ax0, ax1] * B[ax1]"
    assert text(B - A) == "B[ax1] - A[ax0, ax1]"


def test_dimensions_of_one_broadcast():
    bias = te.placeholder((1, 4, 1, 1), name="bias")
    conv = te.placeholder((2, 4, 7, 7), name="conv")
    out = conv + bias
    assert out.shape == (2, 4, 7, 7)
    assert text(out) == "conv[ax0, ax1, ax2, ax3] + bias[0, ax1, 0, 0]"
    column, row = te.placeholder((4, 1), name="c"), te.placeholder((1, 8), name="r")
    assert (column / row).shape == (4, 8)


def test_a_number_meets_every_element_in_the_dtype_of_the_tensor():
    half = te.placeholder((4,), "float16", name="h")
    assert text(half * 2) == "h[ax0] * 2.0h"
    assert text(1 - half) == "1.0h - h[ax0]"
    assert (half + 1).op.tag == "elemwise"


def test_an_expression_meets_every_element_on_both_sides():
    scale = te.var("scale", "float32")
    assert text(scale * B) == "scale * B[ax0]"
    assert text(B * scale) == "B[ax0] * scale"


def test_tensors_of_different_dtypes_are_promoted():
    wide = te.placeholder((8,), "float64", name="W")
    assert (B + wide).dtype == "float64"


def test_all_operators_have_their_name():
    ints = te.placeholder((8,), "int32", name="N")
    assert (B / B).op.name == "T_divide"
    assert (ints // 2).op.name == "T_floor_divide"
    assert (ints % 2).op.name == "T_floor_mod"
    assert (-B).op.name == "T_multiply"
    assert (B < 1).dtype == "bool"
    assert (B >= 1).op.name == "T_greater_equal"
    assert B.astype("float16").dtype == "float16"
    assert B.astype("float32") is B


def test_shapes_that_do_not_fit_name_both_tensors_and_the_line():
    c = te.placeholder((3,), name="C")
    with pytest.raises(ExpressionError, match=HERE + r"T_add: shapes .* A has .* C has \(3,\)"):
        A + c


def test_a_tensor_and_a_stranger_do_not_meet():
    with pytest.raises(ExpressionError, match=HERE + "T_add: expected a tensor or a number"):
        A + "1"


def test_conditions_join_and_fold():
    i = te.var("i")
    assert str(te.all(i >= 1, i < 8)) == "i >= 1 && i < 8"
    assert str(te.any(i >= 1, i < 8, i == 3)) == "i >= 1 || i < 8 || i == 3"
    assert same(te.all(True, i < 8), i < 8)
    with pytest.raises(ExpressionError, match=HERE + "te.all: expected at least one condition"):
        te.all()


def test_if_then_else_promotes_and_folds():
    i, x = te.var("i"), te.var("x", "float16")
    assert str(te.if_then_else(i < 3, x, 0)) == "if_then_else(i < 3, x, 0.0h)"
    assert te.if_then_else(True, x, 0) is x
    assert str(te.if_then_else(i, 1, 2.5)) == "if_then_else(i != 0, 1.0f, 2.5f)"
    assert str(te.Select(i < 3, 1, 2)) == "select(i < 3, 1, 2)"


def test_a_float_is_no_condition():
    with pytest.raises(ExpressionError, match=HERE + "if_then_else: expected a condition, got x"):
        te.if_then_else(te.var("x", "float32"), 1, 2)


def test_integer_divisions_are_told_apart():
    i = te.var("i")
    assert str(te.indexdiv(i, 4)) == "floordiv(i, 4)"
    assert str(te.indexmod(i, 4)) == "floormod(i, 4)"
    assert str(te.truncdiv(i, 4)) == "i / 4"
    assert str(te.truncmod(i, 4)) == "i % 4"
    assert str(te.div(i, 4)) == "i / 4"
    assert same(te.ceildiv(const(7), 2), const(4))
    assert same(te.floordiv(7, 2), const(3))


def test_integer_division_of_floats_is_refused():
    with pytest.raises(ExpressionError, match=HERE + "floordiv: expected integers, got float32"):
        te.floordiv(te.var("x", "float32"), 2)


@pytest.mark.parametrize("name", ["exp", "log2", "sqrt", "rsqrt", "tanh", "sigmoid", "erf"])
def test_a_function_keeps_the_dtype_of_a_float_and_makes_one_of_an_integer(name):
    function = getattr(te, name)
    assert function(te.var("x", "float16")).dtype == "float16"
    assert function(te.var("x", "int32")).dtype == "float32"
    assert function(te.var("x", "float64")).name == name


def test_rounding_leaves_integers_alone():
    i = te.var("i")
    assert te.floor(i) is i
    assert te.round(te.var("x", "float32")).name == "round"
    assert same(te.isnan(i), const(False))
    assert te.isfinite(te.var("x", "float32")).dtype == "bool"


def test_functions_of_two_values_promote_them():
    x = te.var("x", "float16")
    assert te.power(x, 2).dtype == "float16"
    assert te.pow(2, te.var("x", "float32")).name == "pow"
    assert te.fmod(te.var("i"), 2.5).dtype == "float32"


def test_absolute_value_and_population_count():
    assert te.abs(te.var("i")).name == "abs"
    unsigned = te.var("u", "uint8")
    assert te.abs(unsigned) is unsigned
    assert te.popcount(unsigned).dtype == "uint8"
    with pytest.raises(ExpressionError, match=HERE + "te.popcount: expected an integer"):
        te.popcount(te.var("x", "float32"))


def test_tf32_is_of_float32_only():
    assert te.tf32(te.var("x", "float32")).dtype == "float32"
    with pytest.raises(ExpressionError, match=HERE + "te.tf32: expected a float32, got float16"):
        te.tf32(te.var("x", "float16"))


def test_a_function_of_a_whole_tensor_points_to_topi():
    with pytest.raises(ExpressionError, match=HERE + r"te\.exp: .* tensors use topi\.exp"):
        te.exp(A)


def test_limits_of_dtypes():
    assert te.max_value("int8").value == 127
    assert te.min_value("uint8").value == 0
    assert te.max_value("float16").value == 65504.0
    assert te.min_value("float32").value == -3.4028234663852886e38


def test_thread_axes_carry_their_tag_and_extent():
    assert te.thread_axis("blockIdx.x").thread_tag == "blockIdx.x"
    assert te.thread_axis(64, "threadIdx.x").dom.extent.value == 64
    assert te.thread_axis((0, 64), "threadIdx.y").dom.extent.value == 64
    assert te.thread_axis("vthread", name="vx").name == "vx"
    assert te.thread_axis("vthread").kind == "vthread"


def test_an_unknown_thread_tag_is_refused():
    with pytest.raises(ExpressionError, match=HERE + "thread_axis: expected 'vthread' or one of"):
        te.thread_axis("threadIdx.w")
