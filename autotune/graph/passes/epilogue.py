"""Merges sums and products with constants that follow a convolution, for its epilogue."""

from __future__ import annotations

from collections.abc import Sequence

from autotune.graph import ops
from autotune.graph.graph import Graph
from autotune.graph.operator import Operator
from autotune.graph.passes.fold_constant import fold, folded
from autotune.graph.passes.fold_scale import vector_axis
from autotune.graph.value import Constant, Node, Result, Value, apply


def fold_affine(graph: Graph) -> Graph:
    """Join sums and products with constants that follow one another on one axis.

    ``(x + a) + b`` becomes ``x + (a + b)`` and ``(x * a) * b`` ``x * (a * b)``; a sum with a
    constant moves past a sum with a residual, ``(x + a) + r`` to ``(x + r) + a``, where it meets
    the shift of a batch norm that comes after. Only values with one reader are rebuilt.
    """

    def joined(node: Node, inputs: tuple[Value, ...]) -> Value | Sequence[Value] | None:
        constants = fold(node, inputs)
        if constants is not None or not isinstance(node.op, ops.Add | ops.Multiply):
            return constants
        # Of a value that was rebuilt the readers are those of what it was before.
        single = {
            new for new, old in zip(inputs, node.inputs, strict=True) if graph.uses(old) == 1
        }
        found = _constant_operand(node, inputs)
        if found is None:
            return _past_residual(node, inputs, single)
        value, constant = found
        inner = _inner(value, type(node.op)) if value in single else None
        if inner is None or vector_axis(inner[1], inner[0]) != vector_axis(constant, inner[0]):
            return None
        both = [inner[1], constant]
        joint = folded(Node(node.op, tuple(both), node.origin), both)
        return apply(node.op, inner[0], joint, origin=node.origin)

    return graph.rewrite(joined)


def _constant_operand(node: Node, inputs: tuple[Value, ...]) -> tuple[Value, Constant] | None:
    for value, constant in (inputs, inputs[::-1]):
        fits = value.type == node.outputs[0].type and vector_axis(constant, value) is not None
        if fits and isinstance(constant, Constant):
            return value, constant
    return None


def _inner(value: Value, kind: type[Operator]) -> tuple[Value, Constant] | None:
    """Return the operands of the sum (or product) with a constant that a value is."""
    if not isinstance(value, Result) or not isinstance(value.node.op, kind):
        return None
    return _constant_operand(value.node, value.node.inputs)


def _past_residual(node: Node, inputs: tuple[Value, ...], single: set[Value]) -> Value | None:
    """Return a sum of two tensors, of which one is a sum with a constant, with that one last."""
    if not isinstance(node.op, ops.Add) or inputs[0].type != inputs[1].type:
        return None
    for value, other in (inputs, inputs[::-1]):
        inner = _inner(value, type(node.op)) if value in single else None
        if inner is None:
            continue
        total = apply(node.op, inner[0], other, origin=node.origin)
        return apply(node.op, total, inner[1], origin=node.origin)
    return None
