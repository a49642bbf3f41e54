"""NHWC convolutions on tensor cores whose channels do not fill 16 bytes, by padded copies.

``mma.sync`` is fed by copies of whole 32-bit words, so it needs even channels of 16-bit floats;
``wgmma`` by copies of 16 bytes or by TMA, which need channels in multiples of 8, or of 4 as TF32.
A kernel first pads images and filters with zeros to that, those of them that need it; the product
writes unpadded results. Even channels, and floats, run on copies where ``wgmma`` outweighs these
(`gains`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Protocol

from autotune import SourceKernel, Target, workspace

from .. import common
from ..products import gemm_half, gemm_mma, gemm_padded, gemm_tma, gemm_wgmma
from ..products.gemm_half import KNOB
from ..products.gemm_mma import item_bytes
from ..products.gemm_shape import HALVES, TF32, Product, stored
from .conv2d_nhwc import Conv2dNhwc

# Multiply-adds from which on ``wgmma`` gains, and how many times as many channels copies may have.
FEW_PRODUCTS, MOST_PADDED = 2**23, 1.6
# Extent of K up to which ``mma.sync`` is faster where images are copied for either.
SHORT_SUM = 64
# Cycles of a kernel that copies before, besides the bytes that each multiprocessor moves in a
# cycle, as in `conv2d_transpose`; and, which estimates of ``mma.sync`` do not count, of a launch,
# and of a multiprocessor for each result, more where rows are odd. They count the launch that adds
# up the sums of a split, which overlaps.
COPIES, BYTES_A_CYCLE, MMA_START, WRITTEN, WRITTEN_ODD = 2000, 17, 2500, 0.55, 0.6
SPLIT_OVERLAPPED = 2500
# What odd rows take more beside those on copies, which they were fitted with before strips: 80->25
# by 2x2 of 2 on 8x38x38 took an H200 5.76 us by ``mma.sync``, 5.37 on copies.
ODD_BESIDE_COPIES = 0.97
# The same of floats as TF32 for a residual, and of those on copies, whose blocks wait for it.
RESIDUAL, RESIDUAL_ON_COPIES = 1.4, 8000
# Part of the estimate of floats as TF32 on copies that is comparable to those of kernels without
# them, and multiply-adds up to which it holds. Of eleven layers drawn later whose choice depends
# on the bytes of copies, the overlap, or this part where rows are compared, on an H200 eight take
# 0.75 to 0.95 of the time without these, three 1.07 to 1.12 times as long.
WITHOUT_COPIES, MOST_PRODUCTS = 0.72, 2**26


class Products(Protocol):
    """A family of kernels of implicit GEMM: `gemm_mma`, or `gemm_half`, which has all."""

    def candidates(self, shape: Conv2dNhwc) -> dict[str, list[int]]:
        """Return the values each knob may take."""


def vector(shape: Conv2dNhwc) -> int:
    """Return the elements of 16 bytes."""
    return 16 // item_bytes(shape)


def is_needed(shape: Conv2dNhwc) -> bool:
    """Return whether pixels of images or of results are not aligned to 4 bytes."""
    return shape.dtype in HALVES and (shape.a_run % 2 > 0 or shape.n % 2 > 0)


def gains(shape: Conv2dNhwc, target: Target) -> bool:
    """Return whether ``wgmma`` on copies is faster where ``mma.sync`` reads 4 bytes at a time."""
    width = vector(shape)
    words = (shape.ci % width > 0 or shape.co % width > 0) and not is_needed(shape)
    plain = words and shape.groups == 1 and gemm_wgmma.has_wgmma(target)
    return plain and suits_wgmma(shape)


def suits_words(shape: Conv2dNhwc) -> bool:
    """Return whether ``mma.sync`` without copies may be as fast as ``wgmma`` on copies."""
    return shape.dtype == TF32 and shape.m * shape.n * shape.k <= MOST_PRODUCTS


@lru_cache(maxsize=1024)
def is_faster_by_words(shape: Conv2dNhwc, target: Target) -> bool:
    """Return whether floats as TF32 are estimated to be faster by ``mma.sync`` without copies.

    Boxes of TMA have 32 channels of a tap, however few there are, and it starts when images are
    copied.
    """
    if not suits_words(shape):
        return False
    odd = ODD_BESIDE_COPIES * (shape.n % 2) * shape.m * shape.n / common.multiprocessors(target)
    return mma_cycles(shape, shape, None, target) + odd < cycles_on_copies(shape, target)


def cycles_on_copies(shape: Conv2dNhwc, target: Target) -> float:
    """Return the cycles by ``wgmma`` on copies, comparable to those without (`suits_words`)."""
    whole, choice = copied(shape, 1), choice_by_wgmma(shape, target)
    run = float(gemm_half.estimate(whole, choice, target)) + copying_cycles(shape, whole, target)
    return WITHOUT_COPIES * (run + RESIDUAL_ON_COPIES * shape.epilogue.residual)


def mma_cycles(
    asked: Product, read: Product, choice: Mapping[str, int] | None, target: Target
) -> float:
    """Return the cycles by ``mma.sync``, comparable to those by TMA.

    Args:
        asked: of which the results are.
        read: what is multiplied: ``asked``, or that of copies.
        choice: of knobs, or None for the untuned one.
    """
    choice = choice or gemm_mma.default_choice(read, target)
    results = asked.m * asked.n / common.multiprocessors(target)
    written = results * (WRITTEN_ODD if asked.n % 2 else WRITTEN)
    written += results * RESIDUAL * (asked.dtype == TF32 and asked.epilogue.residual)
    run = gemm_mma.estimate(read, choice, target) - SPLIT_OVERLAPPED * (choice["split"] > 1)
    return float(MMA_START + run + written)


def copying_cycles(shape: Conv2dNhwc, whole: Conv2dNhwc, target: Target) -> float:
    """Return the cycles of the kernel that copies before, as estimates of products have them."""
    moved = 2 * item_bytes(shape) * sum(_sizes(shape, whole).values())
    return COPIES + moved / (BYTES_A_CYCLE * common.multiprocessors(target))


def suits_wgmma(shape: Conv2dNhwc) -> bool:
    """Return whether a convolution runs by ``wgmma`` on copies where nothing was tuned.

    On an H200 it was the faster one for 63 of 74 layers with such channels, up to 5 times as fast:
    378 channels by 386 filters of 1x7 30.7 us instead of 156. Where pixels are copied that are not
    read, as of 1x1 filters with stride 2, or few channels become twice as many, ``mma.sync`` was
    faster, as for the smallest.
    """
    whole, taps, (sy, sx) = copied(shape, 1), shape.window.taps, shape.window.stride
    if shape.dtype in HALVES:
        products = shape.m * shape.n * shape.k
        long = whole.k > SHORT_SUM if shape.ci % 2 else gemm_half.suits_wgmma(whole)
        gains, read = products >= FEW_PRODUCTS and long, copied(shape).ci
    else:
        gains, read = gemm_tma.beats_mma_as_tf32(whole), shape.ci
    copies_images = whole.ci > read
    if shape.groups > 1 or not gains:
        return False
    return not copies_images or (taps >= sy * sx and whole.ci <= MOST_PADDED * shape.ci)


def copied(shape: Conv2dNhwc, knob: int = 0) -> Conv2dNhwc:
    """Return the shape of the convolution on copies.

    Args:
        knob: by which `gemm_half` selects a family; 0, ``mma.sync``, reads even channels of 16-bit
            floats.
    """
    width = vector(shape)
    all_by_words = knob == 0 and shape.dtype in HALVES and shape.a_run % 2 == 0
    ci = shape.a_run if all_by_words else shape.a_run + -shape.a_run % width
    co = width * common.ceil_div(shape.n, width)
    return replace(shape, ci=shape.groups * ci, co=shape.groups * co)


@dataclass(frozen=True)
class Padded:
    """A family of implicit GEMM, applied to padded copies."""

    family: Products

    @property
    def by_either(self) -> bool:
        """Whether choices say by which instruction they multiply."""
        return self.family is gemm_half

    def candidates(self, shape: Conv2dNhwc) -> dict[str, list[int]]:
        """Return the values each knob may take."""
        return self.family.candidates(copied(shape, int(self.by_either)))

    def violation(
        self, shape: Conv2dNhwc, choice: Mapping[str, int], target: Target
    ) -> str | None:
        """Return why a choice cannot run, or None."""
        whole = copied(shape, choice.get(KNOB, 0))
        if self.by_either:
            return gemm_half.violation_in_family(whole, choice, target)
        return gemm_mma.violation(whole, choice, target)

    def default_choice(self, shape: Conv2dNhwc, target: Target) -> dict[str, int]:
        """Return the choice to use where nothing was tuned."""
        if not self.by_either:
            return gemm_mma.default_choice(copied(shape), target)
        if not suits_wgmma(shape):
            return {KNOB: 0, **gemm_mma.default_choice(copied(shape), target)}
        return choice_by_wgmma(shape, target)

    def kernel(self, shape: Conv2dNhwc, choice: Mapping[str, int]) -> SourceKernel:
        """Return the kernels of a choice: padding, and the product."""
        whole = copied(shape, choice.get(KNOB, 0))
        source = gemm_half.kernel(whole, choice, shape)
        sizes = _sizes(shape, whole)
        calls = [
            replace(one, args=tuple(_name(n) if n in sizes else n for n in one.args))
            for one in source.calls
        ]
        if choice.get(KNOB):  # kernels that wait for the copies (dependent launch)
            calls[0] = replace(calls[0], launch=replace(calls[0].launch, early=True))
        copies = gemm_padded.copy({name: size * halves(shape) for name, size in sizes.items()})
        return replace(
            source,
            name=copies.entry,
            source=f"{source.source}\n{common.text('dependent_launch.h', 'pad.cu')}",
            defines={**source.defines, **_pads(shape, whole, sizes)},
            calls=[copies, *calls],
            workspace=[
                *source.workspace,
                *(
                    workspace(_name(name), (size,), stored(shape.dtype))
                    for name, size in sizes.items()
                ),
            ],
        )


def choice_by_wgmma(shape: Conv2dNhwc, target: Target) -> dict[str, int]:
    """Return a good guess by ``wgmma``: fed by TMA where that is known to gain.

    ``cp.async`` would need other copies of filters of floats.
    """
    whole, floats = copied(shape, 1), shape.dtype == TF32
    if gemm_tma.refusal(whole) is None:
        choice = gemm_tma.default_choice(whole, target)
        able = floats and gemm_tma.violation(whole, choice, target) is None
        if able or gemm_tma.wins(whole, choice, target):
            return choice
    if floats:
        return {KNOB: 0, **gemm_mma.default_choice(whole, target)}
    return {KNOB: 1, **gemm_wgmma.default_choice(whole, target)}


def _sizes(shape: Conv2dNhwc, whole: Conv2dNhwc) -> dict[str, int]:
    """Return the elements of the copies that are needed, by the names of their arrays."""
    sizes = {}
    if whole.ci > shape.ci:
        sizes["data"] = shape.images * shape.h * shape.w * whole.ci
    if (whole.ci, whole.co) != (shape.ci, shape.co):
        sizes["weight"] = shape.window.taps * whole.a_run * whole.co
    return sizes


def _pads(shape: Conv2dNhwc, whole: Conv2dNhwc, sizes: Mapping[str, int]) -> Mapping[str, int]:
    """Return the parameters of ``pad.cu``: its rows are the channels of one group."""
    groups, each = shape.groups, halves(shape)
    pixels = shape.images * shape.h * shape.w * groups
    return common.defines(
        pad_a="data" in sizes, pad_b="weight" in sizes, a_count=1, a_rows=pixels, a_all=pixels,
        a_row=shape.a_run * each, a_long=whole.a_run * each, b_count=shape.window.taps,
        b_rows=shape.a_run * groups, b_all=whole.a_run * groups, b_row=shape.n * each,
        b_long=whole.n * each,
    )  # fmt: skip


def halves(shape: Conv2dNhwc) -> int:
    """Return the elements of 16 bits, which ``pad.cu`` counts, of one element."""
    return item_bytes(shape) // 2


def _name(name: str) -> str:
    return f"padded_{name}"
