"""Attention reads heads where products leave them: nothing is transposed for it."""

import itertools

import numpy as np
import pytest

from autotune.graph import Constant, Graph, Node, TensorType, Variable, apply, ops
from autotune.graph.passes import OWN, compose

RNG = np.random.default_rng(0)
BATCH, ROWS, SIZE = 2, 5, 8
TURN = ops.Transpose((0, 2, 1, 3))


def variable(*shape, name="x"):
    return Variable(TensorType(shape, "float64"), name)


def constant(*shape):
    return Constant.of(RNG.normal(size=shape))


def reshape(x, *shape):
    return apply(ops.Reshape(shape), x)


def linear(x, width, bias=True):
    product = apply(ops.Dense(), x, constant(width, x.shape[1]))
    return apply(ops.Add(), product, constant(width)) if bias else product


def apart(x, heads):
    return apply(TURN, reshape(x, BATCH, -1, heads, SIZE))


def attention(q, k, v, heads, kv_heads=None, causal=True):
    kv_heads = kv_heads or heads
    parts = (apart(q, heads), apart(k, kv_heads), apart(v, kv_heads))
    seen = apply(TURN, apply(ops.Attention(causal), *parts))
    return reshape(seen, -1, heads * SIZE)


X = variable(BATCH * ROWS, 12)


def products(heads=4, kv_heads=None, bias=(True, True, True)):
    sizes = (heads, kv_heads or heads, kv_heads or heads)
    parts = [linear(X, n * SIZE, b) for n, b in zip(sizes, bias, strict=True)]
    return attention(*parts, heads, kv_heads)


def split():
    """Return what GPT-2 is: one product, cut in three."""
    whole = linear(X, 3 * 4 * SIZE)
    node = apply_all(ops.Split(3, 1), whole)
    return attention(*node, 4)


def apply_all(op, value):
    return Node(op, (value,)).outputs


def sliced():
    """Return one product whose parts are cut out, of shared keys."""
    whole = reshape(linear(X, 8 * SIZE), BATCH, ROWS, 8 * SIZE)
    bounds = (0, 4, 6, 8)
    parts = [
        apply(ops.StridedSlice((0, 0, a * SIZE), (BATCH, ROWS, b * SIZE)), whole)
        for a, b in itertools.pairwise(bounds)
    ]
    return attention(*parts, 4, 2)


PACKED = {
    "three products": products,
    "shared keys": lambda: products(4, 2),
    "keys without a bias": lambda: products(bias=(True, False, True)),
    "no bias": lambda: products(bias=(False, False, False)),
    "one product in three parts": split,
    "one product cut by slices": sliced,
}


def composed(graph, serves=lambda node: True):
    return compose(OWN(graph), serves)


def work_of(graph):
    moves = ("reshape", "strided_slice", "split")
    return [node.op.name for node in graph.nodes if node.op.name not in moves]


def same(graph, other):
    arrays = [RNG.normal(size=each.shape) for each in graph.inputs]
    for got, want in zip(other.run(*arrays), graph.run(*arrays), strict=True):
        np.testing.assert_allclose(got, want, 1e-9, 1e-9)


@pytest.mark.parametrize("name", PACKED)
def test_products_of_the_same_data_are_one_which_attention_reads(name):
    graph = Graph.of(PACKED[name]())
    found = composed(graph)
    assert [work for work in work_of(found) if work != "add"] == [
        "nn.dense",
        "nn.packed_attention",
    ]
    same(graph, found)


def other_data():
    y = variable(BATCH * 7, 12, name="y")
    return attention(linear(X, 32), linear(y, 32), linear(y, 32), 4)


def weights_that_are_inputs():
    w = variable(32, 12, name="w")
    return attention(apply(ops.Dense(), X, w), linear(X, 32), linear(X, 32), 4)


def another_order():
    q, k, v = apply_all(ops.Split(3, 1), linear(X, 96))
    return attention(k, q, v, 4)


def parts_of_heads():
    """Cut each head in three, not the row."""
    whole = reshape(linear(X, 96), BATCH, ROWS, 4, 3 * SIZE)
    return attention(*apply_all(ops.Split(3, 3), whole), 4)


ROWS_FIRST = {
    "keys of other data": other_data,
    "weights that are inputs": weights_that_are_inputs,
    "parts in another order": another_order,
    "parts of each head": parts_of_heads,
}


@pytest.mark.parametrize("name", ROWS_FIRST)
def test_of_other_inputs_only_the_turns_are_saved(name):
    graph = Graph.of(ROWS_FIRST[name]())
    found = composed(graph)
    assert "nn.rows_first_attention" in work_of(found)
    assert "transpose" not in work_of(found)
    same(graph, found)


def test_products_that_others_read_too_stay_apart():
    keys = linear(X, 32)
    seen = attention(linear(X, 32), keys, linear(X, 32), 4)
    graph = Graph.of(seen, keys)
    found = composed(graph)
    assert work_of(found).count("nn.dense") == 3
    assert "nn.rows_first_attention" in work_of(found)
    same(graph, found)


def test_heads_that_stay_first_are_attended_to_as_they_are():
    q, k, v = (variable(BATCH, 4, ROWS, SIZE, name=name) for name in "qkv")
    heads_first = [apply(TURN, each) for each in (q, k, v)]
    cases = [
        apply(ops.Attention(), q, k, v),
        apply(TURN, apply(ops.Attention(), q, k, v)),
        apply(ops.Attention(), *heads_first),
        apply(ops.Transpose((0, 2, 3, 1)), apply(ops.Attention(), *heads_first)),
    ]
    for case in cases:
        graph = Graph.of(case)
        found = composed(graph)
        assert "nn.scaled_dot_product_attention" in work_of(found)
        same(graph, found)


def test_what_no_template_computes_stays_transposed():
    graph = Graph.of(products())
    plain = composed(graph, lambda node: node.op.name == "nn.scaled_dot_product_attention")
    assert work_of(plain).count("transpose") == 4
    first = composed(graph, lambda node: node.op.name != "nn.packed_attention")
    assert "nn.rows_first_attention" in work_of(first)
    assert work_of(composed(graph, lambda node: False)).count("nn.batch_matmul") == 2
    for found in (plain, first):
        same(graph, found)


@pytest.mark.parametrize(
    ("op", "shapes"),
    [
        (ops.RowsFirstAttention(True), [(2, 5, 4, 8), (2, 6, 2, 8), (2, 6, 2, 8)]),
        (ops.PackedAttention(), [(2, 5, 6, 8)]),
        (ops.PackedAttention(True, 0.2, 1), [(2, 5, 6, 8)]),
    ],
)
def test_operators_of_these_layouts_are_arithmetic_where_no_template_computes_them(op, shapes):
    graph = Graph.of(apply(op, *[variable(*s, name=f"x{i}") for i, s in enumerate(shapes)]))
    apart = composed(graph, lambda node: False)
    assert "nn.batch_matmul" in work_of(apart)
    same(graph, apart)
    assert work_of(composed(graph)) == [op.name]
