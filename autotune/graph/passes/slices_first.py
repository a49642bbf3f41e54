"""Cuts slices out before what moves elements.

A model of PyTorch computes on activations of many dimensions, of which it cuts parts after
transposes and reshapes, as the queries, keys and values of attention from one product.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from autotune.graph import ops
from autotune.graph.graph import Graph
from autotune.graph.operator import Operator
from autotune.graph.passes.reshapes_last import seen_as
from autotune.graph.value import Node, Result, Value, apply


def slices_first(graph: Graph) -> Graph:
    """Cut parts out before they are transposed or seen in another shape.

    So the queries, keys and values that are cut from one product after a transpose are parts of
    the product, whatever the order in which a model says it.
    """
    return graph.rewrite(_sliced)


def _made_by(value: Value, kind: type[Operator]) -> Node | None:
    if isinstance(value, Result) and isinstance(value.node.op, kind):
        return value.node
    return None


def _sliced(node: Node, inputs: tuple[Value, ...]) -> Value | None:
    if isinstance(node.op, ops.StridedSlice):
        return _slice_first(node, inputs[0], node.op)
    if isinstance(node.op, ops.Reshape):
        squeezed = _squeeze_first(node, inputs[0])
        return squeezed or seen_as(inputs[0], node.output.shape, node.origin)
    if isinstance(node.op, ops.Transpose):
        order = _order(node.op, inputs[0].type.ndim)
        return _turned(inputs[0], order, node.origin)
    return None


def _order(op: Operator, rank: int) -> tuple[int, ...]:
    """Return which dimension each dimension of a transpose was."""
    assert isinstance(op, ops.Transpose)
    return tuple(op.order(rank))


def _turned(value: Value, order: Sequence[int], origin: str) -> Value:
    """Return a value transposed; where dimensions of extent 1 are comes of a reshape."""
    shape = tuple(value.shape[axis] for axis in order)
    wide = iter([axis for axis in order if value.shape[axis] > 1])
    plain = tuple(i if n == 1 else next(wide) for i, n in enumerate(value.shape))
    if plain != tuple(range(len(plain))):
        value = apply(ops.Transpose(plain), value, origin=origin)
    return seen_as(value, shape, origin)


def _slice_first(node: Node, value: Value, op: ops.StridedSlice) -> Value | None:
    """Return the slice of what is transposed or reshaped, transposed or reshaped."""
    if any(step != 1 for step in op.strides):
        return None
    bounds = [
        slice(b, e).indices(n)[:2] for b, e, n in zip(op.begin, op.end, value.shape, strict=False)
    ]
    cut = [i for i, (b, e) in enumerate(bounds) if (b, e) != (0, value.shape[i])]
    if len(cut) != 1:
        return None
    axis, (begin, end) = cut[0], bounds[cut[0]]
    if moved := _made_by(value, ops.Transpose):
        order = _order(moved.op, value.type.ndim)
        part = _part(node, moved.inputs[0], order[axis], begin, end)
        return _turned(part, order, node.origin)
    if seen := _made_by(value, ops.Reshape):
        return _slice_of_reshaped(node, seen.inputs[0], value.shape, axis, begin, end)
    return None


def _part(node: Node, value: Value, axis: int, begin: int, end: int) -> Value:
    """Return part of an axis, itself cut first where that is possible."""
    if (begin, end) == (0, value.shape[axis]):
        return value
    lead = value.shape[:axis]
    op = ops.StridedSlice((0,) * axis + (begin,), (*lead, end), (1,) * (axis + 1))
    new = Node(op, (value,), node.origin)
    first = _slice_first(new, value, op)
    return new.output if first is None else first


def _slice_of_reshaped(
    node: Node, before: Value, shape: tuple[int, ...], axis: int, begin: int, end: int
) -> Value | None:
    """Return part of an axis that is the outermost part of an axis before the reshape."""
    lead, inner = math.prod(shape[:axis]), math.prod(shape[axis + 1 :])
    for old in range(before.type.ndim):
        behind = math.prod(before.shape[old + 1 :])
        if math.prod(before.shape[:old]) != lead or inner % behind:
            continue
        if before.shape[old] * behind != shape[axis] * inner:
            continue
        factor = inner // behind
        part = _part(node, before, old, begin * factor, end * factor)
        wanted = (*shape[:axis], end - begin, *shape[axis + 1 :])
        return apply(ops.Reshape(wanted), part, origin=node.origin)
    return None


def _squeeze_first(node: Node, value: Value) -> Value | None:
    """Return a transpose without the dimensions of extent 1 that a reshape drops behind it."""
    while seen := _made_by(value, ops.Reshape):
        value = seen.inputs[0]
    moved = _made_by(value, ops.Transpose)
    wanted = node.output.shape
    if moved is None or len(wanted) >= value.type.ndim:
        return None
    dropped = _dropped(value.shape, wanted)
    if dropped is None:
        return None
    rank = value.type.ndim
    order = _order(moved.op, rank)
    gone = {order[i] for i in dropped}
    left = [axis for axis in range(rank) if axis not in gone]
    before = moved.inputs[0]
    shape = tuple(before.shape[axis] for axis in left)
    axes = tuple(left.index(axis) for i, axis in enumerate(order) if i not in dropped)
    return _turned(seen_as(before, shape, node.origin), axes, node.origin)


def _dropped(shape: Sequence[int], wanted: Sequence[int]) -> set[int] | None:
    """Return which dimensions of extent 1 a shape lacks; None where more is different."""
    found, left = set(), list(wanted)
    for i, extent in enumerate(shape):
        if left and left[0] == extent and len(shape) - i > len(left) - 1:
            # Ones are dropped from the front as long as enough dimensions follow.
            if extent == 1 and len(shape) - i > len(left):
                found.add(i)
                continue
            left.pop(0)
        elif extent == 1:
            found.add(i)
        else:
            return None
    return None if left else found
