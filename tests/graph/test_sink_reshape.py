"""Reshapes of products move behind the elementwise operators that follow, and nothing changes."""

import numpy as np
import pytest

from autotune.graph import Constant, Graph, TensorType, Variable, apply, ops
from autotune.graph.passes import sink_reshape

X = Variable(TensorType((6, 4)), "x")
R = Variable(TensorType((2, 3, 5)), "r")
IMAGES = Variable(TensorType((2, 3, 1, 7)), "images")


def constant(*shape):
    return Constant.of(np.random.default_rng(0).uniform(0.5, 1, shape).astype("float32"))


def product():
    """Return a product of matrices, seen in three dimensions."""
    return apply(ops.Reshape((2, 3, 5)), apply(ops.Dense(), X, constant(5, 4)))


def rows():
    """Return a convolution of one dimension."""
    made = apply(ops.Conv2d(padding=(0, 1)), IMAGES, constant(4, 3, 1, 3))
    return apply(ops.Reshape((2, 4, 7)), made)


def normed(value):
    return apply(ops.BatchNorm(1), value, *[constant(4) for _ in range(4)])


CASES = {
    "a bias": lambda: apply(ops.Add(), constant(5), product()),
    "a bias of trailing dimensions": lambda: apply(ops.Add(), product(), constant(1, 1, 5)),
    "a bias of the last axis": lambda: apply(ops.BiasAdd(-1), product(), constant(5)),
    "a number and an activation": lambda: apply(ops.Gelu(), product() * 2.0),
    "a residual": lambda: apply(ops.Add(), R, apply(ops.Relu(), product())),
    "two products": lambda: apply(ops.Multiply(), product(), apply(ops.Sigmoid(), product())),
    "a bias of channels": lambda: apply(ops.BiasAdd(1), rows(), constant(4)),
    "a batch norm": lambda: apply(ops.Relu(), normed(rows())),
    "slopes": lambda: apply(ops.Prelu(1), rows(), constant(4)),
}


@pytest.mark.parametrize("case", CASES)
def test_a_reshape_moves_behind(case):
    graph = Graph.of(CASES[case]())
    sunk = sink_reshape(graph)
    assert isinstance(sunk.outputs[0].node.op, ops.Reshape)
    products = (ops.Dense, ops.Conv2d)
    (anchor, *_) = [node for node in sunk.nodes if isinstance(node.op, products)]
    assert not any(isinstance(node.op, ops.Reshape) for node in sunk.readers[anchor.output])
    arrays = [np.random.default_rng(1).normal(size=v.shape) for v in graph.inputs]
    for before, after in zip(graph.run(*arrays), sunk.run(*arrays), strict=True):
        np.testing.assert_allclose(after, before, rtol=1e-12)


@pytest.mark.parametrize("made", [
    lambda: apply(ops.Add(), product(), constant(3, 1)),  # a number for each row
    lambda: apply(ops.Relu(), apply(ops.Reshape((2, 15)), R)),  # no product
    lambda: apply(ops.BiasAdd(1), product(), constant(3)),
])  # fmt: skip
def test_what_has_no_place_before_stays(made):
    graph = Graph.of(made())
    assert sink_reshape(graph).outputs[0].node.op == graph.outputs[0].node.op
