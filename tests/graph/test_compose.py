"""Norms are found in the arithmetic that importers write, and nothing else is."""

import numpy as np
import pytest

from autotune.graph import Graph, apply, ops
from autotune.graph.passes import OWN, RELAY_CUDA, compose
from tests.graph.arithmetic import (
    EPSILON,
    add,
    composed,
    constant,
    less_mean,
    mean,
    normal,
    number,
    over,
    reshape,
    root,
    same,
    square,
    times,
    variable,
    work_of,
)


def onnx_layer_norm(x, gamma, beta):
    """Return what exporters before opset 17 write: the difference twice, and powers."""
    squares = apply(ops.Power(), less_mean(x), number(2))
    return add(times(over(less_mean(x), root(mean(squares))), gamma), beta)


def torch_layer_norm(x, gamma, beta):
    """Return what PyTorch's decomposition is."""
    apart = less_mean(x)
    inverse = apply(ops.Rsqrt(), add(mean(times(apart, apart)), number(EPSILON)))
    return add(beta, times(gamma, times(apart, inverse)))


def llama_norm(x, gamma):
    """Return what Llama's RMS norm is: in float32, its factor in the type of the data."""
    wide = apply(ops.Cast("float32"), x)
    inverse = apply(ops.Rsqrt(), add(mean(square(wide)), number(EPSILON)))
    return times(gamma, apply(ops.Cast(x.dtype), times(wide, inverse)))


def grouped(x, groups):
    """Return what exporters write of a group norm: rows of groups, and channels again."""
    n, channels, *spatial = x.shape
    rows = reshape(x, n, groups, int(np.prod(spatial)) * channels // groups)
    out = reshape(normal(rows), *x.shape)
    return add(times(out, constant(channels, 1, 1)), constant(channels, 1, 1))


def tvm_grouped(x, groups):
    n, channels, *spatial = x.shape
    seen = reshape(x, n, groups, channels // groups, *spatial)
    out = reshape(normal(seen, 2, 3, 4), *x.shape)
    return times(out, constant(1, channels, 1, 1))


X = variable(2, 3, 8)
IMAGES = variable(2, 6, 4, 5)
NORMS = {
    "as TVM writes it": (lambda: add(times(normal(X), constant(8)), constant(8)), "nn.layer_norm"),
    "as ONNX writes it": (
        lambda: onnx_layer_norm(X, constant(8), constant(1, 1, 8)), "nn.layer_norm"),
    "as PyTorch writes it": (
        lambda: torch_layer_norm(X, constant(8), constant(8)), "nn.layer_norm"),
    "an inverse by a quotient": (
        lambda: times(over(number(1), root(mean(square(less_mean(X))))), less_mean(X)),
        "nn.layer_norm"),
    "an inverse by a power": (
        lambda: times(less_mean(X), apply(
            ops.Power(), add(mean(square(less_mean(X))), number(EPSILON)), number(-0.5))),
        "nn.layer_norm"),
    "only a shift": (lambda: add(normal(X), constant(8)), "nn.layer_norm"),
    "vectors that are inputs": (
        lambda: add(times(normal(X), variable(8, name="g")), variable(1, 8, name="b")),
        "nn.layer_norm"),
    "of several axes": (lambda: normal(variable(2, 3, 4, 5), 3), "nn.layer_norm"),
    "of two axes at the end": (lambda: normal(variable(2, 3, 4, 5, 2), 3, 4), "nn.layer_norm"),
    "no mean taken off": (
        lambda: times(over(X, root(mean(square(X)))), constant(8)), "nn.rms_norm"),
    "Llama's": (
        lambda: llama_norm(variable(2, 3, 8, dtype="float16"), constant(8, dtype="float16")),
        "nn.rms_norm"),
    "groups as exporters write them": (lambda: grouped(IMAGES, 2), "nn.group_norm"),
    "groups as TVM writes them": (lambda: tvm_grouped(IMAGES, 3), "nn.group_norm"),
    "one group": (lambda: add(normal(IMAGES, 1, 2, 3), constant(6, 1, 1)), "nn.group_norm"),
    "instances": (lambda: times(normal(IMAGES, 2, 3), constant(6, 1, 1)), "nn.instance_norm"),
}  # fmt: skip


@pytest.mark.parametrize("name", NORMS)
def test_a_norm_becomes_one_operator_that_computes_the_same(name):
    make, expected = NORMS[name]
    graph = Graph.of(make())
    found = composed(graph)
    assert work_of(found) == [expected]
    same(graph, found)


OTHERS = {
    "another axis": lambda: normal(X, 1),
    "axes apart": lambda: normal(IMAGES, 1, 3),
    "of other data": lambda: over(X, root(mean(times(less_mean(X), less_mean(X))))),
    "two variances": lambda: over(less_mean(X), root(mean(square(less_mean(X)), 1, 2))),
    "no epsilon": lambda: over(X, apply(ops.Sqrt(), mean(square(X)))),
    "a cube": lambda: over(X, root(mean(apply(ops.Power(), apply(ops.Abs(), X), number(3))))),
    "extents that are dropped": lambda: over(
        variable(3, 3), root(apply(ops.Mean((1,), False), square(variable(3, 3, name="y"))))),
}  # fmt: skip


@pytest.mark.parametrize("name", OTHERS)
def test_what_is_no_norm_of_last_axes_stays_arithmetic(name):
    graph = Graph.of(OTHERS[name]())
    found = composed(graph)
    assert not any(work.startswith("nn.") for work in work_of(found))
    same(graph, found)


def test_a_vector_of_another_axis_and_one_that_comes_too_late_stay_outside():
    rows = composed(Graph.of(times(normal(X), constant(3, 1))))
    assert work_of(rows) == ["nn.layer_norm", "multiply"]
    late = composed(Graph.of(times(add(normal(X), variable(8, name="b")), variable(8, name="g"))))
    assert work_of(late) == ["nn.layer_norm", "multiply"]
    twice = normal(X)
    both = composed(Graph.of(times(twice, variable(8, name="g")), apply(ops.Tanh(), twice)))
    assert sorted(work_of(both)) == ["multiply", "nn.layer_norm", "tanh"]


def test_nothing_becomes_an_operator_that_is_not_served():
    for make, _ in NORMS.values():
        graph = Graph.of(make())
        before = OWN(graph)
        assert work_of(compose(before, lambda node: False)) == work_of(before)


def test_what_is_served_without_its_vectors_gets_none():
    graph = Graph.of(add(times(normal(X), constant(8)), constant(8)))
    found = composed(graph, lambda node: not node.op.vectors())
    assert work_of(found) == ["nn.layer_norm", "multiply", "add"]


def test_the_passes_of_tvm_leave_norms_apart():
    graph = Graph.of(apply(ops.LayerNorm(), X, constant(8), constant(8)))
    assert not RELAY_CUDA.composes
    assert "nn.layer_norm" not in work_of(RELAY_CUDA(graph))


def test_bools_of_one_element_are_numbers_to_the_matchers():
    x = variable(2, 3, name="x", dtype="bool")
    graph = Graph.of(apply(ops.Multiply(), x, number(np.array([False]), "bool")))
    assert work_of(composed(graph)) == ["multiply"]
