"""Moves reshapes of products and convolutions behind the elementwise operators that follow them.

Importers write products of tensors as products of matrices between reshapes, and convolutions of
one dimension as ones of two. A bias or an activation behind the reshape would be a kernel of its
own; in front of it, it is part of the product's.
"""

from __future__ import annotations

from collections.abc import Sequence

from autotune.graph import ops
from autotune.graph.graph import Graph
from autotune.graph.operator import Operator
from autotune.graph.passes.fold_constant import folded
from autotune.graph.value import Constant, Node, Result, Value, apply

_PRODUCTS = (ops.Dense, ops.Convolution, ops.Conv2dTranspose)
_EACH = (ops.Elementwise, ops.Cast, ops.Broadcast, ops.BiasAdd, ops.BatchNorm, ops.Prelu)


def sink_reshape(graph: Graph) -> Graph:
    """Apply elementwise operators to results of products before these are reshaped."""
    return graph.rewrite(_sunk)


def _sunk(node: Node, inputs: tuple[Value, ...]) -> Value | None:
    if isinstance(node.op, ops.Reshape):
        return _joined(node, inputs[0])
    if not isinstance(node.op, _EACH) or len(node.outputs) > 1:
        return None
    shape = node.outputs[0].shape
    for value in inputs:
        before = _before(value)
        if before is None or value.shape != shape:
            continue
        found = _moved(node, inputs, value, before)
        if found is not None:
            return apply(ops.Reshape(shape), found, origin=node.origin)
    return None


def _joined(node: Node, value: Value) -> Value | None:
    """Return one reshape instead of two."""
    if not isinstance(value, Result) or not isinstance(value.node.op, ops.Reshape):
        return None
    data, shape = value.node.inputs[0], node.outputs[0].shape
    return data if data.shape == shape else apply(ops.Reshape(shape), data, origin=node.origin)


def _before(value: Value) -> Value | None:
    """Return what is reshaped, if that is a product or what elementwise operators make of one."""
    if not isinstance(value, Result) or not isinstance(value.node.op, ops.Reshape):
        return None
    data = made = value.node.inputs[0]
    while isinstance(made, Result) and isinstance(made.node.op, _EACH):
        made = next((each for each in made.node.inputs if each.shape == data.shape), made)
        if not isinstance(made, Result):
            return None
    return data if isinstance(made, Result) and isinstance(made.node.op, _PRODUCTS) else None


def _moved(node: Node, inputs: Sequence[Value], value: Value, before: Value) -> Value | None:
    """Return an operator's result before the reshape of one of its inputs."""
    op = node.op
    if isinstance(op, ops.BiasAdd | ops.BatchNorm | ops.Prelu):
        same = value is inputs[0] and before.type.ndim > 1
        own = _of_axis(op, value, before) if same else None
        return None if own is None else apply(own, before, *inputs[1:], origin=node.origin)
    parts = [
        before if each is value else _fitting(each, value, before, node.origin) for each in inputs
    ]
    known = [each for each in parts if each is not None]
    return apply(op, *known, origin=node.origin) if len(known) == len(parts) else None


def _of_axis(op: Operator, value: Value, before: Value) -> Operator | None:
    """Return an operator with a vector along an axis for the shape before the reshape."""
    if isinstance(op, ops.BiasAdd):
        axis = op.axis(op.axis_of_bias, value.type.ndim)
    elif isinstance(op, ops.Prelu):
        axis = op.axis(op.axis_of_slope, value.type.ndim)
    else:
        assert isinstance(op, ops.BatchNorm)
        axis = op.axis(op.channel_axis, value.type.ndim)
    last = axis == value.type.ndim - 1 and before.shape[-1] == value.shape[-1]
    front = value.shape[: axis + 1] == before.shape[: axis + 1]
    if not last and not front:
        return None
    own = before.type.ndim - 1 if last and not front else axis
    if isinstance(op, ops.BiasAdd):
        return ops.BiasAdd(own)
    if isinstance(op, ops.Prelu):
        return ops.Prelu(own)
    return ops.BatchNorm(own, op.epsilon, op.center, op.scale)


def _fitting(other: Value, value: Value, before: Value, origin: str) -> Value | None:
    """Return the other operand for the shape before the reshape; None where it has none."""
    shape: tuple[int, ...] | None = None
    if other.type.size == 1:
        shape = ()
    elif other.shape == value.shape:
        shape = before.shape
    elif other.type.size == other.shape[-1] == before.shape[-1] == value.shape[-1]:
        shape = other.shape[-1:]
    if shape is None or shape == other.shape:
        return other if shape is not None else None
    node = Node(ops.Reshape(shape), (other,), origin)
    if isinstance(other, Constant):
        return folded(node, [other])
    joined = _joined(node, other)
    return node.output if joined is None else joined
