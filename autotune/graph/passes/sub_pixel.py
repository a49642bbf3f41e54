"""Transposed convolutions as sub-pixel convolutions: one plain convolution for all phases.

Of stride s, result y = s Y + p reads data Y + d and tap p + padding - s d, for each offset d for
which there is such a tap. For each of the s phases p that is a convolution of stride 1 by filters
of every s-th tap, so the phases are channels of one convolution, whose results are interleaved (W.
Shi et al., "Is the deconvolution layer the same as a convolutional layer?", 2016). Zeros between
elements are not multiplied; filters of a phase have zeros where another phase has taps: 36 for the
16 taps of 4x4 with stride 2, where zeros between elements would make it 64.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from autotune.graph import ops
from autotune.graph.types import Array, TensorType
from autotune.graph.value import Constant, Node, Value, apply
from autotune.utils.math import ceil_div

Pair = tuple[int, int]


@dataclass(frozen=True)
class PixelShuffled:
    """NCHW images before a pixel shuffle (depth to space): each phase is a channel of its own.

    Attributes:
        shape: of the whole images, [batch, channels, height, width].
        strides: phases of rows, and of columns; a channel has images for all pairs of them.
    """

    shape: tuple[int, ...]
    strides: Pair
    channel_axis: int = 1

    def numbers_shape(self, count: int) -> tuple[int, ...]:
        """Return the shape of numbers for so many channels, or one for all, of the phases."""
        return (1 if count == 1 else count * self.strides[0] * self.strides[1], 1, 1)

    def numbers(self, numbers: Array) -> Array:
        """Return a number for each phase of each channel; one for all stays one."""
        several: Array = np.repeat(numbers, self.strides[0] * self.strides[1])
        return numbers if numbers.size == 1 else several

    def restored(self, images: Value) -> Value:
        """Return the whole images: the pixel shuffle of the phases, cut to the shape."""
        n, channels = self.shape[:2]
        (sy, sx), (rows, columns) = self.strides, images.shape[2:]
        apart = ops.Reshape((n, channels, sy, sx, rows, columns))
        interleaved = ops.Transpose((0, 1, 4, 2, 5, 3))
        whole = ops.Reshape((n, channels, rows * sy, columns * sx))
        for op in (apart, interleaved, whole):
            images = apply(op, images)
        if images.shape == self.shape:
            return images
        return apply(ops.StridedSlice((0, 0, 0, 0), self.shape), images)


@dataclass(frozen=True)
class PhaseAxis:
    """The convolution along one axis.

    Attributes:
        first: the least offset from a result's place among those of its phase to what it reads.
        taps: of the filters of all phases.
        padding: before and after.
    """

    first: int
    taps: int
    padding: Pair

    @staticmethod
    def of(extent: int, out: int, taps: int, step: int, cut: int) -> PhaseAxis:
        """Return it for so many elements of data and of a result, some of which are cut off."""
        first = -((taps - 1 - cut) // step)
        count = (step - 1 + cut) // step - first + 1
        after = ceil_div(out, step) - extent + first + count - 1
        return PhaseAxis(first, count, (-first, after))

    def source(self, phase: int, tap: int, step: int, cut: int) -> int:
        """Return which tap of the transposed filter is this one of a phase's filter."""
        return phase + cut - step * (tap + self.first)


def as_sub_pixel(node: Node, inputs: tuple[Value, ...]) -> tuple[Value, PixelShuffled] | None:
    """Return what a transposed convolution computes by a plain one; None if it cannot be.

    Args:
        node: of an `ops.Conv2dTranspose`.
        inputs: data and weight; the latter has to be known.
    """
    op, (data, weight) = node.op, inputs
    assert isinstance(op, ops.Conv2dTranspose)
    if not isinstance(weight, Constant):
        return None
    (sy, sx), (rows, columns), _ = op.moves
    shape = node.outputs[0].shape
    y = PhaseAxis.of(data.shape[2], shape[2], weight.shape[2], sy, rows[0])
    x = PhaseAxis.of(data.shape[3], shape[3], weight.shape[3], sx, columns[0])
    # More is cut off than filters reach beyond the data.
    if min(*y.padding, *x.padding) < 0:
        return None
    out = (weight.shape[1] * sy * sx, weight.shape[0], y.taps, x.taps)

    def make() -> Array:
        return _phases(weight.array, (y, x), (sy, sx), (rows[0], columns[0])).reshape(out)

    filters = Constant(TensorType(out, weight.dtype), make, weight.name)
    conv = ops.Conv2d(padding=(y.padding[0], x.padding[0], y.padding[1], x.padding[1]))
    return apply(conv, data, filters), PixelShuffled(shape, (sy, sx))


def _phases(weight: Array, axes: tuple[PhaseAxis, PhaseAxis], steps: Pair, cut: Pair) -> Array:
    """Return filters [out, phase, phase, in, tap, tap] of those of a transposed convolution."""
    (y, x), (ci, co, kh, kw) = axes, weight.shape
    filters = np.zeros((co, *steps, ci, y.taps, x.taps), weight.dtype)
    for py, px, ty, tx in np.ndindex(*steps, y.taps, x.taps):
        row, column = y.source(py, ty, steps[0], cut[0]), x.source(px, tx, steps[1], cut[1])
        if 0 <= row < kh and 0 <= column < kw:
            filters[:, py, px, :, ty, tx] = weight[:, :, row, column].T
    return filters
