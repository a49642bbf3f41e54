"""Reshapes of products move behind the elementwise operators that follow, and nothing changes."""

import numpy as np
import pytest

from autotune.graph import Constant, Graph, TensorType, Variable, apply, ops
from autotune.graph.passes import eliminate_common, reshapes_last

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


def centred(value):
    return value - apply(ops.Mean((-1,), True), value)


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
    "a bias of channels with trailing dimensions": lambda: rows() + constant(4, 1),
    "a norm": lambda: apply(ops.LayerNorm(-1, 1e-5, False, False), product()),
    "a mean that is subtracted": lambda: centred(product()),
    "a condition": lambda: apply(ops.Where(), R > 0.0, product(), R),
}


@pytest.mark.parametrize("case", CASES)
def test_a_reshape_moves_behind(case):
    graph = Graph.of(CASES[case]())
    sunk = reshapes_last(graph)
    assert isinstance(sunk.outputs[0].node.op, ops.Reshape)
    products = (ops.Dense, ops.Conv2d)
    (anchor, *_) = [node for node in sunk.nodes if isinstance(node.op, products)]
    assert not any(isinstance(node.op, ops.Reshape) for node in sunk.readers[anchor.output])
    arrays = [np.random.default_rng(1).normal(size=v.shape) for v in graph.inputs]
    for before, after in zip(graph.run(*arrays), sunk.run(*arrays), strict=True):
        np.testing.assert_allclose(after, before, rtol=1e-12)


def test_a_condition_on_one_number_moves_with_both_its_branches():
    single = Variable(TensorType((1, 4)), "x")
    made = apply(ops.Reshape((1,)), apply(ops.Dense(), single, constant(1, 4)))
    graph = Graph.of(apply(ops.Where(), constant(1), made, constant(1)))
    sunk = reshapes_last(graph)
    assert isinstance(sunk.outputs[0].node.op, ops.Reshape)
    x = np.random.default_rng(1).normal(size=(1, 4))
    np.testing.assert_allclose(sunk.run(x)[0], graph.run(x)[0], rtol=1e-12)


@pytest.mark.parametrize("made", [
    lambda: apply(ops.Add(), product(), constant(3, 1)),  # a number for each row
    lambda: apply(ops.Reshape((2, 15)), R) + constant(15),  # no product
    lambda: apply(ops.Softmax(1), rows()),  # not along the last axis of the convolution
    lambda: apply(ops.BiasAdd(1), product(), constant(3)),
])  # fmt: skip
def test_what_has_no_place_before_stays(made):
    graph = Graph.of(made())
    assert reshapes_last(graph).outputs[0].node.op == graph.outputs[0].node.op


def test_an_activation_and_a_residual_sum_follow_their_product_at_once():
    x = Variable(TensorType((2, 5, 8)), "x")
    w = Variable(TensorType((8, 8)), "w")
    rows = apply(ops.Reshape((10, 8)), x)
    seen = apply(ops.Reshape((2, 5, 8)), apply(ops.Dense(), rows, w))
    total = apply(ops.Add(), x, apply(ops.Gelu(), seen))
    changed = eliminate_common(reshapes_last(Graph.of(total)))
    assert [node.op.name for node in changed.nodes] == [
        "reshape",
        "nn.dense",
        "nn.gelu",
        "add",
        "reshape",
    ]


def test_a_softmax_is_over_the_same_axis_before_a_reshape_of_other_rank():
    x = Variable(TensorType((6, 4, 5), "float32"), "x")
    wide = apply(ops.Reshape((2, 3, 4, 5)), x)
    graph = Graph.of(apply(ops.Softmax(3), wide))
    data = np.random.default_rng(0).normal(size=(6, 4, 5))
    after = reshapes_last(graph)
    assert [type(node.op) for node in after.nodes] == [ops.Softmax, ops.Reshape]
    np.testing.assert_allclose(after.run(data)[0], graph.run(data)[0])


@pytest.mark.parametrize("along", [None, 1])
def test_quantisation_is_moved_with_the_axis_of_its_scales(along):
    x = Variable(TensorType((6, 4), "float32"), "x")
    wide = apply(ops.Reshape((2, 3, 4)), x)
    shape = () if along is None else (4,)
    scale = Constant.of(np.full(shape, 0.25, "float32"))
    zero = Constant.of(np.full(shape, 3, "int8"))
    graph = Graph.of(apply(ops.Quantize(2 if along else 0), wide, scale, zero))
    data = np.random.default_rng(0).normal(size=(6, 4)).astype("float32")
    after = reshapes_last(graph)
    assert [type(node.op) for node in after.nodes] == [ops.Quantize, ops.Reshape]
    np.testing.assert_array_equal(after.run(data)[0], graph.run(data)[0])
