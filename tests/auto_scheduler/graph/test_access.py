"""What the analysis of a graph finds: reads, inlining, tiling, common loops."""

import gc
import weakref

import pytest

from autotune import te, topi
from autotune.auto_scheduler import ComputeDAG
from autotune.auto_scheduler.graph.access import facts_of
from tests.auto_scheduler.graphs import matmul, tutorial_layer
from tests.auto_scheduler.resnet18 import build, printed_tasks


def ops_of(dag):
    return {op.name: op for op in dag.ops}


def elementwise(value, shape=(8, 6)):
    a = te.placeholder(shape, name="A")
    b = te.compute(shape, lambda i, j: value(a, i, j), name="B")
    dag = ComputeDAG([a, b])
    return dag.access, b.op


def test_a_convolution_needs_tiling_and_nothing_around_it_does():
    dag = ComputeDAG(tutorial_layer())
    needs = [op.name for op in dag.ops if dag.access.needs_multi_level_tiling(op)]
    assert needs == ["compute"]
    assert dag.ops[3].reduce_axis


def test_what_is_elementwise_may_be_inlined_and_padding_may_not():
    dag = ComputeDAG(tutorial_layer())
    *_, add, relu = dag.ops
    strictly = [dag.access.is_strictly_inlineable(op) for op in dag.ops]
    assert strictly == [False, False, False, False, False, True, True]
    assert dag.access.is_output(relu)
    assert not dag.access.is_output(add)


@pytest.mark.parametrize(
    ("value", "inlineable"),
    [
        (lambda a, i, j: a[i, j] + 1.0, True),
        (lambda a, i, j: a[i + 1, j - 2], True),
        (lambda a, i, j: a[i, 3], True),
        (lambda a, i, j: a[j, i], False),
        (lambda a, i, j: a[i, i], False),
        (lambda a, i, j: a[i * 2, j], False),
        (lambda a, i, j: a[i + j, j], False),
        (lambda a, i, j: te.exp(a[i, j]), False),
        (lambda a, i, j: te.tanh(a[i, j]), True),
        (lambda a, i, j: te.if_then_else(i > 2, a[i, j], 0.0), False),
        (lambda a, i, j: te.Select(i > 2, a[i, j], 0.0), False),
    ],
)
def test_which_operations_are_inlineable(value, inlineable):
    access, op = elementwise(value)
    assert access.is_strictly_inlineable(op) == inlineable


def test_a_constant_matrix_is_always_inlineable():
    c = topi.nn.const_matrix([[1, 2], [3, 4]], "float32", "C")
    a = te.placeholder((2, 2), name="A")
    b = te.compute((2, 2), lambda i, j: a[i, j] * c[i, j], name="B")
    assert ComputeDAG([a, b]).access.is_strictly_inlineable(c.op)


def test_reading_twice_what_lacks_an_axis_needs_tiling_even_without_a_sum():
    a, b = te.placeholder((8,), name="A"), te.placeholder((6,), name="B")
    outer = te.compute((8, 6), lambda i, j: a[i] * b[j], name="C")
    dag = ComputeDAG([a, b, outer])
    assert dag.access.needs_multi_level_tiling(outer.op)
    single = te.compute((8, 6), lambda i, j: a[i] * 2.0, name="D")
    assert not ComputeDAG([a, single]).access.needs_multi_level_tiling(single.op)


def test_axes_of_one_iteration_do_not_count_as_missing():
    a, b = te.placeholder((1, 4), name="A"), te.placeholder((4, 1), name="B")
    k = te.reduce_axis((0, 4), "k")
    c = te.compute((1, 1), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), "C")
    assert not ComputeDAG([a, b, c]).access.needs_multi_level_tiling(c.op)


def test_transforms_with_constant_matrices_need_no_tiling():
    winograd = next(task for task in printed_tasks() if "bgemm" in task.text)
    dag = ComputeDAG(build(winograd))
    needs = [op.name for op in dag.ops if dag.access.needs_multi_level_tiling(op)]
    assert needs == ["bgemm"]


def test_common_outer_loops_are_the_least_over_all_paths():
    x = te.placeholder((4, 5, 6), name="x")
    dag = ComputeDAG([x, topi.nn.softmax(x)])
    op = ops_of(dag)
    common = dag.access.num_common_outer_iterators
    assert common(op["T_softmax_maxelem"], op["T_softmax_exp"]) == 2
    assert common(op["T_softmax_exp"], op["T_softmax_maxelem"]) == 2
    assert common(op["T_softmax_exp"], op["T_softmax_norm"]) == 2
    assert common(op["T_softmax_maxelem"], op["T_softmax_norm"]) == 2
    assert common(op["T_softmax_norm"], op["T_softmax_norm"]) == 3


def test_operations_that_are_not_connected_share_no_loop():
    a, b = te.placeholder((4,), name="A"), te.placeholder((4,), name="B")
    c = te.compute((4,), lambda i: a[i] + b[i], name="C")
    dag = ComputeDAG([a, b, c])
    assert dag.access.num_common_outer_iterators(a.op, b.op) == 0


def test_an_elementwise_chain_matches_and_a_transposition_does_not():
    a, b, c = matmul(8, 8, 4)
    d = te.compute((8, 8), lambda i, j: te.max(c[i, j], 0.0), name="D")
    e = te.compute((8, 8), lambda i, j: d[i, j] + 1.0, name="E")
    f = te.compute((8, 8), lambda i, j: e[j, i], name="F")
    access = ComputeDAG([a, b, f]).access
    assert access.elementwise_match(c.op, e.op)
    assert not access.elementwise_match(c.op, f.op)
    assert not access.elementwise_match(a.op, c.op)


def test_consumers_and_producers_look_through_what_is_inlined():
    dag = ComputeDAG(tutorial_layer())
    data, pad, kernel, conv, bias, add, relu = dag.ops
    access = dag.access
    assert access.consumers(conv) == [add]
    assert access.consumers(conv, {add}) == [relu]
    assert access.producers(relu, {add}) == [conv, bias]
    assert access.producers(conv, {pad}) == [data, kernel]
    assert access.direct_producers(conv) == [pad, kernel]


def test_flops_are_counted_as_the_auto_scheduler_counts_them():
    a, b, c = matmul(32, 16, 8)
    assert ComputeDAG([a, b, c]).flop_ct == 2 * 32 * 16 * 8
    d = te.compute((32, 16), lambda i, j: te.max(c[i, j], 0.0), name="D")
    assert ComputeDAG([a, b, d]).flop_ct == 2 * 32 * 16 * 8 + 32 * 16
    assert ComputeDAG(tutorial_layer()).flop_ct == 512 * 49 * (2 * 512 * 9 + 2)


@pytest.mark.parametrize(
    ("value", "each"),
    [
        (lambda a, i, j: te.if_then_else(te.all(i > 1, j > 2), a[i, j], 0.0), 0),
        (lambda a, i, j: te.if_then_else(i > 1, a[i, j] + 1.0, 0.0), 1),
        (lambda a, i, j: te.Select(a[i, j] > 0.0, a[i, j] * 2.0, a[i, j]), 2),
        (lambda a, i, j: te.exp(a[i, j] + 1.0), 1),
        (lambda a, i, j: a[i // 2 + 1, j], 0),
        (lambda a, i, j: (a[i, j] * 2.0).astype("float16"), 1),
    ],
)
def test_conditions_paddings_and_indices_are_free(value, each):
    a = te.placeholder((8, 6), name="A")
    b = te.compute((8, 6), lambda i, j: value(a, i, j), name="B")
    assert ComputeDAG([a, b]).flop_ct == 48 * each


def test_an_attribute_says_how_many_flops_there_are():
    a = te.placeholder((8,), name="A")
    b = te.compute((8,), lambda i: a[i] * 2.0, name="B", attrs={"FLOP": 128})
    c = te.compute((8,), lambda i: b[i] + 2.0, name="C")
    assert ComputeDAG([a, c]).flop_ct == 136


def test_flops_of_extents_that_are_not_constant_are_unknown():
    n = te.var("n")
    a = te.placeholder((n,), name="A")
    assert ComputeDAG([a, te.compute((n,), lambda i: a[i] + 1.0, name="B")]).flop_ct == -1


def test_states_that_went_the_same_way_share_what_was_found_of_their_operations():
    dag = ComputeDAG(tutorial_layer())
    one, other = dag.get_init_state(), dag.get_init_state()
    for state in (one, other):
        state.cache_read(1, "shared", [3])
    other.cache_write(4, "local")
    before, after = one.state_object.stage_ops, other.state_object.stage_ops
    assert [op.name for op in before[:4]] == [op.name for op in after[:4]]
    assert all(mine is theirs for mine, theirs in zip(before[:4], after[:4], strict=True))
    assert facts_of(before[2]) is facts_of(after[2])


def test_what_is_found_of_operations_goes_with_them():
    dag = ComputeDAG(tutorial_layer())
    assert dag.access.needs_multi_level_tiling(dag.ops[3])
    gone = weakref.ref(dag.ops[3])
    del dag
    gc.collect()
    assert gone() is None
