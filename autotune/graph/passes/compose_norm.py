"""Recognises layer, group, instance and RMS norms in arithmetic."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from autotune.graph import ops
from autotune.graph.passes.composing import GraphReader, reshaped, scalar_of, with_scalar
from autotune.graph.passes.fold_scale import vector_axis
from autotune.graph.value import Node, Value


@dataclass(frozen=True)
class _Squares:
    """``mean(data * data) + epsilon`` over some axes, which stay with extent 1."""

    data: Value
    over: tuple[int, ...]
    epsilon: float


def norm(reader: GraphReader, node: Node, inputs: tuple[Value, ...]) -> Value | None:
    """Return the norm without vectors that a quotient is: data over the root of its variance.

    Written as ``x / sqrt(v + e)`` or ``x * rsqrt(v + e)``, with ``v`` the mean of ``x * x`` or
    ``x ** 2`` along the last axes; where x is data less its mean, a norm with a mean.
    """
    if isinstance(node.op, ops.Divide):
        under, pairs = _under_root, [(inputs[0], inputs[1])]
    elif isinstance(node.op, ops.Multiply):
        under, pairs = _under_inverse, [(inputs[0], inputs[1]), (inputs[1], inputs[0])]
    else:
        return None
    for data, other in pairs:
        shifted = under(reader, other) if data.type == node.output.type else None
        found = None if shifted is None else _squares(reader, shifted)
        if found is not None and found.data is data:
            return _core(reader, found)
    return None


def _under_root(reader: GraphReader, value: Value) -> Value | None:
    """Return the argument of a square root."""
    if root := reader.made_by(value, ops.Sqrt):
        return root.inputs[0]
    power = reader.made_by(value, ops.Power)
    return power.inputs[0] if power and scalar_of(power.inputs[1]) == 0.5 else None


def _under_inverse(reader: GraphReader, value: Value) -> Value | None:
    """Return the argument of the inverse of a square root."""
    if root := reader.made_by(value, ops.Rsqrt):
        return root.inputs[0]
    if power := reader.made_by(value, ops.Power):
        return power.inputs[0] if scalar_of(power.inputs[1]) == -0.5 else None
    over = reader.made_by(value, ops.Divide)
    return _under_root(reader, over.inputs[1]) if over and scalar_of(over.inputs[0]) == 1 else None


def _squares(reader: GraphReader, value: Value) -> _Squares | None:
    """Return what a value is the mean of the squares of, plus a number."""
    total = reader.made_by(value, ops.Add)
    parts = with_scalar(total.inputs) if total else None
    if parts is None or parts[1] < 0:
        return None
    mean = reader.made_by(parts[0], ops.Mean)
    if mean is None or not mean.op.keepdims:
        return None
    squares, over = mean.inputs[0], mean.op.over(mean.inputs[0].type.ndim)
    if product := reader.made_by(squares, ops.Multiply):
        a, b = product.inputs
        return _Squares(a, over, parts[1]) if a is b else None
    power = reader.made_by(squares, ops.Power)
    twice = power is not None and scalar_of(power.inputs[1]) == 2
    return _Squares(power.inputs[0], over, parts[1]) if power and twice else None


def _core(reader: GraphReader, squares: _Squares) -> Value | None:
    """Return the norm along the last axes of data, whose squares these are."""
    data, over = squares.data, squares.over
    rank = data.type.ndim
    if not over or over != tuple(range(over[0], rank)):
        return None
    apart = reader.made_by(data, ops.Subtract)
    mean = reader.made_by(apart.inputs[1], ops.Mean) if apart else None
    op: ops.Norm
    if apart and mean and mean.inputs[0] is apart.inputs[0] and mean.op.keepdims:
        if mean.op.over(rank) != over:
            return None
        data, op = apart.inputs[0], _centred(over, squares.epsilon)
    else:
        op = ops.RmsNorm(-1, squares.epsilon, scale=False)
    if isinstance(op, ops.LayerNorm | ops.RmsNorm):
        rows = (*data.shape[: over[0]], math.prod(data.shape[over[0] :]))
        made = reader.composed(op, reshaped(data, rows))
        return None if made is None else reshaped(made, data.shape)
    return reader.composed(op, data)


def _centred(over: tuple[int, ...], epsilon: float) -> ops.Norm:
    """Return the norm of data less its mean over all axes from the first of these on."""
    if len(over) > 1 and over[0] == 1:
        return ops.GroupNorm(1, epsilon, center=False, scale=False)
    if len(over) > 1 and over[0] == 2:
        return ops.InstanceNorm(epsilon, center=False, scale=False)
    return ops.LayerNorm(-1, epsilon, center=False, scale=False)


def affine(reader: GraphReader, node: Node, inputs: tuple[Value, ...]) -> Value | None:
    """Return a norm with the vector that it is multiplied by, or that is added to it."""
    if not isinstance(node.op, ops.Multiply | ops.Add):
        return None
    for value, other in (inputs, inputs[::-1]):
        made = reader.made_by(value, ops.Norm)
        if made is None or value.type != node.output.type or not reader.is_read_once(value):
            continue
        op = _with_vector(made.op, isinstance(node.op, ops.Multiply))
        channel = made.op.channel(value.type.ndim)
        if op is not None and vector_axis(other, value) == channel:
            vector = reshaped(other, (value.shape[channel],))
            return reader.composed(op, *made.inputs, vector)
    return None


def _with_vector(op: ops.Norm, gamma: bool) -> ops.Norm | None:
    """Return a norm with gamma, or with beta; None where that has no place behind the others."""
    names = op.vectors()
    centred = ops.LayerNorm | ops.GroupNorm | ops.InstanceNorm
    if gamma and not names and isinstance(op, centred | ops.RmsNorm):
        return replace(op, scale=True)
    if not gamma and "beta" not in names and isinstance(op, centred):
        return replace(op, center=True)
    return None


def grouped(reader: GraphReader, node: Node, inputs: tuple[Value, ...]) -> Value | None:
    """Return the group norm that is a norm of data seen as groups, and seen as images again."""
    made = reader.made_by(inputs[0], ops.Norm) if isinstance(node.op, ops.Reshape) else None
    seen = reader.made_by(made.inputs[0], ops.Reshape) if made else None
    if made is None or seen is None or made.op.vectors():
        return None
    data, shape = seen.inputs[0], made.output.shape
    of_rows = isinstance(made.op, ops.LayerNorm) and len(shape) == 3
    if not of_rows and not isinstance(made.op, ops.InstanceNorm):
        return None
    if data.shape != node.output.shape or data.type.ndim < 3 or data.shape[0] != shape[0]:
        return None
    if data.shape[1] % shape[1]:
        return None
    op = ops.GroupNorm(shape[1], made.op.small(), center=False, scale=False)
    return reader.composed(op, data)


def narrowed(reader: GraphReader, node: Node, inputs: tuple[Value, ...]) -> Value | None:
    """Return the norm of 16-bit floats that is written as one of float32 between two casts.

    The operator adds up in float32 by itself.
    """
    made = reader.made_by(inputs[0], ops.Norm) if isinstance(node.op, ops.Cast) else None
    wide = reader.made_by(made.inputs[0], ops.Cast) if made else None
    if made is None or wide is None or made.op.vectors() or not reader.is_read_once(inputs[0]):
        return None
    data = wide.inputs[0]
    fits = data.dtype == node.output.dtype and made.output.dtype == "float32"
    return reader.composed(made.op, data) if fits else None
