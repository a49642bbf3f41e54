"""Layers between Dequantize and Quantize become layers of 8-bit integers.

A model that was quantised computes ``quantize(activation(layer(dequantize(x), weights) + bias))``.
With one scale for the data, and one for each filter, the layer's sums are sums of whole numbers
times a number; that, the bias, the activation and the rounding are the end of one kernel.

It grows from the layer on: each operator behind it that the kernel can do becomes part of it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from autotune.graph import ops
from autotune.graph.graph import Graph
from autotune.graph.operator import Operator
from autotune.graph.passes.composing import GraphReader, Matched, Serves, rewritten
from autotune.graph.passes.fold_constant import folded
from autotune.graph.passes.fold_scale import vector_axis
from autotune.graph.types import Array, TensorType
from autotune.graph.value import Constant, Node, Result, Value, apply

_LAYERS = (ops.QuantisedConv2d, ops.QuantisedDense)
_MOVES = (ops.Reshape, ops.Transpose, ops.StridedSlice, ops.BatchFlatten, ops.ExpandDims,
          ops.Squeeze)  # fmt: skip
Layer = ops.QuantisedConv2d | ops.QuantisedDense


def integer_layers(graph: Graph, serves: Serves) -> Graph:
    """Replace quantised convolutions and products by those of 8-bit integers.

    Args:
        graph: the graph, with `Quantize` and `Dequantize`.
        serves: returns whether a kernel computes an operator, applied to inputs.
    """
    if not any(isinstance(node.op, ops.Dequantize) for node in graph.nodes):
        return graph
    whole = rewritten(graph, serves, (_layer, _extended, _moved))
    return rewritten(whole, serves, (_in_floats,))


class _Whole(NamedTuple):
    """Whole numbers that floats were made of."""

    value: Value
    scale: Array
    zero: Array
    along: int


def _whole_data(reader: GraphReader, value: Value) -> _Whole | None:
    """Return the 8-bit integers of data, which has one scale; also of data in another shape."""
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
        return None if zero.shape else _Whole(q, scale.array, zero.array, 0)
    if not isinstance(node.op, _MOVES):
        return None
    inner = _whole_data(reader, node.inputs[0])
    moved = apply(node.op, inner.value, origin=node.origin) if inner is not None else None
    return inner._replace(value=moved) if inner is not None and moved is not None else None


def _whole_weight(value: Value) -> _Whole | None:
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
    inner = _whole_weight(node.inputs[0])
    if inner is None or (isinstance(node.op, ops.Reshape) and inner.scale.ndim):
        return None
    assert isinstance(inner.value, Constant)
    moved = folded(Node(node.op, (inner.value,), node.origin), [inner.value])
    if isinstance(node.op, ops.Transpose):
        rank = moved.type.ndim
        axes = node.op.axes or tuple(reversed(range(rank)))
        return inner._replace(value=moved, along=[n % rank for n in axes].index(inner.along))
    return inner._replace(value=moved)


def _signed(q: Constant, scale: Array, zero: Array, along: int) -> _Whole | None:
    """Return weights as int8 around 0; None where they are not."""
    if q.dtype == "int8" and not zero.any():
        return _Whole(q, scale, zero, along)
    if q.dtype != "uint8" or (zero != 128).any():
        return None
    moved = Constant(
        TensorType(q.shape, "int8"), lambda: (q.array.astype("int16") - 128).astype("int8"), q.name
    )
    return _Whole(moved, scale, zero, along)


def _layer(reader: GraphReader, node: Node, inputs: tuple[Value, ...]) -> Value | None:
    """Return a convolution or a product of floats as one of the whole numbers behind them."""
    if not isinstance(node.op, ops.Conv2d | ops.Dense):
        return None
    weight = _whole_weight(inputs[1])
    data = _whole_data(reader, inputs[0]) if weight is not None else None
    op = _operator(node.op, int(data.zero)) if data is not None else None
    if weight is None or data is None or op is None or (weight.scale.ndim and weight.along):
        return None
    channels = weight.value.shape[0]
    scale = np.broadcast_to(data.scale.astype("float64") * weight.scale, (channels,))
    vectors = _sums(weight.value), _vector(scale), _vector(np.zeros(channels))
    return reader.composed(op, data.value, weight.value, *vectors, origin=node.origin)


def _sums(weight: Value) -> Constant:
    """Return the sum of the weights of each channel."""
    assert isinstance(weight, Constant)
    axes = tuple(range(1, weight.type.ndim))
    kind = TensorType(weight.shape[:1], "int32")
    return Constant(kind, lambda: weight.array.sum(axes, "int32"), weight.name)


def _operator(op: Operator, zero: int) -> Layer | None:
    if isinstance(op, ops.Dense):
        return ops.QuantisedDense(zero)
    assert isinstance(op, ops.Conv2d)
    if (op.data_layout, op.kernel_layout) != ("NCHW", "OIHW"):
        return None
    return ops.QuantisedConv2d(
        zero, strides=op.strides, padding=op.padding, dilation=op.dilation, groups=op.groups
    )


def _vector(numbers: Array) -> Constant:
    return Constant.of(np.ascontiguousarray(numbers, "float32"))


def _extended(reader: GraphReader, node: Node, inputs: tuple[Value, ...]) -> Value | None:
    """Return a layer that also does what a node does with its result."""
    for value in inputs:
        layer = _result_of(reader, value)
        made = _with(layer, node, inputs) if layer is not None else None
        if layer is not None and made is not None:
            op, scale, shift = made
            operands = (*layer.inputs[:3], _vector(scale), _vector(shift))
            return reader.composed(op, *operands, origin=node.origin)
    return None


def _result_of(reader: GraphReader, value: Value) -> Matched[Layer] | None:
    """Return the layer of integers whose floats a value is, if nothing else reads them."""
    made: Matched[Layer] | None = None
    for kind in _LAYERS:
        made = made or reader.made_by(value, kind)
    if made is None or made.op.out_dtype != "float32" or not reader.is_read_once(value):
        return None
    return made


def _with(
    layer: Matched[Layer], node: Node, inputs: tuple[Value, ...]
) -> tuple[Layer, Array, Array] | None:
    """Return the operator, the scale and the shift of a layer with what a node does."""
    op, (scale, shift) = layer.op, (_numbers(each) for each in layer.inputs[3:])
    match node.op:
        case ops.Relu():
            return replace(op, low=max(op.low, 0.0), high=max(op.high, 0.0)), scale, shift
        case ops.Clip(a_min=low, a_max=high):
            op = replace(op, low=min(max(op.low, low), high), high=max(min(op.high, high), low))
            return op, scale, shift
        case ops.Quantize(dtype=dtype):
            return _rounded(layer, dtype, inputs)
        case ops.Add() | ops.BiasAdd() | ops.Multiply():
            added = _of_channels(layer, node.op, inputs)
            if added is None or (op.low, op.high) != (-np.inf, np.inf):
                return None
            if isinstance(node.op, ops.Multiply):
                return op, scale * added, shift * added
            return op, scale, shift + added
    return None


def _numbers(value: Value) -> Array:
    assert isinstance(value, Constant)
    return value.array.astype("float64")


def _of_channels(layer: Matched[Layer], op: Operator, inputs: tuple[Value, ...]) -> Array | None:
    """Return the known numbers that an operator adds to each channel, or multiplies it by."""
    others = [each for each in inputs if each is not layer.output]
    if len(others) != 1 or not isinstance(others[0], Constant):
        return None
    other = others[0]
    if isinstance(op, ops.BiasAdd):
        fits = inputs[0] is layer.output and op.axis_of_bias % layer.output.type.ndim == 1
    else:
        single = other.type.size == 1 and other.type.ndim <= layer.output.type.ndim
        fits = single or vector_axis(other, layer.output) == 1
    return other.array.astype("float64").reshape(-1) if fits else None


def _rounded(
    layer: Matched[Layer], dtype: str, inputs: tuple[Value, ...]
) -> tuple[Layer, Array, Array] | None:
    """Return a layer whose result is quantised."""
    known = [each.array for each in inputs[1:] if isinstance(each, Constant) and not each.shape]
    if len(known) != 2 or dtype not in ("int8", "uint8") or inputs[0] is not layer.output:
        return None
    size, zero = float(known[0]), int(known[1])
    if not size > 0:
        return None
    scale, shift = (_numbers(each) / size for each in layer.inputs[3:])
    low, high = layer.op.low / size, layer.op.high / size
    op = replace(layer.op, low=low, high=high, out_zero=zero, out_dtype=dtype)
    return op, scale, shift


def _moved(reader: GraphReader, node: Node, inputs: tuple[Value, ...]) -> Value | None:
    """Return integers that are only moved between Dequantize and Quantize of one scale."""
    if not isinstance(node.op, ops.Quantize):
        return None
    whole = _whole_data(reader, inputs[0])
    if whole is None or whole.value.dtype != node.op.dtype:
        return None
    known = [each.array for each in inputs[1:] if isinstance(each, Constant) and not each.shape]
    same = len(known) == 2 and (known[0], known[1]) == (whole.scale, whole.zero)
    return whole.value if same else None


def _in_floats(reader: GraphReader, node: Node, inputs: tuple[Value, ...]) -> Value | None:
    """Return floats that are rounded to steps of a scale without becoming integers between."""
    made = reader.made_by(inputs[0], ops.Quantize) if isinstance(node.op, ops.Dequantize) else None
    if made is None:
        return None
    known = [_scalar(each) for each in (*made.inputs[1:], *inputs[1:])]
    floats = made.inputs[0].dtype == node.outputs[0].dtype
    if None in known or known[:2] != known[2:] or not floats:
        return None
    scale, (zero, limits) = inputs[1], (int(known[1] or 0), np.iinfo(made.op.dtype))
    steps = apply(ops.Divide(), made.inputs[0], scale, origin=node.origin)
    steps = apply(ops.Nearbyint(), steps, origin=node.origin)
    within = ops.Clip(float(int(limits.min) - zero), float(int(limits.max) - zero))
    return apply(
        ops.Multiply(), apply(within, steps, origin=node.origin), scale, origin=node.origin
    )


def _scalar(value: Value) -> float | None:
    """Return the number of a constant without dimensions."""
    known = isinstance(value, Constant) and not value.shape
    return float(value.array) if known and isinstance(value, Constant) else None
