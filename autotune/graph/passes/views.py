"""Puts reshapes, transposes and slices where they are in nobody's way.

A model of PyTorch computes on activations of many dimensions, which products of matrices see as
rows. Each reshape between a product and what follows it would keep both from being one kernel.
`slices_first` and `reshapes_last` move them; neither adds work.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from autotune.graph import ops
from autotune.graph.graph import Graph
from autotune.graph.operator import Operator
from autotune.graph.value import Constant, Node, Result, Value, apply

# Along the last axis; all else stays as it is.
_ALONG_LAST = (ops.LayerNorm, ops.RmsNorm, ops.Softmax)


def slices_first(graph: Graph) -> Graph:
    """Cut parts out before they are transposed or seen in another shape.

    So the queries, keys and values that are cut from one product after a transpose are parts of
    the product, whatever the order in which a model says it.
    """
    return graph.rewrite(_sliced)


def reshapes_last(graph: Graph) -> Graph:
    """Apply operators on each element, and along the last axis, before reshapes, not behind them.

    So an activation, or the sum of a residual block, follows the product that it can be part of.
    """
    return graph.rewrite(_reshaped)


def _made_by(value: Value, kind: type[Operator]) -> Node | None:
    if isinstance(value, Result) and isinstance(value.node.op, kind):
        return value.node
    return None


# ---- slices before transposes and reshapes


def _sliced(node: Node, inputs: tuple[Value, ...]) -> Value | None:
    if isinstance(node.op, ops.StridedSlice):
        return _slice_first(node, inputs[0], node.op)
    if isinstance(node.op, ops.Reshape):
        squeezed = _squeeze_first(node, inputs[0])
        return squeezed or _see(inputs[0], node.output.shape, node.origin)
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
    return _see(value, shape, origin)


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
    return _turned(_see(before, shape, node.origin), axes, node.origin)


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


# ---- reshapes behind what is computed


def _see(value: Value, shape: tuple[int, ...], origin: str) -> Value:
    """Return a value in a shape; shapes in between are forgotten."""
    while made := _made_by(value, ops.Reshape):
        value = made.inputs[0]
    return value if value.shape == shape else apply(ops.Reshape(shape), value, origin=origin)


def _reshaped(node: Node, inputs: tuple[Value, ...]) -> Value | None:
    op, shape, origin = node.op, node.outputs[0].shape, node.origin
    if isinstance(op, ops.Reshape):
        return _see(inputs[0], shape, origin)
    if isinstance(op, ops.Elementwise | ops.Cast):
        before = _before(inputs[0])
        return None if before is None else _see(apply(op, before, origin=origin), shape, origin)
    if isinstance(op, _ALONG_LAST):
        before = _before(inputs[0])
        if before is None or not _keeps_last(op, before.shape, shape):
            return None
        made = apply(op, before, *inputs[1:], origin=origin)
        return _see(made, shape, origin)
    if isinstance(op, ops.Broadcast) and len(inputs) == 2:
        return _both(node, inputs)
    return None


def _before(value: Value) -> Value | None:
    """Return what a reshape is of."""
    made = _made_by(value, ops.Reshape)
    return None if made is None or isinstance(made.inputs[0], Constant) else made.inputs[0]


def _keeps_last(op: Operator, before: tuple[int, ...], shape: tuple[int, ...]) -> bool:
    """Return whether an operator along the last axis is the same before a reshape."""
    axis = op.axis_of_sum if isinstance(op, ops.Softmax) else getattr(op, "axis_of_norm", -1)
    last = axis in (-1, len(shape) - 1)
    return last and bool(before) and before[-1:] == shape[-1:]


def _both(node: Node, inputs: tuple[Value, ...]) -> Value | None:
    """Return an operator of two operands, of which one at least is reshaped, before that."""
    shape, origin = node.outputs[0].shape, node.origin
    for number in (0, 1):
        before = _before(inputs[number])
        if before is None or inputs[number].shape != shape:
            continue
        if before.shape and not _is_product(before):
            continue
        other = _other(inputs[1 - number], before.shape, shape, origin)
        if other is not None:
            operands = (before, other) if number == 0 else (other, before)
            return _see(apply(node.op, *operands, origin=origin), shape, origin)
    return None


def _other(
    value: Value, wanted: tuple[int, ...], shape: tuple[int, ...], origin: str
) -> Value | None:
    """Return the other operand in the shape before the reshape, if it has one there."""
    if value.type.size == 1:
        return value if value.type.ndim <= len(wanted) else _see(value, (), origin)
    if value.shape == shape:
        return _see(value, wanted, origin)
    along_last = value.type.size == value.shape[-1] == wanted[-1] == shape[-1]
    return _see(value, value.shape[-1:], origin) if along_last else None


def _is_product(value: Value) -> bool:
    """Return whether a value is a product of matrices, or follows one element by element."""
    while isinstance(value, Result):
        if isinstance(value.node.op, ops.Dense | ops.BatchMatmul):
            return True
        if not isinstance(value.node.op, (ops.Elementwise, ops.Broadcast, *_ALONG_LAST)):
            return False
        shape, inputs = value.shape, value.node.inputs
        value = next((each for each in inputs if each.shape == shape), inputs[0])
    return False
