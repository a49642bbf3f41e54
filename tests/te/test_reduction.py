"""Reductions: axes, combiners, conditions, and where they may stand."""

import pytest

from autotune import te
from autotune.errors import ExpressionError
from autotune.ir import const, same

HERE = r"test_reduction\.py:\d+: "


def source(dtype="float32"):
    return te.placeholder((4, 8, 2), dtype, name="A")


def test_a_sum_begins_with_zero():
    a, k = source("float16"), te.reduce_axis((0, 8), "k")
    b = te.compute((4,), lambda i: te.sum(a[i, k, 0], axis=k))
    combiner = b.op.body[0].combiner
    assert (combiner.name, b.dtype) == ("sum", "float16")
    assert same(combiner.identity, (const(0.0, "float16"),))


def test_minimum_and_maximum_begin_with_the_limits_of_the_dtype():
    a, k = source("int8"), te.reduce_axis((0, 8), "k")
    low = te.compute((4,), lambda i: te.max(a[i, k, 0], axis=k)).op.body[0]
    high = te.compute((4,), lambda i: te.min(a[i, k, 0], axis=k)).op.body[0]
    assert low.combiner.identity[0].value == -128
    assert high.combiner.identity[0].value == 127


def test_sums_of_one_dtype_share_their_combiner():
    a, k = source(), te.reduce_axis((0, 8), "k")
    b = te.compute((4,), lambda i: te.sum(a[i, k, 0], axis=k))
    c = te.compute((4,), lambda i: te.sum(a[i, k, 1], axis=k))
    assert b.op.body[0].combiner is c.op.body[0].combiner


def test_several_axes_reduce_together():
    a = source()
    k, m = te.reduce_axis((0, 8), "k"), te.reduce_axis((0, 2), "m")
    b = te.compute((4,), lambda i: te.sum(a[i, k, m], axis=[k, m]))
    assert b.op.reduce_axis == (k, m)


def test_a_reduction_over_no_axes_is_its_source():
    a = source()
    b = te.compute((4,), lambda i: te.sum(a[i, 0, 0], axis=[]))
    assert str(b.op.body[0]) == "A[i, 0, 0]"


def test_where_and_init_are_kept():
    a, k = source(), te.reduce_axis((0, 8), "k")
    b = te.compute((4,), lambda i: te.sum(a[i, k, 0], axis=k, where=k > i, init=i))
    assert str(b.op.body[0]) == ("sum(A[i, k, 0], axis=[k], where=k > i, init=[float32(i)])")


def test_a_range_of_a_reduction_may_begin_anywhere():
    k = te.reduce_axis((2, 8), "k")
    assert (k.dom.min.value, k.dom.extent.value) == (2, 6)
    assert te.reduce_axis(5, "k").dom.extent.value == 5


def test_no_reduction_is_as_long_as_data_says():
    ends = te.placeholder((5,), "int32", name="ends")
    with pytest.raises(ExpressionError, match="depends on values of ends; expected a constant"):
        te.compute((4,), lambda i: te.sum(1, axis=te.reduce_axis((ends[i], ends[i + 1]))))
    n = te.var("n")
    assert str(te.reduce_axis((0, n + 1)).dom.extent) == "n + 1"


def test_unnamed_reduction_axes_get_distinct_names():
    a = source()
    k, m = te.reduce_axis((0, 8)), te.reduce_axis((0, 2))
    b = te.compute((4,), lambda i: te.sum(a[i, k, m], axis=[k, m]))
    assert [axis.name for axis in b.op.reduce_axis] == ["rv", "rv1"]


def test_min_and_max_of_values_are_no_reductions():
    b = te.compute((4,), lambda i: te.max(i, 2) + te.min(i, 3, 1))
    assert str(b.op.body[0]) == "max(i, 2) + min(min(i, 3), 1)"


def test_a_reducer_of_values_without_an_axis_combines_them(caplog):
    product = te.comm_reducer(lambda x, y: x * y, lambda t: te.const(1, t))
    a = te.placeholder((4,), name="a")
    b = te.compute((4,), lambda i: te.sum(a[i], a[0], 2.0) + product(a[i], a[3 - i], 3))
    assert str(b.op.body[0]) == "a[i] + a[0] + 2.0f + a[i] * a[3 - i] * 3.0f"
    assert not caplog.records
    c = te.compute((4,), lambda i: te.sum(a[i], axis=1))
    assert str(c.op.body[0]) == "a[i] + 1.0f"
    assert "te.sum: 1 is no te.reduce_axis: as in TVM" in caplog.text


def test_the_condition_of_a_reduction_may_be_given_by_position():
    a, k = te.placeholder((4, 8), name="a"), te.reduce_axis((0, 8), "k")
    for reduction in (te.sum, te.min, te.max):
        b = te.compute((4,), lambda i, each=reduction: each(a[i, k], k, k < 3))
        assert str(b.op.body[0].condition) == "k < 3"
    with pytest.raises(ExpressionError, match="takes a value, axes, where and init, got 5 too"):
        te.compute((4,), lambda i: te.max(a[i, k], k, None, None, 5))


def argmax():
    return te.comm_reducer(
        lambda x, y: (te.Select(x[1] >= y[1], x[0], y[0]), te.max(x[1], y[1])),
        lambda t0, t1: (te.const(-1, t0), te.min_value(t1)),
        name="argmax",
    )


def test_a_reducer_of_tuples_gives_several_tensors():
    index = te.placeholder((4, 8), "int32", name="index")
    value = te.placeholder((4, 8), "float32", name="value")
    k = te.reduce_axis((0, 8), "k")
    at, largest = te.compute(
        (4,), lambda i: argmax()((index[i, k], value[i, k]), axis=k), name="T"
    )
    assert (at.dtype, largest.dtype, at.op is largest.op) == ("int32", "float32", True)
    assert at.op.input_tensors == (index, value)
    combiner = at.op.body[0].combiner
    assert combiner is at.op.body[1].combiner
    assert str(combiner.result[1]) == "max(x_1, y_1)"


def test_a_reducer_of_single_values_is_written_without_tuples():
    product = te.comm_reducer(lambda x, y: x * y, lambda t: te.const(1, t), name="product")
    a, k = source(), te.reduce_axis((0, 8), "k")
    b = te.compute((4,), lambda i: product(a[i, k, 0], axis=k))
    assert str(b.op.body[0].combiner.result[0]) == "x * y"
    assert product.__name__ == "product"


def test_a_reducer_that_loses_a_value_is_refused():
    wrong = te.comm_reducer(lambda x, y: x[0] + y[0], lambda *t: te.const(0, t[0]))
    a, k = source(), te.reduce_axis((0, 8), "k")
    with pytest.raises(ExpressionError, match=HERE + "comm_reducer: 2 values .* returns 1"):
        te.compute((4,), lambda i: wrong((a[i, k, 0], a[i, k, 1]), axis=k))


def test_a_reduction_below_the_top_is_refused():
    a, k = source(), te.reduce_axis((0, 8), "k")
    with pytest.raises(ExpressionError, match=HERE + "B: a reduction must be the whole value"):
        te.compute((4,), lambda i: te.sum(a[i, k, 0], axis=k) + 1, name="B")
    with pytest.raises(ExpressionError, match=HERE + "B: a reduction must be the whole value"):
        te.compute((4,), lambda i: te.sum(a[i, k, 0], axis=k).astype("int32"), name="B")


def test_a_reduction_within_a_reduction_is_refused():
    a = source()
    k, m = te.reduce_axis((0, 8), "k"), te.reduce_axis((0, 2), "m")
    with pytest.raises(ExpressionError, match=HERE + "B: a reduction must be the whole value"):
        te.compute((4,), lambda i: te.sum(te.max(a[i, k, m], axis=m), axis=k), name="B")


def test_a_reduction_axis_outside_its_reduction_is_refused():
    a = source()
    k, m = te.reduce_axis((0, 8), "k"), te.reduce_axis((0, 2), "m")
    with pytest.raises(ExpressionError, match=HERE + "B: reduction axis 'k' is used outside"):
        te.compute((4,), lambda i: a[i, k, 0], name="B")
    with pytest.raises(ExpressionError, match=HERE + "B: reduction axis 'm' is used outside"):
        te.compute((4,), lambda i: te.sum(a[i, k, m], axis=k), name="B")
    with pytest.raises(ExpressionError, match=HERE + "B: reduction axis 'k' is used outside"):
        te.compute((4,), lambda i: te.sum(a[i, k, 0], axis=k, init=k), name="B")


def test_an_unnamed_reduction_axis_outside_its_reduction_is_refused_too():
    a, k = source(), te.reduce_axis((0, 8))
    with pytest.raises(ExpressionError, match=HERE + "B: reduction axis 'rv' is used outside"):
        te.compute((4,), lambda i: a[i, k, 0], name="B")


@pytest.mark.parametrize("values", [-3, (4, 2), te.Range(4, -2)], ids=str)
def test_a_reduction_axis_that_ends_before_it_begins_is_refused(values):
    with pytest.raises(ExpressionError, match=HERE + r"reduce_axis: .* ends before it begins"):
        te.reduce_axis(values)


def test_a_data_axis_is_no_axis_to_reduce_over():
    a = source()
    with pytest.raises(ExpressionError, match=HERE + r"the axis .* from te\.reduce_axis"):
        te.compute((4,), lambda i: te.sum(a[i, 0, 0], axis=i), name="B")


def test_outputs_of_different_reductions_are_refused():
    a = source()
    k, m = te.reduce_axis((0, 8), "k"), te.reduce_axis((0, 2), "m")
    with pytest.raises(ExpressionError, match=HERE + "B: the outputs of one compute must come"):
        te.compute(
            (4,), lambda i: (te.sum(a[i, k, 0], axis=k), te.sum(a[i, 0, m], axis=m)), name="B"
        )
    with pytest.raises(ExpressionError, match=HERE + "B: either all outputs are reductions"):
        te.compute((4,), lambda i: (a[i, 0, 0], te.sum(a[i, k, 0], axis=k)), name="B")


def test_a_sum_of_bools_counts_them():
    a, k = source(), te.reduce_axis((0, 8), "k")
    b = te.compute((4,), lambda i: te.sum(a[i, k, 0] > 0.5, axis=k))
    assert b.dtype == "int32"
