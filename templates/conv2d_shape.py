"""The shape of a two-dimensional NCHW convolution, and its numpy reference."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from autotune import arg
from autotune.errors import TemplateError
from autotune.kernel import Argument

from .common import Array

INT32_MAX = 2**31 - 1


def pair(value: int | Sequence[int]) -> tuple[int, int]:
    """Return ``value`` for both directions: an int or a pair (y, x)."""
    if isinstance(value, int):
        return value, value
    if len(value) != 2:
        raise TemplateError(f"conv2d_nchw: expected an int or a pair (y, x), got {value!r}")
    return int(value[0]), int(value[1])


@dataclass(frozen=True)
class Conv2d:
    """A convolution of ``n`` images without dilation or groups; extents as in its arguments.

    What follows the sum: ``(sum + bias + residual) * scale + shift``, then a ReLU. Bias, scale and
    shift have a number a channel, the residual is as large as the output.
    """

    n: int
    h: int
    w: int
    co: int
    ci: int
    kh: int
    kw: int
    stride: tuple[int, int]
    padding: tuple[int, int]
    bias: bool
    relu: bool
    residual: bool = False
    affine: bool = False

    def __post_init__(self) -> None:
        extents = (self.n, self.h, self.w, self.co, self.ci, self.kh, self.kw, *self.stride)
        if min(extents) < 1 or min(self.padding) < 0:
            raise TemplateError(
                f"conv2d_nchw: extents and strides must be at least 1 and paddings 0, got {self}"
            )
        if self.oh < 1 or self.ow < 1:
            raise TemplateError(
                f"conv2d_nchw: a {self.kh}x{self.kw} filter does not fit into the "
                f"{self.h}x{self.w} image with padding {self.padding}"
            )
        weights = self.co * self.ci * self.taps
        largest = max(self.n * self.ci * self.h * self.w, self.outputs, weights)
        if largest > INT32_MAX:
            raise TemplateError(
                f"conv2d_nchw: kernels index up to {INT32_MAX} elements, an array has {largest}"
            )

    @property
    def oh(self) -> int:
        """Output rows."""
        return (self.h + 2 * self.padding[0] - self.kh) // self.stride[0] + 1

    @property
    def ow(self) -> int:
        """Output columns."""
        return (self.w + 2 * self.padding[1] - self.kw) // self.stride[1] + 1

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
        return 2 * self.outputs * self.ci * self.taps

    @property
    def bytes(self) -> int:
        """Bytes that must move at least once."""
        a_channel = self.ci * self.taps + self.bias + 2 * self.affine
        read = self.n * self.ci * self.h * self.w + self.co * a_channel
        return 4 * (read + self.outputs * (1 + self.residual))

    def arguments(self) -> list[Argument]:
        """Return data, weight, those of bias, residual, scale and shift that are, and out."""
        result = (self.n, self.co, self.oh, self.ow)
        return [
            arg("data", (self.n, self.ci, self.h, self.w)),
            arg("weight", (self.co, self.ci, self.kh, self.kw)),
            *([arg("bias", (self.co,))] if self.bias else []),
            *([arg("residual", result)] if self.residual else []),
            *([arg(name, (self.co,)) for name in ("scale", "shift")] if self.affine else []),
            arg("out", result, role="out"),
        ]

    def reference(self) -> Callable[..., Array]:
        """Return numpy in, numpy out: the arguments but for the last."""

        def conv2d(data: Array, weight: Array, *rest: Array) -> Array:
            others = list(rest)
            (py, px), (sy, sx) = self.padding, self.stride
            padded = np.pad(data, ((0, 0), (0, 0), (py, py), (px, px)))
            windows = np.lib.stride_tricks.sliding_window_view(
                padded, (self.kh, self.kw), axis=(2, 3)
            )[:, :, ::sy, ::sx]
            columns = windows.transpose(0, 2, 3, 1, 4, 5).reshape(-1, self.ci * self.taps)
            flat = columns @ weight.reshape(self.co, -1).T
            out = flat.reshape(self.n, self.oh, self.ow, self.co).transpose(0, 3, 1, 2)
            if self.bias:
                out = out + others.pop(0).reshape(1, -1, 1, 1)
            if self.residual:
                out = out + others.pop(0)
            if self.affine:
                scale, shift = (each.reshape(1, -1, 1, 1) for each in others)
                out = out * scale + shift
            result: Array = np.maximum(out, 0) if self.relu else out
            return result

        return conv2d
