"""The shape of a two-dimensional NCHW convolution, and its numpy reference."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from autotune import arg
from autotune.errors import TemplateError
from autotune.kernel import Argument

from ..common import Array
from ..epilogue import Epilogue
from .window_shape import INT32_MAX, Window, four

OWNER = "conv2d_nchw"
# Rows from which on the last one may be partial, in `Conv2d.in_rows_of`.
MANY_ROWS = 64


@dataclass(frozen=True)
class Planes:
    """Planes of volumes that are images: those of a channel lie together, data as results.

    Attributes:
        data: planes that a channel of the data has.
        results: planes that a channel of the result has.
        taps: planes of each channel of the data that a plane of the result reads: of so many
            channels of its image each is.
        step: planes of the data from the first of one result to that of the next.
        before: planes of zeros before the data.
        dilation: planes of the data from one tap to the next.
    """

    data: int = 1
    results: int = 1
    taps: int = 1
    step: int = 1
    before: int = 0
    dilation: int = 1

    @property
    def padded(self) -> bool:
        """Whether planes are read that do not exist."""
        last = (self.results - 1) * self.step + (self.taps - 1) * self.dilation - self.before
        return self.before > 0 or last >= self.data

    def defines(self) -> dict[str, int]:
        """Return what ``volume_planes.h`` is parameterised by; nothing where images lie apart."""
        if self == Planes():
            return {}
        return {
            "data_planes": self.data, "result_planes": self.results, "plane_taps": self.taps,
            "plane_step": self.step, "planes_before": self.before,
            "plane_dilation": self.dilation, "planes_padded": self.padded,
        }  # fmt: skip


@dataclass(frozen=True)
class Conv2d:
    """A convolution of ``n`` images; extents as in its arguments.

    Epilogue: ``(sum + bias + residual) * scale + shift``, then a ReLU or another activation. Bias,
    scale and shift are per channel, the residual has the shape of the output.

    Attributes:
        padding: (y, x), or (top, left, bottom, right).
        groups: of channels: the filters of a group read its input channels only.
        kept: whether ``sum + bias + residual`` is a result too, the first of two.
        shift: whether only a shift follows, without a scale.
        planes: of volumes, of which each result plane is an image; one where images lie apart.
    """

    n: int
    h: int
    w: int
    co: int
    ci: int
    kh: int
    kw: int
    stride: tuple[int, int]
    padding: tuple[int, ...]
    bias: bool
    relu: bool
    residual: bool = False
    affine: bool = False
    dilation: tuple[int, int] = (1, 1)
    groups: int = 1
    activation: str = "none"
    kept: bool = False
    shift: bool = False
    planes: Planes = Planes()

    def __post_init__(self) -> None:
        if min(self.n, self.h, self.w, self.co, self.ci, self.groups) < 1:
            raise TemplateError(f"{OWNER}: extents must be at least 1, got {self}")
        self.window.check(OWNER, self.h, self.w)
        if self.co % self.groups or self.ci % self.groups:
            raise TemplateError(f"{OWNER}: groups must divide co and ci, got {self}")
        if self.relu and self.activation != "none":
            raise TemplateError(f"{OWNER}: relu is an activation, another is given: {self}")
        weights = self.co * self.ci // self.groups * self.taps
        read = self.n * self.ci * self.h * self.w * self.planes.data // self.planes.results
        largest = max(read, self.outputs, weights)
        if largest > INT32_MAX:
            raise TemplateError(
                f"{OWNER}: kernels index up to {INT32_MAX} elements, an array has {largest}"
            )

    @cached_property
    def window(self) -> Window:
        """Extents, stride, padding and dilation of the filters."""
        padding = four(OWNER, self.padding)
        return Window((self.kh, self.kw), self.stride, padding, self.dilation)

    @cached_property
    def epilogue(self) -> Epilogue:
        """The epilogue."""
        activation = "relu" if self.relu else self.activation
        return Epilogue(
            self.bias, self.residual, self.affine, activation, 1.0, self.kept, self.shift
        )

    @cached_property
    def one_group(self) -> Conv2d:
        """The same convolution with each group of each image as an image."""
        if self.groups == 1:
            return self
        g = self.groups
        return replace(self, n=self.n * g, co=self.co // g, ci=self.ci // g, groups=1)

    @cached_property
    def flat(self) -> Conv2d:
        """The same pointwise convolution on images of one row; others as they are.

        Tiles then need not end at the end of each row.
        """
        return self.in_rows_of(self.h * self.w)

    def in_rows_of(self, pixels: int) -> Conv2d:
        """Return the same pointwise convolution with rows of ``pixels``, if these divide it.

        The last row of a large image may be partial.
        """
        own = self.taps == 1 and self.stride == (1, 1) and not any(self.window.padding)
        rows, left = divmod(self.h * self.w, pixels)
        whole = not left or rows >= MANY_ROWS
        return replace(self, h=rows + (left > 0), w=pixels) if own and whole else self

    def in_rows_of_dilation(self, columns: int) -> Conv2d:
        """Return a dilated line as a dense convolution along the columns of an image.

        A row of the image is as long as the dilation, so that the taps of a pixel are one below
        the other: the same memory, read as [length / dilation, dilation], where the last row may
        be partial. Other shapes are returned as they are, and so are lines of which so short rows
        would fill less than three quarters of tiles that are ``columns`` wide.
        """
        step, (top, left, bottom, _) = self.dilation[1], self.window.padding
        line = self.h == self.kh == 1 and top == bottom == 0 and self.stride == (1, 1)
        filled = 4 * step >= 3 * columns * -(-step // columns)
        if not (line and self.kw > 1 and step > 1 and left % step == 0 and filled):
            return self
        rows, results = -(-self.w // step), -(-self.ow // step)
        below = results + self.kw - 1 - rows - left // step
        return replace(
            self, h=rows, w=step, kh=self.kw, kw=1, dilation=(1, 1),
            padding=(left // step, 0, below, 0),
        )  # fmt: skip

    def in_wrapped_rows(self, columns: int) -> Conv2d:
        """Return a line as an image with rows of ``columns`` results: the halo is in the next row.

        What is left and right of a row are the elements before and after it in memory. Other
        shapes are returned as they are, and so are lines with more padding than taps.
        """
        (_, sx), (top, left, bottom, _), reach = (
            self.stride,
            self.window.padding,
            self.window.reach,
        )
        line = self.h == self.kh == 1 and top == bottom == 0
        if not (line and self.kw > 1 and left < reach[1]):
            return self
        return replace(
            self, h=-(-self.ow // columns), w=columns * sx, stride=(1, sx),
            padding=(0, left, 0, reach[1] - 1 - left),
        )  # fmt: skip

    @cached_property
    def alone(self) -> Conv2d:
        """The convolution without epilogue, on which the best tiles hardly depend."""
        return replace(
            self, bias=False, relu=False, residual=False, affine=False, activation="none",
            kept=False, shift=False,
        )  # fmt: skip

    @cached_property
    def oh(self) -> int:
        """Output rows."""
        return self.window.results(self.h, self.w)[0]

    @cached_property
    def ow(self) -> int:
        """Output columns."""
        return self.window.results(self.h, self.w)[1]

    @property
    def outputs(self) -> int:
        """Elements of the output."""
        return self.n * self.co * self.oh * self.ow

    @property
    def taps(self) -> int:
        """Filter elements of one input channel."""
        return self.kh * self.kw

    @property
    def flop(self) -> int:
        """Multiplications and additions of the convolution itself."""
        return 2 * self.outputs * self.ci // self.groups * self.taps

    @property
    def bytes(self) -> int:
        """Bytes that must move at least once."""
        weights = self.co * self.ci // self.groups * self.taps
        read = self.n * self.ci * self.h * self.w + weights
        return 4 * (read + self.epilogue.elements(self.co, self.outputs) + self.outputs)

    def arguments(self) -> list[Argument]:
        """Return data, weight, operands of the epilogue, and results."""
        result = (self.n, self.co, self.oh, self.ow)
        return [
            arg("data", (self.n, self.ci, self.h, self.w)),
            arg("weight", (self.co, self.ci // self.groups, self.kh, self.kw)),
            *self.epilogue.arguments(self.co, result),
            *self.epilogue.results(result),
            arg("out", result, role="out"),
        ]

    def reference(self) -> Callable[..., Array | tuple[Array, Array]]:
        """Return numpy in, numpy out: the arguments but for the last."""

        def conv2d(data: Array, weight: Array, *others: Array) -> Array | tuple[Array, Array]:
            filters = np.split(weight, self.groups)
            images = np.split(data, self.groups, axis=1)
            parts = [self._convolved(x, w) for x, w in zip(images, filters, strict=True)]
            out = parts[0] if self.groups == 1 else np.concatenate(parts, axis=1)
            both = self.epilogue.both(out, others, 1)
            return both if self.kept else both[1]

        return conv2d

    def _convolved(self, data: Array, weight: Array) -> Array:
        """Return the sums of one group, by a product of matrices."""
        top, left, bottom, right = self.window.padding
        (sy, sx), (dy, dx) = self.stride, self.dilation
        padded = np.pad(data, ((0, 0), (0, 0), (top, bottom), (left, right)))
        windows = np.lib.stride_tricks.sliding_window_view(padded, self.window.reach, axis=(2, 3))[
            :, :, ::sy, ::sx, ::dy, ::dx
        ]
        columns = windows.transpose(0, 2, 3, 1, 4, 5).reshape(-1, weight[0].size)
        flat = columns @ weight.reshape(len(weight), -1).T
        sums: Array = flat.reshape(self.n, self.oh, self.ow, len(weight)).transpose(0, 3, 1, 2)
        return sums
