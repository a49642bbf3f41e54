"""Rewrites 3-D and transposed convolutions as 2-D ones, for which there are most templates.

`planes` and `sub_pixel` have the two constructions. The weights must be constants, as they are
rearranged once.
"""

from __future__ import annotations

from dataclasses import dataclass

from autotune.graph import ops
from autotune.graph.graph import Graph
from autotune.graph.passes.planes import Planes, as_planes
from autotune.graph.passes.sub_pixel import PixelShuffled, as_sub_pixel
from autotune.graph.types import Array
from autotune.graph.value import Constant, Node, Value, apply, made_at


@dataclass(frozen=True)
class _Images:
    """Images whose elements have an order of their own, and how they are put in the graph's."""

    value: Value
    order: Planes | PixelShuffled


def to_conv2d(graph: Graph) -> Graph:
    """Convolve images instead of volumes, and instead of images with zeros between elements.

    What knows nothing of the order of elements, such as a bias for each channel or an activation,
    is applied before results are put in order, and so becomes part of the convolution's kernel.
    """
    if not any(isinstance(node.op, ops.Conv3d | ops.Conv2dTranspose) for node in graph.nodes):
        return graph
    return _Run().run(graph)


class _Run:
    """One run of the pass.

    Attributes:
        images: what was convolved, by the value in the graph's order that comes of it.
    """

    def __init__(self) -> None:
        self.images: dict[Value, _Images] = {}

    def run(self, graph: Graph) -> Graph:
        """Return the graph with other convolutions."""
        return graph.rewrite(self._rewritten)

    def _rewritten(self, node: Node, inputs: tuple[Value, ...]) -> Value | None:
        with made_at(node.origin):
            return self._convolved(node, inputs)

    def _convolved(self, node: Node, inputs: tuple[Value, ...]) -> Value | None:
        made: tuple[Value, Planes | PixelShuffled] | None = None
        if isinstance(node.op, ops.Conv3d):
            made = as_planes(node, inputs)
        elif isinstance(node.op, ops.Conv2dTranspose):
            made = as_sub_pixel(node, inputs)
        elif any(value in self.images for value in inputs):
            made = self._applied(node, inputs)
        if made is None:
            return None
        value, order = made
        result = order.restored(value)
        self.images[result] = _Images(value, order)
        return result

    def _applied(
        self, node: Node, inputs: tuple[Value, ...]
    ) -> tuple[Value, Planes | PixelShuffled] | None:
        """Return what an operator on each element makes of images, if that is possible."""
        known = [self.images[value] for value in inputs if value in self.images]
        first = known[0]
        if not isinstance(node.op, ops.Elementwise | ops.Broadcast):
            return None
        if node.outputs[0].shape != first.order.shape:
            return None
        operands: list[Value] = []
        for value in inputs:
            other = self.images.get(value)
            operand = None
            if other is not None and other.order == first.order:
                operand = other.value
            elif isinstance(value, Constant):
                operand = _for_channels(value, first.order)
            if operand is None:
                return None
            operands.append(operand)
        return apply(node.op, *operands), first.order


def _for_channels(value: Constant, order: Planes | PixelShuffled) -> Constant | None:
    """Return numbers for channels as images need them; None if they differ within a channel."""
    rank = len(order.shape)
    full = (*[1] * (rank - value.type.ndim), *value.shape)
    if any(n != 1 for axis, n in enumerate(full) if axis != order.channel_axis):
        return None
    shape = order.numbers_shape(full[order.channel_axis])

    def make() -> Array:
        return order.numbers(value.array.reshape(-1)).reshape(shape)

    return Constant(type(value.type)(shape, value.dtype), make, value.name)
