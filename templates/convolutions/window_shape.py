"""Shapes of depthwise convolution and pooling, and their numpy references."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import index
from typing import ClassVar

import numpy as np

from autotune import arg
from autotune.errors import TemplateError
from autotune.kernel import Argument

from ..common import Array
from ..epilogue import Epilogue
from ..rows.rows_shape import DTYPES

INT32_MAX = 2**31 - 1
# Bytes of elements.
TYPES = {**DTYPES, "int8": 1, "uint8": 1}
# Products of 8-bit integers whose sum is exact in float32.
MOST_TAPS = 2**24 // 128**2
LAYOUTS = ("NCHW", "NHWC")


def two(owner: str, value: int | Sequence[int]) -> tuple[int, int]:
    """Return ``value`` for both directions: an int or a pair (y, x)."""
    numbers = _whole_numbers(value)
    if len(numbers) == 1:
        numbers *= 2
    if len(numbers) != 2:
        raise TemplateError(f"{owner}: expected an int or a pair (y, x), got {value!r}")
    y, x = numbers
    return y, x


def four(owner: str, value: int | Sequence[int]) -> tuple[int, int, int, int]:
    """Return padding (top, left, bottom, right) from an int, a pair (y, x), or all four."""
    numbers = _whole_numbers(value)
    if len(numbers) in (1, 2):
        numbers *= 4 // len(numbers)
    if len(numbers) != 4:
        raise TemplateError(
            f"{owner}: padding must be an int, a pair (y, x) or (top, left, bottom, right), "
            f"got {value!r}"
        )
    top, left, bottom, right = numbers
    return top, left, bottom, right


def _whole_numbers(value: int | Sequence[int]) -> list[int]:
    """Return the given integers as a list, which is empty for anything else."""
    given = list(value) if isinstance(value, Sequence) else [value]
    try:
        return [] if bool in map(type, given) else [index(each) for each in given]
    except TypeError:
        return []


@dataclass(frozen=True)
class Window:
    """Extents, stride, padding and dilation of a sliding window, each (y, x)."""

    size: tuple[int, int]
    stride: tuple[int, int] = (1, 1)
    padding: tuple[int, int, int, int] = (0, 0, 0, 0)
    dilation: tuple[int, int] = (1, 1)

    @property
    def reach(self) -> tuple[int, int]:
        """Rows and columns that a window spans, with dilation."""
        (ky, kx), (dy, dx) = self.size, self.dilation
        return (ky - 1) * dy + 1, (kx - 1) * dx + 1

    @property
    def taps(self) -> int:
        """Elements of a window."""
        return self.size[0] * self.size[1]

    def results(self, h: int, w: int) -> tuple[int, int]:
        """Return output rows and columns for an image of ``h`` by ``w``."""
        (top, left, bottom, right), (ry, rx) = self.padding, self.reach
        sy, sx = self.stride
        return (h + top + bottom - ry) // sy + 1, (w + left + right - rx) // sx + 1

    def check(self, owner: str, h: int, w: int) -> None:
        """Raise `TemplateError` for invalid windows, or those larger than the padded image."""
        if min(*self.size, *self.stride, *self.dilation) < 1 or min(self.padding) < 0:
            raise TemplateError(
                f"{owner}: extents, strides and dilations must be at least 1 and paddings 0, "
                f"got {self}"
            )
        if min(self.results(h, w)) < 1:
            size = f"{self.size[0]}x{self.size[1]}"
            raise TemplateError(
                f"{owner}: a {size} filter does not fit into the {h}x{w} image with padding "
                f"{self.padding} and dilation {self.dilation}"
            )

    def patches(self, images: Array) -> Array:
        """Return what windows of NCHW images, padded by 0, hold: [n, c, oh, ow, ky, kx]."""
        top, left, bottom, right = self.padding
        (sy, sx), (dy, dx) = self.stride, self.dilation
        padded = np.pad(images, ((0, 0), (0, 0), (top, bottom), (left, right)))
        reach = ((self.size[0] - 1) * dy + 1, (self.size[1] - 1) * dx + 1)
        found: Array = np.lib.stride_tricks.sliding_window_view(padded, reach, axis=(2, 3))
        return found[:, :, ::sy, ::sx, ::dy, ::dx]

    def views(self, images: Array, nothing: float) -> Iterator[tuple[int, int, Array]]:
        """Yield (ky, kx, elements) of all windows of NCHW images; ``nothing`` is the padding."""
        top, left, bottom, right = self.padding
        (sy, sx), (dy, dx) = self.stride, self.dilation
        oh, ow = self.results(*images.shape[2:])
        sides = ((0, 0), (0, 0), (top, bottom), (left, right))
        padded = np.pad(images, sides, constant_values=nothing)
        for ky in range(self.size[0]):
            for kx in range(self.size[1]):
                rows = slice(ky * dy, ky * dy + (oh - 1) * sy + 1, sy)
                columns = slice(kx * dx, kx * dx + (ow - 1) * sx + 1, sx)
                yield ky, kx, padded[:, :, rows, columns]


@dataclass(frozen=True)
class Windows:
    """Common to depthwise convolution and pooling: images and windows."""

    # Its name in messages, and its number in kernels; bytes of the elements that it may have.
    owner: ClassVar[str] = "windows"
    operation: ClassVar[int] = 0
    types: ClassVar[Mapping[str, int]] = TYPES
    # No field: pooling has none, and depthwise convolutions have a field for theirs.
    epilogue = Epilogue()

    n: int
    h: int
    w: int
    channels: int
    window: Window
    layout: str = "NCHW"
    dtype: str = field(default="float32", kw_only=True)

    def __post_init__(self) -> None:
        if self.dtype not in self.types:
            raise TemplateError(
                f"{self.owner}: dtype must be one of {', '.join(self.types)}, got {self.dtype!r}"
            )
        if self.layout not in LAYOUTS:
            raise TemplateError(f"{self.owner}: layout must be NCHW or NHWC, got {self.layout!r}")
        if min(self.n, self.h, self.w, self.channels, self.multiplier) < 1:
            raise TemplateError(f"{self.owner}: extents must be at least 1, got {self}")
        self.window.check(self.owner, self.h, self.w)
        top, left, bottom, right = self.window.padding
        padded = (self.h + top + bottom) * (self.w + left + right) * self.channels
        largest = max(self.n * self.channels * self.h * self.w, self.outputs, padded)
        if largest > INT32_MAX:
            raise TemplateError(
                f"{self.owner}: kernels index up to {INT32_MAX} elements, "
                f"{'an image with its padding' if largest == padded else 'an array'} has {largest}"
            )

    @property
    def element_bytes(self) -> int:
        """Bytes of an element."""
        return self.types[self.dtype]

    @property
    def multiplier(self) -> int:
        """Output channels of an input channel."""
        return 1

    @property
    def oh(self) -> int:
        """Output rows."""
        return self.window.results(self.h, self.w)[0]

    @property
    def ow(self) -> int:
        """Output columns."""
        return self.window.results(self.h, self.w)[1]

    @property
    def co(self) -> int:
        """Output channels."""
        return self.channels * self.multiplier

    @property
    def outputs(self) -> int:
        """Elements of the output."""
        return self.n * self.co * self.oh * self.ow

    def images(self, channels: int, h: int, w: int) -> tuple[int, int, int, int]:
        """Return the extents of images in this layout."""
        return (self.n, channels, h, w) if self.layout == "NCHW" else (self.n, h, w, channels)

    def as_nchw(self, images: Array) -> Array:
        """Return images of this layout as NCHW."""
        return images if self.layout == "NCHW" else images.transpose(0, 3, 1, 2)

    def as_laid_out(self, images: Array) -> Array:
        """Return NCHW images in this layout."""
        return images if self.layout == "NCHW" else images.transpose(0, 2, 3, 1)


@dataclass(frozen=True)
class Depthwise(Windows):
    """A convolution of each channel by ``multiplier`` filters of its own.

    Filters are (channels, multiplier, kh, kw) of NCHW images, and (kh, kw, channels, multiplier)
    of NHWC ones, as in TVM.
    """

    owner: ClassVar[str] = "depthwise_conv2d"
    types: ClassVar[Mapping[str, int]] = {k: v for k, v in TYPES.items() if k != "uint8"}

    filters: int = 1
    epilogue: Epilogue = field(default_factory=Epilogue)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.dtype != "int8":
            return
        if self.epilogue != Epilogue():
            raise TemplateError(
                f"{self.owner}: of int8 sums are stored as they are, so there can be no bias, "
                f"residual, scale or activation, got {self.epilogue}: apply it to the result"
            )
        if self.window.taps > MOST_TAPS:
            raise TemplateError(
                f"{self.owner}: filters of int8 may have {MOST_TAPS} elements, got {self.window}"
            )

    @property
    def multiplier(self) -> int:
        """Output channels of an input channel."""
        return self.filters

    @property
    def result_dtype(self) -> str:
        """Type of the result: sums of 8-bit integers have 32 bits."""
        return "int32" if self.dtype == "int8" else self.dtype

    @property
    def flop(self) -> int:
        """Multiplications and additions of the convolution itself."""
        return 2 * self.outputs * self.window.taps

    @property
    def bytes(self) -> int:
        """Bytes that must move at least once."""
        read = self.n * self.channels * self.h * self.w + self.co * self.window.taps
        others = self.epilogue.elements(self.co, self.outputs)
        written = self.outputs * (4 if self.dtype == "int8" else self.element_bytes)
        return self.element_bytes * (read + others) + written

    def arguments(self) -> list[Argument]:
        """Return data, weight, what the epilogue takes, and out."""
        each, taps = (self.channels, self.multiplier), self.window.size
        weight = (*each, *taps) if self.layout == "NCHW" else (*taps, *each)
        result = self.images(self.co, self.oh, self.ow)
        return [
            arg("data", self.images(self.channels, self.h, self.w), self.dtype),
            arg("weight", weight, self.dtype),
            *self.epilogue.arguments(self.co, result, self.dtype),
            arg("out", result, self.result_dtype, role="out"),
        ]

    def reference(self) -> Callable[..., Array]:
        """Return numpy in, numpy out: the arguments but for the last; sums are in float32."""

        def summed(images: Array, filters: Array) -> Array:
            # One operation instead of one for each tap: errors are bounded for each operation.
            sums: Array = np.einsum("ncyxuv,cmuv->ncmyx", self.window.patches(images), filters)
            return sums.reshape(len(images), sums.shape[1] * self.multiplier, self.oh, self.ow)

        def depthwise(data: Array, weight: Array, *others: Array) -> Array:
            images, filters, *operands = (_wide(each) for each in (data, weight, *others))
            filters = filters if self.layout == "NCHW" else filters.transpose(2, 3, 0, 1)
            sums = _in_parts(self.as_nchw(images), self.flop // (2 * self.n), summed, filters)
            out = self.as_laid_out(sums)
            channel = 1 if self.layout == "NCHW" else 3
            result = self.epilogue.apply(out, tuple(operands), channel)
            return result.astype("int32" if data.dtype == np.int8 else data.dtype)

        return depthwise


# Products that are summed at a time, which a core's caches hold; and the most parts of a result.
_PRODUCTS, _PARTS = 1 << 18, 1 << 10


def _in_parts(
    images: Array, products: int, of: Callable[[Array, Array], Array], filters: Array
) -> Array:
    """Return what a function gives for NCHW images, a few of them or of their channels at a time.

    Args:
        products: number of them that an image takes.
        of: of some images, and of the filters of their channels.
        filters: of all channels, which are the first axis.
    """
    n, channels = images.shape[:2]
    most = max(_PRODUCTS, n * products // _PARTS)
    number = min(max(most // max(products, 1), 1), n)
    width = min(max(most * channels // max(products, 1), 1), channels)
    rows = []
    for first in range(0, n, number):
        some = images[first : first + number]
        parts = [
            of(some[:, at : at + width], filters[at : at + width])
            for at in range(0, channels, width)
        ]
        rows.append(parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1))
    return rows[0] if len(rows) == 1 else np.concatenate(rows)


def _wide(x: Array) -> Array:
    """Return numbers as float32 at least."""
    wide: Array = x.astype(np.float64 if x.dtype == np.float64 else np.float32)
    return wide


KINDS = ("depthwise", "max", "avg")


@dataclass(frozen=True)
class Pool(Windows):
    """The maximum (``"max"``) or average (``"avg"``) of each window.

    An average divides by the number of elements within the image, or, with ``count_padding``, by
    all; of 8-bit integers it is rounded to the nearest, halves to even.
    """

    owner: ClassVar[str] = "pool2d"

    kind: str = "max"
    count_padding: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.kind not in KINDS[1:]:
            raise TemplateError(f"pool2d: kind must be max or avg, got {self.kind!r}")

    @property
    def flop(self) -> int:
        """Comparisons or additions."""
        return self.outputs * self.window.taps

    @property
    def bytes(self) -> int:
        """Bytes that must move at least once."""
        read = self.n * self.channels * self.h * self.w
        return self.element_bytes * (read + self.outputs)

    def arguments(self) -> list[Argument]:
        """Return data and out."""
        result = self.images(self.co, self.oh, self.ow)
        return [
            arg("data", self.images(self.channels, self.h, self.w), self.dtype),
            arg("out", result, self.dtype, role="out"),
        ]

    def reference(self) -> Callable[..., Array]:
        """Return numpy in, numpy out."""

        def pool(data: Array) -> Array:
            images = self.as_nchw(_wide(data))
            largest = self.kind == "max"
            lowest = np.iinfo(data.dtype).min if data.dtype.kind in "iu" else -np.inf
            views = [v for *_, v in self.window.views(images, lowest if largest else 0.0)]
            if largest:
                return self.as_laid_out(functools.reduce(np.maximum, views)).astype(data.dtype)
            counts: Array | int = self.window.taps
            if not self.count_padding:
                ones = np.ones((1, 1, self.h, self.w), images.dtype)
                inside = [v for *_, v in self.window.views(ones, 0.0)]
                counts = np.maximum(np.sum(inside, axis=0), 1)
            averages = functools.reduce(np.add, views) / counts
            averages = np.rint(averages) if self.element_bytes == 1 else averages
            return self.as_laid_out(averages).astype(data.dtype)

        return pool
