"""Products with one number a channel move into the weights of a convolution or dense layer.

Both directions follow TVM's FoldScaleAxis: backward into the layer that a product comes after,
forward into the layers that read it. A ReLU between lets only positive scales through. A scale
stays where it is if weights times it would be too small or too large for their dtype, as those of
16 bits are by the layer scales of ConvNeXt.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import ml_dtypes
import numpy as np

from autotune.graph import ops
from autotune.graph.graph import Graph
from autotune.graph.value import Constant, Node, Result, Value, apply

_finfo: Any = ml_dtypes.finfo  # has no types
_ACTIVATIONS = (ops.Relu, ops.LeakyRelu)
# Weights are taken to be within this factor of 1 before their numbers are looked at.
_USUAL = 2.0**40
# Quotients by less leave the range of a dtype too easily.
_LEAST_DIVISOR = {"float16": 1e-2}


@dataclass(frozen=True)
class Message:
    """A value may be scaled along an axis.

    Attributes:
        positive: whether only by what is above 0.
        divides: whether something is divided by the scale, which must not be 0 then.
        weight: what is multiplied by the scale instead, with the axis; None where only others are.
        others: messages whose weights are multiplied by the scale as well.
    """

    axis: int
    positive: bool = False
    divides: bool = False
    weight: tuple[Value, int] | None = None
    others: tuple[Message, ...] = ()

    def meet(self, other: Message | None) -> Message | None:
        """Return the message that both consumers allow."""
        if other is None or other.axis != self.axis:
            return None
        return Message(
            self.axis,
            self.positive or other.positive,
            self.divides or other.divides,
            others=(self, other),
        )

    def weights(self) -> Iterator[tuple[Value, int]]:
        """Yield all that is multiplied by the scale, each with the axis."""
        left = [self]
        while left:
            message = left.pop()
            if message.weight is not None:
                yield message.weight
            left += reversed(message.others)

    def allows(self, scale: Constant) -> bool:
        """Return whether the value may be scaled by these numbers."""
        if self.positive and not is_positive(scale):
            return False
        if self.divides and not is_divisor(scale):
            return False
        return all(holds_scaled(weight, scale, axis) for weight, axis in self.weights())

    def also(self, vector: Value, axis: int) -> Message:
        """Return the message if a vector is scaled as well."""
        return Message(self.axis, self.positive, self.divides, (vector, axis), (self,))


def channels(node: Node) -> tuple[int, int, int] | None:
    """Return the axes of a layer's channels: of its data, its result, and its weight's outputs.

    None for what is no convolution, whole or depthwise, and no dense layer.
    """
    match node.op:
        case ops.Dense():
            return 1, 1, 0
        case ops.Convolution() as op:
            data, weight = (value.type for value in node.inputs)
            if op.groups != 1 and not op.is_depthwise(data, weight):
                return None
            channel = op.data_layout.index("C")
            return channel, channel, op.kernel_layout.index("O")
    return None


def read_weight_axis(node: Node) -> int:
    """Return the axis of a layer's weight along which its data's channels are read."""
    match node.op:
        case ops.Dense():
            return 1
        case ops.Convolution() as op:
            return op.kernel_layout.index("I" if op.groups == 1 else "O")
    raise AssertionError(node.op.name)


def vector_axis(vector: Value, data: Value) -> int | None:
    """Return the axis of the data on which an operand has extents; None if there are several."""
    shape = (1,) * (data.type.ndim - vector.type.ndim) + vector.shape
    wide = [i for i, n in enumerate(shape) if n != 1]
    fits = len(shape) == data.type.ndim and len(wide) == 1
    return wide[0] if fits and shape[wide[0]] == data.shape[wide[0]] else None


def scale_along(
    value: Value, scale: Constant, axis: int, origin: str, divide: bool = False
) -> Value:
    """Multiply (or divide) along an axis by a scale that has extents on one axis only."""
    shape = tuple(scale.type.size if i == axis else 1 for i in range(value.type.ndim))
    aligned = apply(ops.Reshape(shape), scale, origin=origin)
    return apply(ops.Divide() if divide else ops.Multiply(), value, aligned, origin=origin)


def is_positive(scale: Constant) -> bool:
    """Returns whether all numbers are above 0."""
    return bool((scale.array > 0).all())


def is_divisor(scale: Constant) -> bool:
    """Returns whether numbers of a usual size can be divided by all of a scale's."""
    least = _LEAST_DIVISOR.get(scale.dtype, 1e-30)
    return bool((np.abs(scale.array.astype("float64")) >= least).all())


def holds_scaled(weight: Value, scale: Constant, axis: int) -> bool:
    """Return whether weights times a scale along an axis keep the precision of their dtype.

    That is whether in each channel the greatest is in the range of normal numbers, unless it was
    not before; with it the others are as precise. Weights that are not known count as 1.
    """
    size = np.abs(scale.array.astype("float64")).reshape(-1)
    kind = _finfo(weight.dtype)
    least, most = float(kind.smallest_normal), float(kind.max)
    within = (size * _USUAL <= most) & (size / _USUAL >= least)
    if isinstance(weight, Constant) and not np.all(within | (size == 0)):
        others = tuple(i for i in range(weight.type.ndim) if i != axis)
        greatest = np.abs(weight.array.astype("float64")).max(others, initial=0.0)
    else:
        greatest = np.ones(1)
    made = greatest * size
    return bool(np.all((made <= most) & ((made >= np.minimum(least, greatest)) | (size == 0))))


def _scale_of(node: Node) -> tuple[Value, Constant] | None:
    """Return what a product scales and by what, if one operand is a constant vector."""
    if not isinstance(node.op, ops.Multiply):
        return None
    for value, scale in (node.inputs, node.inputs[::-1]):
        if isinstance(scale, Constant) and vector_axis(scale, value) is not None:
            return value, scale
    return None


def fold_scale_backward(graph: Graph) -> Graph:
    """Move scales into the weights of the layer before, through activations, sums and biases."""
    messages = _backward_messages(graph)
    new: dict[Node, tuple[Value, ...]] = {}

    def fold(node: Node, inputs: tuple[Value, ...]) -> Value | None:
        new[node] = inputs
        found = _scale_of(node)
        if found is None:
            return None
        value, scale = found
        message = messages.get(value)
        if message is None or vector_axis(scale, value) != message.axis:
            return None
        if not message.allows(scale):
            return None
        return _Push(messages, new, scale, message.axis).into(value)

    return graph.rewrite(fold)


def _backward_messages(graph: Graph) -> dict[Value, Message]:
    found: dict[Value, Message] = {}
    for node in graph.nodes:
        result = node.outputs[0]
        message = _backward_message(node, found) if graph.uses(result) == 1 else None
        if message:
            found[result] = message
    return found


def _backward_message(node: Node, found: dict[Value, Message]) -> Message | None:
    axes = channels(node)
    if axes:
        return Message(axes[1], weight=(node.inputs[1], axes[2]))
    first = found.get(node.inputs[0])
    if isinstance(node.op, _ACTIVATIONS):
        return replace(first, positive=True) if first else None
    if isinstance(node.op, ops.BiasAdd):
        same = first and first.axis == node.op.axis(node.op.axis_of_bias, node.inputs[0].type.ndim)
        return first.also(node.inputs[1], 0) if first and same else None
    if not isinstance(node.op, ops.Add | ops.Subtract):
        return None
    a, b = node.inputs
    if a.shape == b.shape and first and found.get(b):
        return first.meet(found[b])
    for value, other in ((a, b), (b, a)):
        message = found.get(value)
        if (
            message
            and value.type == node.output.type
            and vector_axis(other, value) == message.axis
        ):
            return message.also(other, message.axis - value.type.ndim + other.type.ndim)
    return None


@dataclass(frozen=True)
class _Push:
    """Scales values by scaling the weights that they come from."""

    messages: dict[Value, Message]
    new: dict[Node, tuple[Value, ...]]
    scale: Constant
    axis: int

    def into(self, value: Value) -> Value:
        """Return the scaled value.

        What it comes from is scaled from the layers on: networks may be deeper than the stack.
        """
        order, left = list[Node](), [value]
        while left:
            each = left.pop()
            assert isinstance(each, Result)
            order.append(each.node)
            left += self._carriers(each.node)
        scaled: dict[Value, Value] = {}
        for node in reversed(order):
            scaled[node.output] = self._rebuilt(node, scaled)
        return scaled[value]

    def _carriers(self, node: Node) -> list[Value]:
        """Return the inputs by which a node is scaled; none where its own weight is."""
        if channels(node):
            return []
        if isinstance(node.op, ops.Add | ops.Subtract):
            return [each for each in node.inputs if self._carries(each, node)]
        return [node.inputs[0]]

    def _carries(self, value: Value, node: Node) -> bool:
        return value in self.messages and value.type == node.output.type

    def _rebuilt(self, node: Node, scaled: Mapping[Value, Value]) -> Value:
        inputs = self.new[node]
        axes = channels(node)
        if axes:
            weight = scale_along(inputs[1], self.scale, axes[2], node.origin)
            return node.on((inputs[0], weight)).output
        if isinstance(node.op, _ACTIVATIONS):
            return node.on((scaled[node.inputs[0]],)).output
        if isinstance(node.op, ops.BiasAdd):
            bias = scale_along(inputs[1], self.scale, 0, node.origin)
            return node.on((scaled[node.inputs[0]], bias)).output
        parts = [
            scaled[old] if self._carries(old, node) else self._along(old, new, node)
            for old, new in zip(node.inputs, inputs, strict=True)
        ]
        return node.on(tuple(parts)).output

    def _along(self, old: Value, new: Value, node: Node) -> Value:
        """Scale the other operand of a sum."""
        at = self.axis - (node.output.type.ndim - old.type.ndim)
        return scale_along(new, self.scale, at, node.origin)


def fold_scale_forward(graph: Graph) -> Graph:
    """Move scales into the weights of all layers that read the product, if all are such."""
    demands = _forward_demands(graph)
    scales: dict[Value, Constant] = {}

    def fold(node: Node, inputs: tuple[Value, ...]) -> Value | None:
        result = node.outputs[0]
        message = demands.get(result)
        found = _scale_of(node)
        if found and message and vector_axis(found[1], result) == message.axis:
            if found[0].type == result.type and message.allows(found[1]):
                scales[result] = found[1]
                return inputs[node.inputs.index(found[0])]
            return None
        return _carry(node, inputs, message, scales)

    return graph.rewrite(fold)


def _carry(
    node: Node, inputs: tuple[Value, ...], message: Message | None, scales: dict[Value, Constant]
) -> Value | None:
    """Rebuild a node that reads what lacks its scale; note whether its own result lacks it."""
    lacking = [i for i, value in enumerate(node.inputs) if value in scales]
    if not lacking:
        return None
    scale, result = scales[node.inputs[lacking[0]]], node.outputs[0]
    if channels(node):
        weight = scale_along(inputs[1], scale, read_weight_axis(node), node.origin)
        return node.on((inputs[0], weight)).output
    assert message is not None
    scales[result] = scale
    if isinstance(node.op, _ACTIVATIONS):
        return None
    assert isinstance(node.op, ops.Add | ops.Subtract)
    other = 1 - lacking[0]
    at = message.axis - (result.type.ndim - inputs[other].type.ndim)
    parts = list(inputs)
    parts[other] = scale_along(inputs[other], scale, at, node.origin, divide=True)
    return node.on(tuple(parts)).output


def _forward_demands(graph: Graph) -> dict[Value, Message]:
    """Return along which axis all readers of a value could do without its scale."""
    unasked = object()
    found: dict[Value, object] = {}

    def ask(value: Value, message: Message | None) -> None:
        before = found.get(value, unasked)
        if before is unasked:
            found[value] = message
        elif isinstance(before, Message):
            found[value] = before.meet(message)

    for value in graph.outputs:
        ask(value, None)
    for node in reversed(graph.nodes):
        own = found.get(node.outputs[0])
        wanted = _asked(node, own if isinstance(own, Message) else None)
        for value, message in zip(node.inputs, wanted, strict=True):
            ask(value, message)
    return {value: each for value, each in found.items() if isinstance(each, Message)}


def _asked(node: Node, own: Message | None) -> Sequence[Message | None]:
    """Return the message of a node to its inputs, given those of its users."""
    axes = channels(node)
    if axes:
        weight = node.inputs[1], read_weight_axis(node)
        return [Message(axes[0], weight=weight), None]
    if own and isinstance(node.op, _ACTIVATIONS):
        return [replace(own, positive=True)]
    if own and isinstance(node.op, ops.Add | ops.Subtract):
        a, b = node.inputs
        if a.type == node.output.type and vector_axis(b, a) == own.axis:
            return [replace(own, divides=True), None]
        if b.type == node.output.type and vector_axis(a, b) == own.axis:
            return [None, replace(own, divides=True)]
    return [None] * len(node.inputs)
