"""Convolutions of patches that do not overlap are products of matrices."""

from __future__ import annotations

import math

from autotune.graph import ops
from autotune.graph.passes.composing import GraphReader
from autotune.graph.value import Constant, Node, Value, apply


def patches(reader: GraphReader, node: Node, inputs: tuple[Value, ...]) -> Value | None:
    """Return the product that computes an NCHW convolution whose windows do not overlap.

    An example is the first layer of a vision transformer. Each patch becomes a row, transposed
    from the image. This pays if a template computes the product, but none the convolution.
    """
    op, data, weight = node.op, inputs[0], inputs[-1]
    if not isinstance(op, ops.Conv2d) or (op.data_layout, op.kernel_layout) != ("NCHW", "OIHW"):
        return None
    filters, channels, height, width = weight.shape
    side_by_side = op.steps == (height, width) and op.sides == ((0, 0), (0, 0))
    if not side_by_side or height * width == 1 or op.groups != 1 or op.holes != (1, 1):
        return None
    images, _, rows, columns = data.shape
    down, across = rows // height, columns // width
    if not isinstance(weight, Constant) or (down * height, across * width) != (rows, columns):
        return None
    depth = math.prod(weight.shape[1:])

    def reshape(value: Value, *shape: int) -> Value:
        return apply(ops.Reshape(shape), value)

    apart = reshape(data, images, channels, down, height, across, width)
    transposed = apply(ops.Transpose((0, 2, 4, 1, 3, 5)), apart)
    product = reader.composed(
        ops.Dense(), reshape(transposed, -1, depth), reshape(weight, filters, depth)
    )
    if product is None or reader.composed(op, data, weight) is not None:
        return None
    seen = apply(ops.Transpose((0, 2, 1)), reshape(product, images, down * across, filters))
    return reshape(seen, *node.output.shape)
