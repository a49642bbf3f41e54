"""Canonical forms: of equivalent operators all but one are replaced."""

from __future__ import annotations

from autotune.graph import ops
from autotune.graph.graph import Graph
from autotune.graph.passes.simplify_inference import align_to_axis
from autotune.graph.value import Constant, Node, Value, made_at


def canonicalize_ops(graph: Graph) -> Graph:
    """Replace ``bias_add`` by a sum with a vector that has trailing dimensions of 1."""
    return graph.rewrite(_canonical)


def _canonical(node: Node, inputs: tuple[Value, ...]) -> Value | None:
    if not isinstance(node.op, ops.BiasAdd):
        return None
    data, bias = inputs
    axis, ndim = node.op.axis(node.op.axis_of_bias, data.type.ndim), data.type.ndim
    with made_at(node.origin):
        return data + align_to_axis(bias, axis, ndim)


def simplify_expressions(graph: Graph) -> Graph:
    """Drop ``x + 0`` and ``x * 1`` with scalars, and reshapes and casts that change nothing.

    A vector of zeros stays a real sum, as in TVM: which work there is must not depend on the
    numbers of parameters.
    """
    return graph.rewrite(_simpler)


def _simpler(node: Node, inputs: tuple[Value, ...]) -> Value | None:
    first = inputs[0]
    if first.type != node.outputs[0].type:
        return None
    if isinstance(node.op, ops.Reshape | ops.BatchFlatten | ops.Cast | ops.BroadcastTo | ops.Copy):
        return first
    neutral = _NEUTRAL.get(node.op.name)
    if neutral is None or not isinstance(inputs[1], Constant) or not inputs[1].is_scalar:
        return None
    return first if inputs[1].array.item() == neutral else None


_NEUTRAL = {"add": 0, "subtract": 0, "multiply": 1, "divide": 1}
