"""Layers between Dequantize and Quantize become layers of 8-bit integers.

A model that was quantised computes ``quantize(activation(layer(dequantize(x), weights) + bias))``.
With one scale for the data, and one for each filter, the layer's sums are sums of whole numbers
times a number; that, the bias, the activation and the rounding are the end of one kernel.

It grows from the layer on: each operator behind it that the kernel can do becomes part of it.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from autotune.graph import ops
from autotune.graph.graph import Graph
from autotune.graph.operator import Operator
from autotune.graph.passes.composing import GraphReader, Matched, Serves, rewritten
from autotune.graph.passes.fold_scale import vector_axis
from autotune.graph.passes.integer_between import average, concatenated, residual
from autotune.graph.passes.unsigned_bytes import unsigned_bytes
from autotune.graph.passes.whole_numbers import chooses, is_by_integers, whole_data, whole_weight
from autotune.graph.types import Array, TensorType
from autotune.graph.value import Constant, Node, Result, Value, apply

Layer = ops.QuantisedConv2d | ops.QuantisedDense


def integer_layers(graph: Graph, serves: Serves) -> Graph:
    """Replace quantised convolutions and products by those of 8-bit integers.

    Args:
        graph: the graph, with `Quantize` and `Dequantize`.
        serves: returns whether a kernel computes an operator, applied to inputs.
    """
    if not any(isinstance(node.op, ops.Dequantize) for node in graph.nodes):
        return graph
    matchers = (_layer, residual, average, _extended, concatenated, _moved)
    whole = rewritten(unsigned_bytes(graph), serves, matchers)
    return rewritten(whole, serves, (_in_floats,))


def _layer(reader: GraphReader, node: Node, inputs: tuple[Value, ...]) -> Value | None:
    """Return a convolution or a product of floats as one of the whole numbers behind them."""
    if not isinstance(node.op, ops.Conv2d | ops.Dense):
        return None
    weight = whole_weight(inputs[1])
    data = whole_data(inputs[0]) if weight is not None else None
    op = _operator(node.op, int(data.zero)) if data is not None else None
    if weight is None or data is None or op is None or (weight.scale.ndim and weight.along):
        return None
    channels = weight.value.shape[0]
    scale = np.broadcast_to(data.scale.astype("float64") * weight.scale, (channels,))
    vectors = _sums(weight.value), _vector(scale), _vector(np.zeros(channels))
    return _composed(reader, op, (data.value, weight.value, *vectors))


def _composed(reader: GraphReader, op: ops.Requantised, inputs: tuple[Value, ...]) -> Value | None:
    """Apply an operator that a kernel computes: as it is, or in the layout that images get."""
    made = reader.composed(op, *inputs)
    if made is not None or not isinstance(op, ops.QuantisedConv2d):
        return made
    data, weight, *vectors = inputs
    data, weight = (apply(ops.Transpose((0, 2, 3, 1)), each) for each in (data, weight))
    last = Node(replace(op, data_layout="NHWC"), (data, weight, *vectors))
    return apply(op, *inputs) if reader.serves(last) else None


def _sums(weight: Value) -> Constant:
    """Return the sum of the weights of each channel."""
    assert isinstance(weight, Constant)
    axes = tuple(range(1, weight.type.ndim))
    kind = TensorType(weight.shape[:1], "int32")
    return Constant(kind, lambda: weight.array.sum(axes, "int32"), weight.name)


def _operator(op: Operator, zero: int) -> Layer | None:
    if isinstance(op, ops.Dense):
        return ops.QuantisedDense(zero=zero)
    assert isinstance(op, ops.Conv2d)
    if (op.data_layout, op.kernel_layout) != ("NCHW", "OIHW"):
        return None
    return ops.QuantisedConv2d(
        zero=zero,
        strides=op.strides,
        padding=op.padding,
        dilation=op.dilation,
        groups=op.groups,
    )


def _vector(numbers: Array) -> Constant:
    return Constant.of(np.ascontiguousarray(numbers, "float32"))


def _extended(reader: GraphReader, node: Node, inputs: tuple[Value, ...]) -> Value | None:
    """Return an operator on integers that also does what a node does with its result."""
    for value in inputs:
        made = _floats_of(reader, value)
        more = _with(made, node, inputs) if made is not None else None
        if more is None:
            continue
        op, operands = more
        if not isinstance(op, ops.QuantisedLayer):  # which every target computes by rule
            return apply(op, *operands)
        return _composed(reader, op, operands)
    return None


def _floats_of(reader: GraphReader, value: Value) -> Matched[ops.Requantised] | None:
    """Return the operator on integers whose floats a value is, if nothing else reads them."""
    if not isinstance(value, Result) or not isinstance(value.node.op, ops.Requantised):
        return None
    op = value.node.op
    single = op.out_dtype == "float32" and reader.is_read_once(value)
    return Matched(op, value.node.inputs, value) if single else None


def _with(
    made: Matched[ops.Requantised], node: Node, inputs: tuple[Value, ...]
) -> tuple[ops.Requantised, tuple[Value, ...]] | None:
    """Return the operator that also does what a node does, and its inputs."""
    op = made.op
    match node.op:
        case ops.Relu():
            return _limited(op, 0.0, np.inf), made.inputs
        case ops.Clip(a_min=low, a_max=high):
            return _limited(op, low, high), made.inputs
        case ops.Quantize(dtype=dtype):
            return _rounded(made, dtype, inputs)
        case ops.Add() | ops.BiasAdd() | ops.Multiply():
            added = _of_channels(made.output, node.op, inputs)
            is_layer = isinstance(op, ops.QuantisedLayer)
            if added is None or not is_layer or (op.low, op.high) != (-np.inf, np.inf):
                return None
            scale, shift = (_numbers(each) for each in made.inputs[3:])
            if isinstance(node.op, ops.Multiply):
                scale, shift = scale * added, shift * added
            else:
                shift = shift + added
            return op, (*made.inputs[:3], _vector(scale), _vector(shift))
    return None


def _limited(op: ops.Requantised, low: float, high: float) -> ops.Requantised:
    return replace(op, low=min(max(op.low, low), high), high=max(min(op.high, high), low))


def _numbers(value: Value) -> Array:
    assert isinstance(value, Constant)
    return value.array.astype("float64")


def _of_channels(result: Value, op: Operator, inputs: tuple[Value, ...]) -> Array | None:
    """Return the known numbers that an operator adds to each channel, or multiplies it by."""
    others = [each for each in inputs if each is not result]
    if len(others) != 1 or not isinstance(others[0], Constant):
        return None
    other = others[0]
    if isinstance(op, ops.BiasAdd):
        fits = inputs[0] is result and op.axis_of_bias % result.type.ndim == 1
    else:
        single = other.type.size == 1 and other.type.ndim <= result.type.ndim
        fits = single or vector_axis(other, result) == 1
    return other.array.astype("float64").reshape(-1) if fits else None


def _rounded(
    made: Matched[ops.Requantised], dtype: str, inputs: tuple[Value, ...]
) -> tuple[ops.Requantised, tuple[Value, ...]] | None:
    """Return an operator whose result is quantised."""
    known = [each.array for each in inputs[1:] if isinstance(each, Constant) and not each.shape]
    if len(known) != 2 or dtype not in ("int8", "uint8") or inputs[0] is not made.output:
        return None
    size, zero = float(known[0]), int(known[1])
    if not size > 0:
        return None
    low, high = made.op.low / size, made.op.high / size
    op = replace(made.op, low=low, high=high, out_zero=zero, out_dtype=dtype)
    if isinstance(op, ops.QuantisedAdd):
        left, right = op.scales
        return replace(op, scales=(left / size, right / size)), made.inputs
    if isinstance(op, ops.QuantisedGlobalAvgPool2d):
        return replace(op, scale=op.scale / size), made.inputs
    vectors = [_vector(_numbers(each) / size) for each in made.inputs[3:]]
    return op, (*made.inputs[:3], *vectors)


def _moved(reader: GraphReader, node: Node, inputs: tuple[Value, ...]) -> Value | None:
    """Return integers that are only moved between Dequantize and Quantize of one scale."""
    if not isinstance(node.op, ops.Quantize):
        return None
    whole = whole_data(inputs[0])
    if whole is None or whole.value.dtype != node.op.dtype:
        return None
    if chooses(inputs[0]) and not is_by_integers(whole.value):  # floats have kernels for that
        return None
    known = [each.array for each in inputs[1:] if isinstance(each, Constant) and not each.shape]
    same = len(known) == 2 and (known[0], known[1]) == (whole.scale, whole.zero)
    return whole.value if same else None


def _in_floats(reader: GraphReader, node: Node, inputs: tuple[Value, ...]) -> Value | None:
    """Return floats that are rounded to steps of a scale without becoming integers between."""
    made = reader.made_by(inputs[0], ops.Quantize) if isinstance(node.op, ops.Dequantize) else None
    if made is None or not reader.is_read_once(inputs[0]):  # others read bytes
        return None
    known = [_scalar(each) for each in (*made.inputs[1:], *inputs[1:])]
    floats = made.inputs[0].dtype == node.outputs[0].dtype
    if None in known or known[:2] != known[2:] or not floats:
        return None
    scale, (zero, limits) = inputs[1], (int(known[1] or 0), np.iinfo(made.op.dtype))
    steps = apply(ops.Divide(), made.inputs[0], scale)
    steps = apply(ops.Nearbyint(), steps)
    within = ops.Clip(float(int(limits.min) - zero), float(int(limits.max) - zero))
    return apply(ops.Multiply(), apply(within, steps), scale)


def _scalar(value: Value) -> float | None:
    """Return the number of a constant without dimensions."""
    known = isinstance(value, Constant) and not value.shape
    return float(value.array) if known and isinstance(value, Constant) else None
