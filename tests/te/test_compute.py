"""Placeholders and computes: shapes, axes, bodies, and what is refused."""

import functools

import pytest

from autotune import te
from autotune.errors import ExpressionError
from autotune.ir import IntImm, ProducerLoad, Reduce

HERE = r"test_compute\.py:\d+: "


def matmul(n=4, m=8, p=16):
    a = te.placeholder((n, p), name="A")
    b = te.placeholder((p, m), name="B")
    k = te.reduce_axis((0, p), name="k")
    return a, b, te.compute((n, m), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")


def test_a_placeholder_has_a_shape_a_dtype_and_a_name():
    a = te.placeholder((2, 3), "float16", name="A")
    assert (a.shape, a.dtype, a.name, a.ndim) == ((2, 3), "float16", "A", 2)


def test_a_single_extent_is_a_shape_of_one_dimension():
    assert te.placeholder(5).shape == (5,)
    assert te.compute(5, lambda i: i).shape == (5,)


@pytest.mark.parametrize("extent", [2**31, 2**32 + 5, 2**70, IntImm(2**40 + 1, "int64")])
def test_an_extent_that_indices_cannot_reach_is_refused(extent):
    with pytest.raises(ExpressionError, match=f"at most {2**31 - 1}, as indices have 32 bits"):
        te.placeholder((2, extent), name="A")
    with pytest.raises(ExpressionError, match=f"at most {2**31 - 1}, as indices have 32 bits"):
        te.compute((extent,), lambda i: te.const(1.0, "float32"))


def test_extents_may_be_constants_of_the_ir():
    assert te.placeholder((IntImm(3), 2)).shape == (3, 2)


def test_a_compute_names_its_axes_after_the_parameters():
    _, _, c = matmul()
    assert [axis.name for axis in c.op.axis] == ["i", "j"]
    assert [axis.name for axis in c.op.reduce_axis] == ["k"]
    assert c.op.axis[1].dom.extent.value == 8


def test_varargs_name_the_axes_by_number():
    b = te.compute((2, 3), lambda *i: i[0] + i[1])
    assert [axis.name for axis in b.op.axis] == ["i0", "i1"]
    c = te.compute((2, 3, 4), lambda n, *rest: n + rest[0])
    assert [axis.name for axis in c.op.axis] == ["n", "i1", "i2"]


def test_parameters_with_defaults_are_no_axes():
    b = te.compute((2,), lambda i, scale=3: i * scale)
    assert str(b.op.body[0]) == "i * 3"


def test_any_callable_may_compute():
    class Row:
        def __call__(self, i):
            return i + 1

    def scaled(scale, i):
        return i * scale

    assert te.compute((2,), Row()).op.axis[0].name == "i"
    assert str(te.compute((2,), functools.partial(scaled, 3)).op.body[0]) == "i * 3"


def test_input_tensors_are_distinct_and_in_the_order_of_first_use():
    a, b, c = matmul()
    assert c.op.input_tensors == (a, b)
    d = te.compute((4,), lambda i: b[i, i] + a[i, i] + b[i, 0])
    assert d.op.input_tensors == (b, a)


def test_an_index_may_be_a_load():
    index = te.placeholder((4,), "int32", name="index")
    a = te.placeholder((9,), name="A")
    b = te.compute((4,), lambda i: a[index[i]])
    assert b.op.input_tensors == (index, a)


def test_a_tensor_of_no_dimensions_is_read_by_a_call():
    a = te.placeholder((), name="A")
    b = te.compute((), lambda: a() + 1, name="B")
    assert b.shape == ()
    assert isinstance(b.op.body[0].a, ProducerLoad)
    assert te.compute((), lambda: a).op.input_tensors == (a,)


def test_slices_take_the_rest_of_the_indices_later():
    a = te.placeholder((2, 3, 4), name="A")
    b = te.compute((2, 3, 4), lambda i, j, k: a[i][j, k] + a[i, j][k] + a(i, j, k))
    assert str(b.op.body[0]) == "A[i, j, k] + A[i, j, k] + A[i, j, k]"


@pytest.mark.parametrize("name", ["add", "from the right", "negative", "comparison", "sum"])
def test_computing_with_a_slice_says_which_indices_are_missing(name):
    a, b = te.placeholder((4, 5), name="A"), te.placeholder((5,), name="B")
    k = te.reduce_axis((0, 5), name="k")
    computes = {
        "add": lambda i, j: a[i] + b[j],
        "from the right": lambda i, j: 2 * a[i],
        "negative": lambda i, j: -a[i],
        "comparison": lambda i, j: a[i] > 0,
        "sum": lambda i, j: te.sum(a[i], axis=k),
    }
    told = r"test_compute.py:\d+: A has 2 dimensions \(4, 5\), got 1 indices: \[i\]"
    with pytest.raises(ExpressionError, match=told):
        te.compute((4, 5), computes[name])


def test_several_values_give_several_tensors():
    a = te.placeholder((4,), name="A")
    b, c = te.compute((4,), lambda i: (a[i] + 1, a[i].astype("int32")), name="B")
    assert (b.op is c.op, b.value_index, c.value_index) == (True, 0, 1)
    assert (b.dtype, c.dtype) == ("float32", "int32")
    assert c.op.output(1) is c


def test_tags_come_from_the_argument_or_the_scope():
    with te.tag_scope("injective"):
        b = te.compute((2,), lambda i: i)
        c = te.compute((2,), lambda i: i, tag="own")
    d = te.compute((2,), lambda i: i)
    assert (b.op.tag, c.op.tag, d.op.tag) == ("injective", "own", "")


def test_attributes_are_kept():
    assert te.compute((2,), lambda i: i, attrs={"layout": "NCHW"}).op.attrs == {"layout": "NCHW"}


def test_a_number_is_a_body():
    assert te.compute((2,), lambda i: 1).dtype == "int32"
    assert te.compute((2,), lambda i: 1.5).dtype == "float32"
    assert te.compute((2,), lambda i: te.const(0, "float16")).dtype == "float16"


def test_tensors_are_equal_only_to_themselves():
    a, b = te.placeholder((2,)), te.placeholder((2,))
    assert a == a.op.output(0)
    assert a != b
    assert len({a, a.op.output(0), b}) == 2


def test_a_wrong_number_of_parameters_names_tensor_and_line():
    with pytest.raises(ExpressionError, match=HERE + "B: the shape has 2 dim.* takes 1 indices"):
        te.compute((2, 3), lambda i: i, name="B")


def test_a_wrong_number_of_indices_names_tensor_and_line():
    a = te.placeholder((2, 3), name="A")
    with pytest.raises(ExpressionError, match=HERE + r"A has 2 dimensions \(2, 3\), got 3"):
        te.compute((2,), lambda i: a[i, i, i])
    with pytest.raises(ExpressionError, match=HERE + "A has 2 dimensions"):
        te.compute((2,), lambda i: a(i))


def test_a_float_index_is_refused():
    a = te.placeholder((2,), name="A")
    with pytest.raises(ExpressionError, match=HERE + "A: index 0 must be an integer, got A"):
        te.compute((2,), lambda i: a[a[i]])
    with pytest.raises(ExpressionError, match=HERE + "A: index 0 must be an integer expression"):
        te.compute((2,), lambda i: a["x"])


@pytest.mark.parametrize("index", [-1, 2])
def test_a_constant_index_out_of_bounds_is_refused(index):
    a = te.placeholder((2,), name="A")
    with pytest.raises(ExpressionError, match=HERE + rf"A: index 0 must be .* got {index};"):
        a[index]


@pytest.mark.parametrize("extent", [0, -3, 1.5, "n", None])
def test_an_extent_that_is_no_positive_integer_is_refused(extent):
    with pytest.raises(ExpressionError, match=HERE + "A: every extent of the shape must be"):
        te.placeholder((2, extent), name="A")


def test_an_unknown_dtype_is_refused():
    with pytest.raises(ExpressionError, match="'float8' is unknown"):
        te.placeholder((2,), "float8")


def test_a_body_that_returns_a_whole_tensor_is_refused():
    a = te.placeholder((2, 3), name="A")
    with pytest.raises(ExpressionError, match=HERE + "B: the compute returns .*index all its dim"):
        te.compute((2,), lambda i: a[i], name="B")
    with pytest.raises(ExpressionError, match=HERE + "B: the compute returns .*index all its dim"):
        te.compute((2, 3), lambda i, j: a, name="B")


def test_a_body_that_returns_no_expression_is_refused():
    with pytest.raises(ExpressionError, match=HERE + "B: the compute must return expr.* got None"):
        te.compute((2,), lambda i: None, name="B")
    with pytest.raises(ExpressionError, match=HERE + "B: the compute returns no value"):
        te.compute((2,), lambda i: [], name="B")


def test_an_axis_of_another_compute_is_refused():
    other = te.compute((2,), lambda i: i)
    with pytest.raises(ExpressionError, match=HERE + "B: axis 'i' belongs to another compute"):
        te.compute((2,), lambda j: other.op.axis[0] + j, name="B")


def test_two_data_axes_of_one_name_are_refused():
    a = te.placeholder((2, 3), name="A")
    with pytest.raises(ExpressionError, match=HERE + "B: two of its axes are called 'i'"):
        te.compute((2, 3), lambda *x: a(*x), name="B", varargs_names=["i", "i"])


def test_a_reduction_axis_whose_name_is_taken_gets_a_number():
    a = te.placeholder((2, 3, 3), name="A")
    i, j = te.reduce_axis((0, 3), name="i"), te.reduce_axis((0, 3), name="i")
    made = te.compute((2,), lambda *x: te.sum(a[x[0], i, j], [i, j]), varargs_names=["i"])
    assert [axis.name for axis in made.op.reduce_axis] == ["i_1", "i_2"]
    again = te.compute((2,), lambda k: te.sum(a[k, i, j], [i, j]))
    assert [axis.name for axis in again.op.reduce_axis] == ["i_1", "i_2"]
    with pytest.raises(ExpressionError, match=HERE + "B: two of its axes"):
        te.compute((2,), lambda k: te.sum(a[k, i, i], [i, i]), name="B")


def test_varargs_names_must_be_as_many_as_the_axes():
    with pytest.raises(ExpressionError, match=HERE + "B: varargs_names must have 2 names"):
        te.compute((2, 3), lambda *x: x[0], name="B", varargs_names=["i"])


def test_a_symbolic_extent_is_kept():
    n = te.var("n")
    a = te.placeholder((n, 2), name="A")
    assert a.shape[0] is n
    b = te.compute((n, 2), lambda i, j: a[i, j] + n)
    assert b.shape[0] is n


def test_a_reduction_is_the_body_of_its_compute():
    _, _, c = matmul()
    (body,) = c.op.body
    assert isinstance(body, Reduce)
    assert c.op.reduce_axis == body.axes


def test_a_mistake_inside_the_function_names_tensor_and_line():
    a = te.placeholder((2,), name="A")

    def halve(i):
        return a[i / 2]

    line = halve.__code__.co_firstlineno + 1
    with pytest.raises(ExpressionError, match=rf"test_compute\.py:{line}: B: .* is ambiguous"):
        te.compute((2,), halve, name="B")
    with pytest.raises(ExpressionError, match=HERE + r"B: i < 1 has no truth value .* te\.max"):
        te.compute((2,), lambda i: 1 if i < 1 else 2, name="B")
