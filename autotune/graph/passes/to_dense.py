"""Rewrites convolutions of images of one pixel as products of matrices.

Networks that weigh channels by their means ("squeeze and excitation", Hu et al., 2018) convolve
such images. A row of numbers by a matrix has kernels of its own, which read the weights once; a
convolution would compute tiles of pixels that are not there.
"""

from __future__ import annotations

from autotune.graph import ops
from autotune.graph.graph import Graph
from autotune.graph.passes.fold_constant import folded
from autotune.graph.value import Constant, Node, Value, apply


def to_dense(graph: Graph) -> Graph:
    """Multiply channels by the weights of a 1x1 convolution whose images have one pixel.

    Weights must be constants, unless their layout is that of a product.
    """
    return graph.rewrite(_as_product)


def _as_product(node: Node, inputs: tuple[Value, ...]) -> Value | None:
    op, origin = node.op, node.origin
    if not isinstance(op, ops.Conv2d) or op.groups != 1 or any(map(any, op.sides)):
        return None
    data, weight = inputs
    pixels = [data.shape[op.data_layout.index(axis)] for axis in "HW"]
    taps = [weight.shape[op.kernel_layout.index(axis)] for axis in "HW"]
    if [*pixels, *taps] != [1] * 4 or node.output.dtype != data.dtype:
        return None
    outputs, channels = (weight.shape[op.kernel_layout.index(axis)] for axis in "OI")
    matrix = _matrix(weight, op.kernel_layout, (outputs, channels), origin)
    if matrix is None:
        return None
    rows = apply(ops.Reshape((data.type.size // channels, channels)), data, origin=origin)
    product = apply(ops.Dense(), rows, matrix, origin=origin)
    return apply(ops.Reshape(node.output.shape), product, origin=origin)


def _matrix(weight: Value, layout: str, shape: tuple[int, int], origin: str) -> Value | None:
    """Return filters of one tap as a matrix, a row for each output."""
    if layout.index("O") > layout.index("I"):
        if not isinstance(weight, Constant):
            return None
        order = (*[layout.index(axis) for axis in "OI"], *[layout.index(axis) for axis in "HW"])
        weight = folded(Node(ops.Transpose(order), (weight,), origin), [weight])
    node = Node(ops.Reshape(shape), (weight,), origin)
    return folded(node, [weight]) if isinstance(weight, Constant) else node.output
