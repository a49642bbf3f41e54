"""NHWC convolutions of 16-bit floats with odd numbers of channels, by padded copies.

Tensor core kernels copy whole 32-bit words, so the channels of a pixel must be even. Where they
are not (RGB images), a kernel first pads images and filters with zeros to a multiple of 8
channels; the product writes unpadded results.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from autotune import SourceKernel, Target, workspace

from .. import common
from ..products import gemm_mma, gemm_padded
from .conv2d_nhwc import Conv2dNhwc


def is_needed(shape: Conv2dNhwc) -> bool:
    """Return whether pixels of images or of results are not aligned to 4 bytes."""
    return shape.ci % 2 > 0 or shape.co % 2 > 0


def padded(shape: Conv2dNhwc) -> Conv2dNhwc:
    """Return the shape of the padded convolution."""
    ci = shape.ci + -shape.ci % 8 * (shape.ci % 2)
    return replace(shape, ci=ci, co=8 * common.ceil_div(shape.co, 8))


def candidates(shape: Conv2dNhwc) -> dict[str, list[int]]:
    """Return the values each knob may take."""
    return gemm_mma.candidates(padded(shape))


def violation(shape: Conv2dNhwc, choice: Mapping[str, int], target: Target) -> str | None:
    """Return why a choice cannot run, or None."""
    return gemm_mma.violation(padded(shape), choice, target)


def estimate(shape: Conv2dNhwc, choice: Mapping[str, int], target: Target) -> float:
    """Return a rough number of cycles."""
    return gemm_mma.estimate(padded(shape), choice, target)


def default_choice(shape: Conv2dNhwc, target: Target) -> dict[str, int]:
    """Return the choice to use where nothing was tuned."""
    return gemm_mma.default_choice(padded(shape), target)


def kernel(shape: Conv2dNhwc, choice: Mapping[str, int]) -> SourceKernel:
    """Return the kernels of a choice: padding and the product."""
    whole = padded(shape)
    source = gemm_mma.kernel(whole, choice, shape)
    pixels = shape.images * shape.h * shape.w
    sizes = {"data": pixels * whole.ci} if whole.ci > shape.ci else {}
    sizes |= {"weight": shape.window.taps * whole.ci * whole.co}
    copies = gemm_padded.copy(sizes)
    calls = [replace(one, args=tuple(_copied(n) if n in sizes else n for n in one.args))
             for one in source.calls]  # fmt: skip
    sides = common.defines(
        pad_a="data" in sizes, pad_b=True, a_count=1, a_rows=pixels, a_all=pixels,
        a_row=shape.ci, a_long=whole.ci, b_count=shape.window.taps, b_rows=shape.ci,
        b_all=whole.ci, b_row=shape.co, b_long=whole.co,
    )  # fmt: skip
    return replace(
        source,
        name=copies.entry,
        source=f"{source.source}\n{common.text('dependent_launch.h', 'pad.cu')}",
        defines={**source.defines, **sides},
        calls=[copies, *calls],
        workspace=[
            *source.workspace,
            *(workspace(_copied(name), (size,), shape.dtype) for name, size in sizes.items()),
        ],
    )


def _copied(name: str) -> str:
    return f"padded_{name}"
