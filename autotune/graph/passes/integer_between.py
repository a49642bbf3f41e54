"""What is between layers of 8-bit integers: sums of residuals, averages, and joined tensors.

Floats whose steps are known are computed of the integers, if a kernel for integers made these;
`integer_layers` adds limits and rounding. Every target computes them, by rule at least.
"""

from __future__ import annotations

from dataclasses import replace

from autotune.graph import ops
from autotune.graph.graph import Graph
from autotune.graph.passes.composing import GraphReader, Serves, rewritten
from autotune.graph.passes.whole_numbers import Whole, is_by_integers, whole_data
from autotune.graph.value import Constant, Node, Value, apply


def residual(reader: GraphReader, node: Node, inputs: tuple[Value, ...]) -> Value | None:
    """Return a sum of two tensors of floats as one of the integers behind them."""
    if not isinstance(node.op, ops.Add) or inputs[0].shape != inputs[1].shape:
        return None
    left, right = _known(inputs)
    if left is None or right is None:
        return None
    scales = float(left.scale), float(right.scale)
    op = ops.QuantisedAdd(scales=scales, zeros=(int(left.zero), int(right.zero)))
    return apply(op, left.value, right.value)


def average(reader: GraphReader, node: Node, inputs: tuple[Value, ...]) -> Value | None:
    """Return an average of whole images as one of integers."""
    if not isinstance(node.op, ops.GlobalAvgPool2d):
        return None
    (data,) = _known(inputs)
    if data is None:
        return None
    op = ops.QuantisedGlobalAvgPool2d(
        zero=int(data.zero), scale=float(data.scale), layout=node.op.layout
    )
    return apply(op, data.value)


def concatenated(reader: GraphReader, node: Node, inputs: tuple[Value, ...]) -> Value | None:
    """Return quantised tensors that are joined, each of which has the steps of the whole then."""
    made = reader.made_by(inputs[0], ops.Concatenate) if inputs else None
    if made is None or not isinstance(node.op, ops.Quantize):
        return None
    if any(not isinstance(each, Constant) or each.shape for each in inputs[1:]):
        return None
    parts = _known(made.inputs)
    if None in parts or not reader.is_read_once(inputs[0]):
        return None
    whole = [_in_steps(part, node, inputs) for part in parts if part is not None]
    return apply(made.op, *whole)


def _in_steps(part: Whole, node: Node, inputs: tuple[Value, ...]) -> Value:
    """Return integers in the steps of a `Quantize`, whose inputs are given."""
    scale, zero = (each.array for each in inputs[1:] if isinstance(each, Constant))
    assert isinstance(node.op, ops.Quantize)
    if part.steps == (node.op.dtype, float(scale), int(zero)):
        return part.value
    own = Constant.of(part.scale), Constant.of(part.zero)
    floats = apply(ops.Dequantize(), part.value, *own)
    return apply(node.op, floats, *inputs[1:])


def _known(inputs: tuple[Value, ...]) -> list[Whole | None]:
    """Return the integers behind each input; None for all, if no kernel for integers made any."""
    found = [whole_data(each) for each in inputs]
    by_integers = any(each is not None and is_by_integers(each.value) for each in found)
    return found if by_integers else [None] * len(inputs)


def joined_residuals(graph: Graph, serves: Serves) -> Graph:
    """Let convolutions of integers add the residual behind them, where a kernel computes both."""
    if not any(isinstance(node.op, ops.QuantisedAdd) for node in graph.nodes):
        return graph
    return rewritten(graph, serves, (_joined,))


def _joined(reader: GraphReader, node: Node, inputs: tuple[Value, ...]) -> Value | None:
    """Return a sum as the end of a convolution that nothing else reads."""
    if not isinstance(node.op, ops.QuantisedAdd):
        return None
    add, (left, right) = node.op, inputs
    swapped = replace(add, scales=add.scales[::-1], zeros=add.zeros[::-1])
    for op, value, other in ((add, left, right), (swapped, right, left)):
        conv = reader.made_by(value, ops.QuantisedConv2d)
        if conv is None or type(conv.op) is not ops.QuantisedConv2d or value is other:
            continue
        same = conv.op.out_dtype != "float32" and conv.op.out_zero == op.zeros[0]
        if same and reader.is_read_once(value):
            both = ops.QuantisedConv2dAdd.of(conv.op, op)
            made = reader.composed(both, *conv.inputs, other)
            if made is not None:
                return made
    return None
