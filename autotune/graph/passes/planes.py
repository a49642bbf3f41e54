"""3-D convolutions as 2-D ones: the planes that a filter covers become channels."""

from __future__ import annotations

from dataclasses import dataclass

from autotune.graph import ops
from autotune.graph.passes.fold_constant import folded
from autotune.graph.types import Array
from autotune.graph.value import Constant, Node, Value, apply

_FIRST = "NCDHW"
Shape = tuple[int, ...]


@dataclass(frozen=True)
class Planes:
    """Planes of volumes, one after another as images.

    Attributes:
        shape: of the volumes, [batch, channels, depth, height, width] or with the channels last.
        channels_first: which of the two.
        flat: whether an image is a whole volume instead, of which two axes are one.
    """

    shape: Shape
    channels_first: bool
    flat: bool = False

    @property
    def channel_axis(self) -> int:
        """Dimension of the volumes."""
        return 1 if self.channels_first else 4

    def numbers_shape(self, count: int) -> Shape:
        """Return the shape of so many numbers, one for each channel or one for all, of images."""
        return (count, 1, 1) if self.channels_first else (count,)

    def numbers(self, numbers: Array) -> Array:
        """Return numbers for the channels of volumes as those of images: the same."""
        return numbers

    def restored(self, images: Value) -> Value:
        """Return the volumes of planes."""
        if not self.channels_first or self.flat:
            return apply(ops.Reshape(self.shape), images)
        n, channels, depth, height, width = self.shape
        apart = ops.Reshape((n, depth, channels, height, width))
        return apply(ops.Transpose((0, 2, 1, 3, 4)), apply(apart, images))


def as_planes(node: Node, inputs: tuple[Value, ...]) -> tuple[Value, Planes] | None:
    """Return what a convolution of volumes computes by one of images; None if it cannot be.

    Where filters see one element of two axes that follow one another, these are one axis, and the
    volume is convolved without a copy. Else planes are copied side by side.

    Args:
        node: of an `ops.Conv3d`.
        inputs: data and weight; the latter has to be known.
    """
    op, (data, weight) = node.op, inputs
    assert isinstance(op, ops.Conv3d)
    first = op.data_layout == _FIRST
    if not isinstance(weight, Constant) or (op.groups > 1 and not first):
        return None
    joined = _joined(op, weight.shape[2:] if first else weight.shape[:3])
    order = Planes(node.outputs[0].shape, first, joined is not None)
    if joined is None:
        images = _side_by_side(op, data, weight.shape[2 if first else 0], order)
        filters = _filters(weight, first)
    else:
        shape = _without(data.shape, joined + (2 if first else 1))
        images = apply(ops.Reshape(shape), data)
        shape = _without(weight.shape, joined + (2 if first else 0))
        filters = _folded(ops.Reshape(shape), weight)
    y, x = (0, 2) if joined == 1 else (1, 2)
    (top, bottom), (left, right) = op.sides[y], op.sides[x]
    conv = ops.Conv2d(
        strides=(op.steps[y], op.steps[x]),
        padding=(top, left, bottom, right),
        dilation=(op.holes[y], op.holes[x]),
        groups=op.groups,
        data_layout="NCHW" if first else "NHWC",
        kernel_layout="OIHW" if first else "HWIO",
    )
    return apply(conv, images, filters), order


def _joined(op: ops.Conv3d, taps: Shape) -> int | None:
    """Return the first of two axes, of depth, height and width, of which filters see one element.

    They leave out none of these, and none is added; None: there are no such two.
    """
    still = [taps[axis] == op.steps[axis] == 1 and op.sides[axis] == (0, 0) for axis in range(3)]
    return next((axis for axis in range(2) if still[axis] and still[axis + 1]), None)


def _without(shape: Shape, axis: int) -> Shape:
    """Return a shape in which an axis and the one behind it are one."""
    return (*shape[:axis], shape[axis] * shape[axis + 1], *shape[axis + 2 :])


def _filters(weight: Constant, first: bool) -> Constant:
    """Return filters of images, whose channels are those of the planes that a filter sees."""
    if first:
        out, channels, deep, height, width = weight.shape
        return _folded(ops.Reshape((out, channels * deep, height, width)), weight)
    deep, height, width, channels, out = weight.shape
    transposed = _folded(ops.Transpose((1, 2, 0, 3, 4)), weight)
    return _folded(ops.Reshape((height, width, deep * channels, out)), transposed)


def _folded(op: ops.Reshape | ops.Transpose, value: Constant) -> Constant:
    return folded(Node(op, (value,), ""), [value])


def _side_by_side(op: ops.Conv3d, data: Value, taps: int, order: Planes) -> Value:
    """Return an image for each plane of the result: the planes that a filter sees, as channels."""
    first, axis = order.channels_first, 2 if order.channels_first else 1
    before, after = op.sides[0]
    if before or after:
        around = tuple([op.sides[0] if i == axis else (0, 0) for i in range(5)])
        data = apply(ops.Pad(around), data)
    depth, step, hole = order.shape[axis], op.steps[0], op.holes[0]
    seen = []
    for tap in range(taps):
        begin = (*[0] * axis, tap * hole)
        end = (*data.shape[:axis], tap * hole + (depth - 1) * step + 1)
        part = ops.StridedSlice(begin, end, (*[1] * axis, step))
        seen.append(apply(part, data))
    if first:
        n, channels, _, height, width = data.shape
        stacked = apply(ops.Stack(2), *seen)
        transposed = apply(ops.Transpose((0, 3, 1, 2, 4, 5)), stacked)
        shape = (n * depth, channels * taps, height, width)
        return apply(ops.Reshape(shape), transposed)
    n, _, height, width, channels = data.shape
    stacked = apply(ops.Stack(4), *seen)
    return apply(ops.Reshape((n * depth, height, width, taps * channels)), stacked)
