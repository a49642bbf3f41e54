"""Whole numbers behind floats: 8-bit integers that `Dequantize` made floats of."""

from __future__ import annotations

from typing import NamedTuple

from autotune.graph import ops
from autotune.graph.operator import Operator
from autotune.graph.passes.fold_constant import folded
from autotune.graph.types import Array, TensorType
from autotune.graph.value import Constant, Node, Result, Value, apply

_MOVES = (ops.Reshape, ops.Transpose, ops.StridedSlice, ops.BatchFlatten, ops.ExpandDims,
          ops.Squeeze, ops.Upsampling)  # fmt: skip
_CHOICES = (ops.MaxPool2d, ops.GlobalMaxPool2d, ops.Concatenate)


class Whole(NamedTuple):
    """Whole numbers that floats were made of."""

    value: Value
    scale: Array
    zero: Array
    along: int

    @property
    def steps(self) -> tuple[str, float, int]:
        """The type, and the scale and the zero point of data that have one."""
        return self.value.dtype, float(self.scale), int(self.zero)


def moves(op: Operator) -> bool:
    """Return whether every result of an operator is an element of its inputs."""
    return isinstance(op, (*_MOVES, *_CHOICES))


def chooses(value: Value) -> bool:
    """Return whether a value is made by an operator of which floats have kernels."""
    return isinstance(value, Result) and isinstance(value.node.op, _CHOICES)


def is_by_integers(value: Value) -> bool:
    """Return whether integers are the result of a kernel for integers, moved or not."""
    if not isinstance(value, Result):
        return False
    node = value.node
    if isinstance(node.op, ops.Requantised):
        return node.op.out_dtype != "float32"
    return moves(node.op) and any(is_by_integers(each) for each in node.inputs)


def whole_data(value: Value) -> Whole | None:
    """Return the 8-bit integers of data, which has one scale; also of data that was moved.

    A maximum is one of its elements, since steps keep the order.
    """
    if not isinstance(value, Result) or len(value.node.outputs) != 1:
        return None
    node = value.node
    if isinstance(node.op, ops.Dequantize):
        q, scale, zero = node.inputs
        known = isinstance(scale, Constant) and isinstance(zero, Constant) and not scale.shape
        if not known or q.dtype not in ("int8", "uint8") or value.dtype != "float32":
            return None
        assert isinstance(scale, Constant)
        assert isinstance(zero, Constant)
        if zero.shape or not scale.array > 0:  # steps would not keep the order
            return None
        return Whole(q, scale.array, zero.array, 0)
    if not moves(node.op):
        return None
    parts = [whole_data(each) for each in node.inputs]
    found = [part for part in parts if part is not None]
    if len(found) < len(parts) or len({part.steps for part in found}) > 1:
        return None
    moved = apply(node.op, *[part.value for part in found], origin=node.origin)
    return found[0]._replace(value=moved)


def whole_weight(value: Value) -> Whole | None:
    """Return the int8 of a weight that is known; also of one whose axes were moved."""
    node = value.node if isinstance(value, Constant) else None
    if node is None:
        return None
    if isinstance(node.op, ops.Dequantize):
        q, scale, zero = node.inputs
        assert isinstance(q, Constant)
        assert isinstance(scale, Constant)
        assert isinstance(zero, Constant)
        return _signed(q, scale.array, zero.array, node.op.along % max(q.type.ndim, 1))
    if not isinstance(node.op, ops.Transpose | ops.Reshape):
        return None
    inner = whole_weight(node.inputs[0])
    if inner is None or (isinstance(node.op, ops.Reshape) and inner.scale.ndim):
        return None
    assert isinstance(inner.value, Constant)
    moved = folded(Node(node.op, (inner.value,), node.origin), [inner.value])
    if isinstance(node.op, ops.Transpose):
        rank = moved.type.ndim
        axes = node.op.axes or tuple(reversed(range(rank)))
        return inner._replace(value=moved, along=[n % rank for n in axes].index(inner.along))
    return inner._replace(value=moved)


def _signed(q: Constant, scale: Array, zero: Array, along: int) -> Whole | None:
    """Return weights as int8 around 0; None where they are not."""
    if q.dtype == "int8" and not zero.any():
        return Whole(q, scale, zero, along)
    if q.dtype != "uint8" or (zero != 128).any():
        return None
    moved = Constant(
        TensorType(q.shape, "int8"), lambda: (q.array.astype("int16") - 128).astype("int8"), q.name
    )
    return Whole(moved, scale, zero, along)
