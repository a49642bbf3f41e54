"""Products of the same data that are transposed become one, cut where it is read."""

import numpy as np
import pytest

from autotune.graph import Constant, Graph, TensorType, Variable, apply, ops
from autotune.graph.passes import merge_products

RNG = np.random.default_rng(0)


def variable(rows=6, name="x"):
    return Variable(TensorType((rows, 5), "float64"), name)


def constant(*shape):
    return Constant.of(RNG.normal(size=shape))


def linear(x, heads, bias=True):
    product = apply(ops.Dense(), x, constant(heads * 4, 5))
    return apply(ops.Add(), constant(heads * 4), product) if bias else product


def transposed(product):
    rows, width = product.shape
    apart = apply(ops.Reshape((1, rows, width // 4, 4)), product)
    return apply(ops.Transpose((0, 2, 1, 3)), apart)


def dense_of(*outputs):
    """Return how many products there are after the pass, which computes the same."""
    graph = Graph.of(*outputs)
    after = merge_products(graph)
    arrays = [RNG.normal(size=each.shape) for each in graph.inputs]
    for got, want in zip(after.run(*arrays), graph.run(*arrays), strict=True):
        np.testing.assert_allclose(got, want, 1e-12, 1e-12)
    return [node.output.shape for node in after.nodes if node.op.name == "nn.dense"]


@pytest.mark.parametrize("bias", [(True, True, True), (True, False, True), (False, False, False)])
def test_all_products_of_the_same_data_are_one(bias):
    x = variable()
    heads = (2, 1, 3)
    parts = [transposed(linear(x, n, b)) for n, b in zip(heads, bias, strict=True)]
    assert dense_of(*parts) == [(6, 24)]


def test_those_of_other_data_are_others():
    x, y = variable(), variable(name="y")
    parts = [transposed(linear(each, 2)) for each in (x, y, x, y)]
    assert dense_of(*parts) == [(6, 16), (6, 16)]


def test_data_that_is_made_of_such_products_is_read_where_it_is_made_anew():
    x = variable()
    first, second = (transposed(linear(x, 5)) for _ in range(2))
    flat = apply(ops.Reshape((24, 5)), apply(ops.Add(), first, second))
    assert dense_of(*[transposed(linear(flat, 1)) for _ in range(2)]) == [(6, 40), (24, 8)]


def test_a_product_alone_stays():
    assert dense_of(transposed(linear(variable(), 2))) == [(6, 8)]


def several(make, rows=6):
    x = variable(rows)
    return [make(x) for _ in range(2)]


STAY = {
    "many rows": lambda: several(lambda x: transposed(linear(x, 2)), 512),
    "results that are not transposed": lambda: several(lambda x: linear(x, 2)),
    "results that are only seen anew": lambda: several(
        lambda x: apply(ops.Reshape((12, 4)), linear(x, 2))),
    "results that something else follows": lambda: several(
        lambda x: transposed(apply(ops.Relu(), linear(x, 2)))),
    "sums with other results": lambda: several(
        lambda x: transposed(apply(ops.Add(), linear(x, 2, False), linear(x, 2, False)))),
}  # fmt: skip


@pytest.mark.parametrize("name", STAY)
def test_others_stay_apart(name):
    outputs = STAY[name]()
    before = [node for node in Graph.of(*outputs).nodes if node.op.name == "nn.dense"]
    assert len(dense_of(*outputs)) == len(before)


def test_results_that_are_read_elsewhere_too_stay_apart():
    x = variable()
    first, second = linear(x, 2), linear(x, 2)
    assert len(dense_of(transposed(first), transposed(second), first)) == 2


def test_weights_that_are_inputs_stay_apart():
    x = variable()
    w = Variable(TensorType((8, 5), "float64"), "w")
    parts = [transposed(apply(ops.Dense(), x, w)), transposed(linear(x, 2))]
    assert len(dense_of(*parts)) == 2
