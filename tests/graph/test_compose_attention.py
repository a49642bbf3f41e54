"""Attention is found in the arithmetic that importers write, and nothing else is."""

import numpy as np
import pytest

from autotune.graph import Constant, Graph, apply, ops
from autotune.graph.passes import OWN, compose, slices_first
from tests.graph.arithmetic import (
    EPSILON,
    RNG,
    add,
    composed,
    constant,
    number,
    over,
    reshape,
    same,
    times,
    variable,
    work_of,
)
from tests.graph.test_compose import X


def heads(x, count):
    """Return [batch, rows, width] as matrices of heads."""
    batch, rows, width = x.shape
    apart = reshape(x, batch, rows, count, width // count)
    return apply(ops.Transpose((0, 2, 1, 3)), apart)


def joined(x):
    return reshape(x, -1, *x.shape[2:])


def causal_mask(queries, keys, hidden=-1e9):
    seen = np.arange(keys) <= np.arange(queries)[:, None] + keys - queries
    return number(np.where(seen, 0, hidden)[None])


def softmax(x):
    return apply(ops.Softmax(-1), x)


def product(a, b, transposed):
    return apply(ops.BatchMatmul(transpose_b=transposed), a, b)


Q, K, V = (variable(2, n, 12, name=name) for n, name in ((4, "q"), (5, "k"), (5, "v")))


def cast(x, dtype):
    return apply(ops.Cast(dtype), x)


def bert(scale=lambda scores: over(scores, number(2.0)), mask=None):
    """Return attention as ONNX has it: keys transposed, scores seen as heads."""
    q, k, v = heads(Q, 3), heads(K, 3), heads(V, 3)
    swapped = reshape(apply(ops.Transpose((0, 1, 3, 2)), k), 6, 4, 5)
    scores = scale(reshape(product(joined(q), swapped, False), 2, 3, 4, 5))
    scores = scores if mask is None else mask(scores)
    return reshape(product(joined(softmax(scores)), joined(v), False), 2, 3, 4, 4)


def chosen(scores):
    """Mask as GPT-2 does: by a choice."""
    seen = np.broadcast_to(np.tril(np.ones((4, 5), bool), 1), scores.shape)
    return apply(ops.Where(), Constant.of(seen), scores, number(np.full(scores.shape, -np.inf)))


def scaled_before():
    """Return attention as PyTorch decomposes it: queries and keys are scaled, each by a root."""
    q, k = (times(heads(x, 3), number(0.5**0.5)) for x in (Q, K))
    weights = softmax(product(joined(q), joined(k), True))
    return product(weights, joined(apply(ops.Transpose((0, 1, 3, 2)), heads(V, 3))), True)


def shared_keys():
    """Return attention of grouped queries: keys and values are repeated."""
    q = heads(variable(2, 4, 24, name="q"), 6)

    def repeated(x):
        one = apply(ops.ExpandDims(2), heads(x, 3))
        return joined(reshape(apply(ops.BroadcastTo((2, 3, 2, 5, 4)), one), 2, 6, 5, 4))

    scores = add(times(product(joined(q), repeated(K), True), number(0.5)), causal_mask(4, 5))
    return product(softmax(scores), repeated(V), False)


ATTENTION = {
    "BERT's": (bert, {"causal": False, "scale": None}, 3),
    "a mask that hides nothing": (
        lambda: bert(mask=lambda s: add(s, number(np.zeros((1, 1, 1, 5))))), {"causal": False}, 3),
    "a causal mask": (lambda: bert(mask=lambda s: add(causal_mask(4, 5), s)), {"causal": True}, 3),
    "GPT-2's": (lambda: bert(mask=chosen), {"causal": True}, 3),
    "no factor": (lambda: bert(lambda scores: scores), {"scale": 1.0}, 3),
    "factors before": (scaled_before, {"scale": None}, 3),
    "grouped queries": (shared_keys, {"causal": True, "scale": None}, 3),
    "of matrices": (
        lambda: product(softmax(product(Q, K, True)), V, False), {"scale": 1.0}, 2),
}  # fmt: skip


@pytest.mark.parametrize("name", ATTENTION)
def test_attention_becomes_one_operator_that_computes_the_same(name):
    make, attributes, kv_heads = ATTENTION[name]
    graph = Graph.of(make())
    found = composed(graph)
    assert work_of(found) == ["nn.scaled_dot_product_attention"]
    (node,) = [n for n in found.nodes if isinstance(n.op, ops.Attention)]
    for key, value in attributes.items():
        assert getattr(node.op, key) == value
    assert node.inputs[1].shape[1] == kv_heads
    same(graph, found, 1e-6)


def hidden(shape):
    return np.where(RNG.random(shape) < 0.5, 0, -1e30)


def of_windows(scores):
    """Add a mask of each window, as Swin does: scores of one image are seen as its windows."""
    wide = add(reshape(scores, 1, 2, 3, 4, 5), number(hidden((1, 2, 1, 4, 5))))
    return add(reshape(wide, 2, 3, 4, 5), constant(3, 4, 5))


def chosen_by_data(scores, other=-1e30, turned=False):
    compares = ops.Greater() if turned else ops.Less()
    condition = apply(compares, variable(2, 1, 1, 5, name="mask"), number(1.0))
    wide = apply(ops.BroadcastTo(scores.shape), condition)
    ends = scores, number(np.full(scores.shape, other))
    return apply(ops.Where(), wide, *(ends[::-1] if turned else ends))


BIASED = {
    "a mask that is an input": (
        lambda s: add(s, variable(2, 1, 1, 5, name="mask")), (2, 1, 1, 5)),
    "a mask for all heads of all batches": (
        lambda s: add(s, variable(1, 1, 4, 5, name="mask")), (1, 1, 4, 5)),
    "a bias, which is scaled as scores are": (
        lambda s: times(add(constant(3, 4, 5), s), number(0.5)), (1, 3, 4, 5)),
    "keys of a window": (
        lambda s: add(s, number(
            np.where(np.abs(np.arange(4)[:, None] - np.arange(5)) < 2, 0, -1e9)[None])),
        (1, 1, 4, 5)),
    "masks that differ": (lambda s: add(s, number(hidden((2, 1, 4, 5)))), (2, 1, 4, 5)),
    "masks of windows, and a bias": (of_windows, (2, 3, 4, 5)),
    "a choice by data": (chosen_by_data, (2, 1, 1, 5)),
    "a choice of what is hidden": (
        lambda s: chosen_by_data(s, -np.inf, turned=True), (2, 1, 1, 5)),
}  # fmt: skip


@pytest.mark.parametrize("name", BIASED)
def test_what_is_added_to_scores_becomes_the_bias_of_attention(name):
    mask, shape = BIASED[name]
    graph = Graph.of(bert(mask=mask))
    found = composed(graph)
    assert {"nn.batch_matmul", "nn.softmax"}.isdisjoint(work_of(found))
    (node,) = [n for n in found.nodes if isinstance(n.op, ops.Attention)]
    assert node.inputs[3].shape == shape
    same(graph, found, 1e-6)


def test_attention_of_windows_reads_the_product_that_has_its_queries_keys_and_values():
    """As Swin of timm writes it: the three are cut from one product after a transpose."""
    every = variable(4 * 5, 36, name="every")
    apart = apply(ops.Transpose((2, 0, 3, 1, 4)), reshape(every, 4, 5, 3, 3, 4))
    q, k, v = (
        reshape(apply(ops.StridedSlice((i,), (i + 1,)), apart), 4, 3, 5, 4) for i in range(3)
    )
    made = apply(ops.Attention(), q, k, v, constant(4, 3, 5, 5))
    graph = Graph.of(reshape(apply(ops.Transpose((0, 2, 1, 3)), made), 20, 12))
    found = compose(slices_first(OWN(graph)), lambda node: True)
    assert work_of(found) == ["nn.packed_attention"]
    same(graph, found, 1e-6)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_attention_with_a_bias_that_passes_take_apart_is_found_again(dtype):
    q, k, v = (
        variable(2, 4, n, 8, name=name, dtype=dtype) for n, name in ((3, "q"), (5, "k"), (5, "v"))
    )
    bias = variable(2, 1, 3, 5, name="bias", dtype="float32")
    graph = Graph.of(apply(ops.Attention(True, 0.3), q, k, v, bias))
    assert work_of(OWN(graph)).count("nn.batch_matmul") == 2
    (node,) = [n for n in composed(graph).nodes if isinstance(n.op, ops.Attention)]
    assert (node.op, node.inputs) == (ops.Attention(True, 0.3), (q, k, v, bias))


def replaced(scores):
    """Replace scores by 0, which hides none of them."""
    seen = Constant.of(np.broadcast_to(np.tril(np.ones((4, 5), bool), 1), scores.shape))
    return apply(ops.Where(), seen, scores, number(np.zeros(scores.shape)))


NO_ATTENTION = {
    "scores that are replaced by 0": lambda: bert(mask=replaced),
    "a negative factor": lambda: bert(lambda s: times(s, number(-1.0))),
    "weights that are read": lambda: (lambda w: (product(w, V, False), w))(
        softmax(product(Q, K, True))),
    "another axis": lambda: product(
        apply(ops.Softmax(1), product(Q, K, True)), V, False),
    "scores in wider floats than values": lambda: product(
        cast(softmax(product(Q, K, True)), "float16"), cast(V, "float16"), False),
    "values in wider floats than scores": lambda: product(
        cast(softmax(product(cast(Q, "float16"), cast(K, "float16"), True)), "float32"), V, False),
    "a logarithm": lambda: product(apply(ops.LogSoftmax(), product(Q, K, True)), V, False),
}  # fmt: skip


@pytest.mark.parametrize("name", NO_ATTENTION)
def test_what_is_no_plain_attention_stays_products(name):
    made = NO_ATTENTION[name]()
    graph = Graph.of(*made) if isinstance(made, tuple) else Graph.of(made)
    found = composed(graph)
    assert work_of(found).count("nn.batch_matmul") == 2
    same(graph, found)


def test_causal_attention_of_more_queries_than_keys_is_as_it_was_written():
    q, k, v = (variable(1, 2, n, 4, name=name) for n, name in ((5, "q"), (3, "k"), (3, "v")))
    graph = Graph.of(apply(ops.Attention(True), q, k, v))
    found = composed(graph)
    assert work_of(found).count("nn.batch_matmul") == 2
    same(graph, found, 1e-6)


@pytest.mark.parametrize(("kv_heads", "causal"), [(4, False), (2, True), (1, True)])
def test_operators_that_passes_take_apart_are_found_again(kv_heads, causal):
    q = variable(2, 4, 3, 8, name="q")
    k, v = (variable(2, kv_heads, 5, 8, name=name) for name in "kv")
    graph = Graph.of(apply(ops.Attention(causal, 0.3), q, k, v))
    assert "nn.softmax" in work_of(OWN(graph))
    found = composed(graph)
    same(graph, found, 1e-6)
    assert [(n.op, n.inputs) for n in found.nodes if isinstance(n.op, ops.Attention)] == [
        (ops.Attention(causal, 0.3), (q, k, v))
    ]
    norm = Graph.of(apply(ops.LayerNorm(-1, EPSILON), X, constant(8), constant(8)))
    assert work_of(composed(norm)) == ["nn.layer_norm"]


def test_attention_that_is_not_served_stays_products():
    before = OWN(Graph.of(bert()))
    assert work_of(compose(before, lambda node: False)) == work_of(before)
