"""Lets attention read heads in the layout in which products write them, without a transpose."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

from autotune.graph import ops
from autotune.graph.passes.composing import GraphReader, reshaped
from autotune.graph.passes.fold_scale import vector_axis
from autotune.graph.passes.joined_products import Product, joined
from autotune.graph.value import Constant, Node, Result, Value

_ROWS_AND_HEADS = (0, 2, 1, 3)


@dataclass(frozen=True)
class _Part:
    """A slice of an axis, between two indices."""

    whole: Value
    axis: int
    begin: int
    end: int


def untransposed(reader: GraphReader, node: Node, inputs: tuple[Value, ...]) -> Value | None:
    """Return attention with rows before heads, where its inputs and its result are transposed.

    Where q, k and v are products of the same data, or parts of one product, that is one product,
    and attention reads all three in it.
    """
    if not _turns(node.op):
        return None
    value = inputs[0]
    while reader.is_read_once(value) and (moved := reader.made_by(value, ops.Reshape)):
        value = moved.inputs[0]
    made = reader.made_by(value, ops.Attention)
    plain = made is not None and type(made.op) is ops.Attention
    if made is None or not plain or value.shape != inputs[0].shape:
        return None
    before = [reader.made_by(each, ops.Transpose) for each in made.inputs[:3]]
    heads = [each.inputs[0] for each in before if each is not None and _turns(each.op)]
    if len(heads) < 3 or not reader.is_read_once(value):
        return None
    (q, k, v), bias = heads, made.inputs[3:]
    packed = _packed(reader, q, k, v)
    if packed is not None:
        kv_heads = k.shape[2] if k.shape[2] < q.shape[2] else 0
        op = ops.PackedAttention(made.op.causal, made.op.scale, kv_heads)
        result = reader.composed(op, packed, *bias)
        if result is not None:
            return result
    first = ops.RowsFirstAttention(made.op.causal, made.op.scale)
    return reader.composed(first, q, k, v, *bias)


def _turns(op: object) -> bool:
    """Return whether an operator changes the places of rows and heads."""
    if not isinstance(op, ops.Transpose) or not op.axes or len(op.axes) != len(_ROWS_AND_HEADS):
        return False
    return tuple(axis % len(_ROWS_AND_HEADS) for axis in op.axes) == _ROWS_AND_HEADS


def _packed(reader: GraphReader, q: Value, k: Value, v: Value) -> Value | None:
    """Return one array of all heads of q, k and v, each row behind one another."""
    if q.shape[:2] != k.shape[:2]:
        return None
    batch, rows, heads, size = q.shape
    shape = (batch, rows, heads + 2 * k.shape[2], size)
    whole = _split(reader, q, k, v)
    if whole is None:
        products = [_product(reader, each) for each in (q, k, v)]
        known = [each for each in products if each is not None]
        if len(known) < 3 or len({id(data) for data, _ in known}) > 1:
            return None
        whole = joined(known[0][0], [product for _, product in known])
    return reshaped(whole, shape)


def _split(reader: GraphReader, q: Value, k: Value, v: Value) -> Value | None:
    """Return the value whose rows are the heads of q, of k and of v, if these are cut from one."""
    parts = [_part(_unshaped(reader, each)) for each in (q, k, v)]
    known = [each for each in parts if each is not None]
    if len(known) < 3 or len({(id(each.whole), each.axis) for each in known}) > 1:
        return None
    whole, axis = known[0].whole, known[0].axis
    ends = [0, *(each.end for each in known)]
    rest = math.prod(whole.shape[axis + 1 :])
    follow = [each.begin for each in known] == ends[:-1] and ends[-1] == whole.shape[axis]
    sizes = [(end - begin) * rest for begin, end in itertools.pairwise(ends)]
    heads = [math.prod(each.shape[2:]) for each in (q, k, v)]
    rows = math.prod(whole.shape[:axis]) == math.prod(q.shape[:2])
    return whole if follow and rows and sizes == heads else None


def _part(value: Value) -> _Part | None:
    """Return which part of another value a value is, if it is one along one axis."""
    node = value.node if isinstance(value, Result) else None
    whole = node.inputs[0] if node is not None else value
    if node is not None and isinstance(node.op, ops.Split) and isinstance(value, Result):
        axis = node.op.along % whole.type.ndim
        begin = value.index * value.shape[axis]
        return _Part(whole, axis, begin, begin + value.shape[axis])
    if node is None or not isinstance(node.op, ops.StridedSlice):
        return None
    shorter = [i for i, n in enumerate(value.shape) if n < whole.shape[i]]
    if len(shorter) != 1 or any(step != 1 for step in node.op.strides):
        return None
    begin, end, _ = slice(node.op.begin[shorter[0]], node.op.end[shorter[0]]).indices(
        whole.shape[shorter[0]]
    )
    return _Part(whole, shorter[0], begin, end)


def _unshaped(reader: GraphReader, value: Value) -> Value:
    """Return a value before reshapes."""
    while moved := reader.made_by(value, ops.Reshape):
        value = moved.inputs[0]
    return value


def _product(reader: GraphReader, value: Value) -> tuple[Value, Product] | None:
    """Return data and the product of it that a value is, if nobody else reads that."""
    while reader.is_read_once(value) and (moved := reader.made_by(value, ops.Reshape)):
        value = moved.inputs[0]
    bias: Constant | None = None
    total = reader.made_by(value, ops.Add) if reader.is_read_once(value) else None
    if total is not None:
        first, second = total.inputs
        value, other = (second, first) if isinstance(first, Constant) else (first, second)
        if not isinstance(other, Constant) or vector_axis(other, value) != 1:
            return None
        bias = other
    dense = reader.made_by(value, ops.Dense) if reader.is_read_once(value) else None
    if dense is None or not isinstance(dense.inputs[1], Constant):
        return None
    return dense.inputs[0], Product(dense.inputs[1], bias)
