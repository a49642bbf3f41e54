"""Slices are cut out before what moves elements, and the numbers stay."""

import numpy as np
import pytest

from autotune.graph import Graph, TensorType, Variable, apply, ops
from autotune.graph.passes import reshapes_last, slices_first

RNG = np.random.default_rng(3)


def drawn(rng, value):
    """Return a value after a random move or operator."""
    shape = value.shape
    kind = rng.integers(7)
    if kind == 0:
        return apply(ops.Transpose(tuple(int(i) for i in rng.permutation(len(shape)))), value)
    if kind == 1 and len(shape) < 6:
        at = int(rng.integers(len(shape) + 1))
        return apply(ops.Reshape((*shape[:at], 1, *shape[at:])), value)
    if kind == 2 and len(shape) > 1:
        at = int(rng.integers(len(shape) - 1))
        return apply(
            ops.Reshape((*shape[:at], shape[at] * shape[at + 1], *shape[at + 2 :])), value
        )
    if kind == 3:
        at = int(rng.integers(len(shape)))
        if shape[at] % 2 == 0:
            half = shape[at] // 2
            return apply(ops.Reshape((*shape[:at], 2, half, *shape[at + 1 :])), value)
    if kind == 4:
        at = int(rng.integers(len(shape)))
        if shape[at] > 1:
            begin = int(rng.integers(shape[at]))
            end = int(rng.integers(begin, shape[at])) + 1
            lead = shape[:at]
            return apply(ops.StridedSlice((0,) * at + (begin,), (*lead, end)), value)
    if kind == 5:
        other = apply(ops.Relu(), value)
        return apply(ops.Add(), value, other)
    if kind == 6:
        return apply(ops.LayerNorm(-1, 1e-5, False, False), value)
    return apply(ops.Tanh(), value)


@pytest.mark.many_cases
@pytest.mark.parametrize("seed", range(150))
def test_random_moves_compute_the_same_after_both_passes(seed):
    rng = np.random.default_rng(seed)
    x = Variable(TensorType((2, 4, 1, 12), "float64"), "x")
    w = Variable(TensorType((12, 12), "float64"), "w")
    value = apply(ops.Dense(), apply(ops.Reshape((8, 12)), x), w)
    for _ in range(10):
        value = drawn(rng, value)
    graph = Graph.of(value)
    arrays = [rng.normal(size=each.shape) for each in graph.inputs]
    (want,) = graph.run(*arrays)
    for changed in (slices_first(graph), reshapes_last(graph), reshapes_last(slices_first(graph))):
        assert changed.outputs[0].type == value.type
        (got,) = changed.run(*arrays)
        np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-12)


def names(graph):
    return [node.op.name for node in graph.nodes]


def test_parts_that_are_cut_after_a_transpose_are_cut_from_the_product():
    x = Variable(TensorType((2, 5, 3 * 4 * 8)), "x")
    apart = apply(ops.Reshape((2, 5, 3, 4, 8)), x)
    turned = apply(ops.Transpose((2, 0, 3, 1, 4)), apart)
    second = apply(ops.StridedSlice((1,), (2,)), turned)
    graph = slices_first(Graph.of(apply(ops.Reshape((2, 4, 5, 8)), second)))
    assert names(graph) == ["strided_slice", "reshape", "transpose"]
    assert graph.nodes[0].op == ops.StridedSlice((0, 0, 32), (2, 5, 64), (1, 1, 1))
    assert graph.nodes[2].op == ops.Transpose((0, 2, 1, 3))
