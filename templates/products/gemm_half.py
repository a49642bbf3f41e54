"""Products on tensor cores: one space of ``mma.sync`` and ``wgmma``.

One space holds both: the knob ``wgmma`` selects the family that interprets the others: 0 is
``mma.sync``, 1 ``wgmma`` fed by ``cp.async``, and from 2 on ``wgmma`` fed by TMA, in one of the
forms of `gemm_tma`, by `gemm_skinny` or `conv2d_halo`. Where there is only ``mma.sync``, that
family's own space is used, without this knob.
"""

from __future__ import annotations

import math
from collections.abc import Container, Mapping
from functools import lru_cache
from typing import Any, Protocol, cast

from autotune import SourceKernel, Target

from .. import common
from ..convolutions import conv2d_halo
from . import gemm_mma, gemm_skinny, gemm_tma, gemm_wgmma
from .gemm_shape import HALVES, Product
from .gemm_tma_estimate import LEAST_STREAMED
from .gemm_tma_form import FORMS, Form
from .gemm_tma_tiling import in_registers


class Family(Protocol):
    """What families of kernels of products have in common."""

    def candidates(self, shape: Product) -> dict[str, list[int]]:
        """Return the values each knob may take."""

    def violation(self, shape: Product, choice: Mapping[str, int], target: Target) -> str | None:
        """Return why a choice cannot run, or None."""

    def estimate(self, shape: Product, choice: Mapping[str, int], target: Target) -> float:
        """Return a rough number of cycles."""


KNOB = "wgmma"
# From as many rows on, wgmma's smallest tile is full, and ``mma.sync`` is not worth trying.
FULL_ROWS = 64
# Extent of K up to which prologue and epilogue take most of the time: on an H200 ``mma.sync`` was
# faster than ``cp.async`` and ``wgmma``, 46.6 us against 65.8 for 96 products of 512x512x64. By
# TMA, persistent, they take 17.7.
SHORT_SUM = 128
# Results from which on, with a residual, shorter ones run by wgmma too.
MANY_RESULTS = 2**20
# Rows of an a stored as [k, m] from which on operands are swapped, and the longest such sums.
FEW_ACROSS, LONG_ACROSS = 16, 10_000
# Results and extent of K of 16-bit floats up to which ``mma.sync`` is faster than any pipeline:
# 160x176x360 nt took 2.04 us on an H200, by TMA 2.93, and 125x192x256 1.91 and 2.09, but 64x64x512
# 2.48 and 2.28.
FEW_RESULTS, FEW_TERMS = 40_000, 384
# Columns and extent of K of 16-bit floats up to which ``mma.sync`` is faster than pipelines, whose
# K tiles would be half empty: on an H100 for ten of twelve products of 4120 to 120762 rows, by up
# to 3.6 times (108818x24x8 3.8 us), of the others one took as long and one with SiLU 1.14 times.
NARROW, SHORTEST_SUM = 128, 40
# Share of the estimate that TMA takes of few rows of operands that are not swapped, since it loads
# no rows beyond a: of ten products of 5 to 25 rows that b's in the cache stream, those that run so
# take an H200 0.88 to 0.94 of the time.
OF_PLAIN = 0.72
# Rows that leave much of a tile of 64 empty.
FEW_OF_TILE = 48
# Rows up to which `gemm_skinny` alone has tiles as narrow; and what makes its estimates comparable
# to those by TMA, with so few rows and with more.
ONE_FRAGMENT, NARROW_LONGER, STREAMED_LONGER = 8, 1.1, 1.3
# Estimated cycles up to which implicit GEMM is faster than `conv2d_halo`, and shares of the
# estimates by TMA and by `cp.async` below which that one is faster.
SHORT_HALO, OF_TMA, OF_CP_ASYNC = 13000, 0.87, 0.72
# And of TMA if all filters are in shared memory.
OF_TMA_BY_ALL = 0.96


def suits_wgmma(shape: Product) -> bool:
    """Return whether products run by wgmma, fed by ``cp.async``, where nothing was tuned."""
    return shape.k > SHORT_SUM


def chosen_before(knobs: Container[str]) -> bool:
    """Return whether knobs were chosen when there was only ``mma.sync``: old logs stay valid."""
    return "warps_m" in knobs and KNOB not in knobs


def _family(knob: int) -> Family:
    """Return the family that a value of the knob selects."""
    if knob == 0:
        return gemm_mma
    if knob == gemm_skinny.VALUE:
        return gemm_skinny
    if knob == conv2d_halo.VALUE:
        return conv2d_halo
    return gemm_wgmma if knob == 1 else gemm_tma


def by_boxes(choice: Mapping[str, int]) -> bool:
    """Return whether `gemm_tma` interprets a choice of this space."""
    return choice.get(KNOB) in {form.knob for form in FORMS}


def offered(shape: Product, target: Target) -> bool:
    """Return whether a target has wgmma, and one of its families can multiply a shape."""
    return gemm_wgmma.offered(shape, target) or gemm_tma.offered(shape, target)


def candidates(shape: Product) -> dict[str, list[int]]:
    """Return the values each knob may take for a shape, with either instruction."""
    families: list[Family] = [gemm_mma]
    knobs = [0]
    if gemm_wgmma.refusal(shape) is None:
        families.append(gemm_wgmma)
        knobs.append(1)
    for by_tma in (gemm_tma, gemm_skinny, conv2d_halo):
        if by_tma.refusal(shape) is None:
            families.append(by_tma)
            knobs += by_tma.candidates(shape)[KNOB]
    options = [family.candidates(shape) for family in families]
    shared = {name: sorted({v for each in options for v in each[name]}) for name in options[0]}
    return {KNOB: knobs, **shared}


def violation(shape: Product, choice: Mapping[str, int], target: Target) -> str | None:
    """Return why a choice cannot run or is sure to be slow, or None."""
    full = gemm_tma.suits_integers if shape.dtype == "int8" else suits_wgmma
    beaten = choice[KNOB] == 0 and full(shape) and shape.m >= FULL_ROWS
    if beaten and _is_untuned_by_wgmma(cast(Any, shape), target):
        return "mma.sync where wgmma has full tiles"
    return violation_in_family(shape, choice, target)


def violation_in_family(shape: Product, choice: Mapping[str, int], target: Target) -> str | None:
    """Return why a choice cannot run or is slow for its family, whatever others could do."""
    family = _family(choice[KNOB])
    strange = [
        (common.is_none_of(choice[name], values), f"{name} of another family")
        for name, values in family.candidates(shape).items()
    ]
    return common.first_broken(strange) or family.violation(shape, choice, target)


@lru_cache(maxsize=256)
def _is_untuned_by_wgmma(shape: Any, target: Target) -> bool:
    """Return whether the untuned choice runs by wgmma; a space must have that choice."""
    long = suits_wgmma(shape) and not is_tiny(shape)
    by_either = long and gemm_wgmma.refusal(shape) is None  # with or without TMA
    return by_either or default_choice(shape, target)[KNOB] != 0


def estimate(shape: Product, choice: Mapping[str, int], target: Target) -> float:
    """Return a rough number of cycles."""
    return _family(choice[KNOB]).estimate(shape, choice, target)


def default_choice(shape: Product, target: Target) -> dict[str, int]:
    """Return a good guess for a shape that was never tuned: by TMA where it wins."""
    if gemm_skinny.suits(shape):
        choice = gemm_skinny.default_choice(shape, target)
        if gemm_skinny.violation(shape, choice, target) is None:
            return _streamed_fastest(shape, choice, target)
    if conv2d_halo.refusal(shape) is None:
        choice = conv2d_halo.default_choice(shape, target)
        if halos_gain(shape, choice, target):
            return choice
    if gemm_tma.refusal(shape) is None and not is_tiny(shape) and not is_narrow(shape):
        halves = shape.dtype in HALVES and not shape.gathers
        swapped = _swapped(shape) if halves else None
        choice = gemm_tma.default_choice(shape, target, gemm_tma.suits_strips(shape), swapped)
        if gemm_tma.wins(shape, choice, target):
            return choice
    return choice_without_tma(shape, target)


def _streamed_fastest(shape: Product, streamed: dict[str, int], target: Target) -> dict[str, int]:
    """Return a choice of `gemm_skinny`, or of TMA if that is faster.

    With swapped operands an H200 was 1.06 to 1.7 times as fast for five of nine b that the L2
    cache holds: 32x1024x6144 nt took 4.13 us, streamed 7.07, 20x1536x8960 7.00 and 7.90; but
    24x512x11952 nt 5.7 and 4.8, 24x896x4864 nt with SiLU 4.7 and 4.3. Of seven products of 5 to 8
    rows that run so six took 0.83 to 0.98 of the time, 6x6640x1200 nt 1.15 times; 8x800x7608 5.7
    us streamed and 7.1. Of fewer rows 3x2048x6144 took 7.6 us streamed and 8.7, 2x960x1344 nt 4.0
    and 3.7.
    """
    if gemm_skinny.is_far(shape):
        return _by_tma(shape, target) or streamed
    if shape.m <= gemm_skinny.FEWER_ROWS:
        return streamed
    cycles = float(estimate(shape, streamed, target))
    swapped, by_swapped = streamed, math.inf
    if shape.k >= LEAST_STREAMED and in_registers(shape):
        swapped = gemm_tma.default_choice(shape, target, swapped=1)
        if gemm_tma.violation(shape, swapped, target) is None:
            longer = NARROW_LONGER if shape.m <= ONE_FRAGMENT else STREAMED_LONGER
            by_swapped = float(estimate(shape, swapped, target)) / longer
    # Of more rows tiles that are not swapped were faster where both estimates are less.
    least = min(cycles, by_swapped) if shape.m <= ONE_FRAGMENT else cycles
    plain = gemm_tma.default_choice(shape, target, swapped=0)
    run = OF_PLAIN * float(estimate(shape, plain, target))
    if run < least and gemm_tma.wins(shape, plain, target) and not _waits(shape, plain):
        return plain
    return streamed if cycles <= by_swapped else swapped


def _by_tma(shape: Product, target: Target) -> dict[str, int] | None:
    """Return the choice of TMA of the least estimate, swapped operands or not; None if none wins.

    Of a b that is read from memory, since no rows beyond a are loaded: 14x22040x2608 nt took an
    H200 30.3 us so, streamed 32.0, 1x23128x1696 20.9 and 22.7, 41x34848x2752 nt 49.2, by swapped
    operands 55.1, eight drawn ones 0.87 to 0.99 of the time. Swapped operands whose ranges of K a
    cluster reduces took 0.98 to 1.08 times as long as streamed, 1.01 in the mean of nine.
    """
    choice = gemm_tma.default_choice(shape, target)
    form = Form.of(choice[KNOB])
    loses = (form.swapped and form.cluster_reduce) or _waits(shape, choice)
    return choice if not loses and gemm_tma.wins(shape, choice, target) else None


def _waits(shape: Product, choice: Mapping[str, int]) -> bool:
    """Return whether each block of few rows first waits for a residual, by TMA.

    With one 8x22680x416 nt took an H200 8.7 us so, streamed 4.6, and 12x25848x2176 38.9 and 31.1;
    where a second kernel adds ranges of K it adds the residual too.
    """
    swapped = Form.of(choice[KNOB]).swapped
    return shape.epilogue.residual and choice["split"] == 1 and not swapped


def is_tiny(shape: Product) -> bool:
    """Return whether a product of 16-bit floats is so small that ``mma.sync`` is fastest."""
    results = shape.batch * shape.m * shape.n
    small = results <= FEW_RESULTS and shape.k <= FEW_TERMS
    return small and shape.dtype in HALVES and not shape.gathers


def is_narrow(shape: Product) -> bool:
    """Return whether so few columns and terms of 16-bit floats are fastest without TMA."""
    plain = shape.dtype in HALVES and not shape.gathers and not shape.transpose_a
    return plain and shape.n <= NARROW and shape.k <= SHORTEST_SUM


def _swapped(shape: Product) -> int | None:
    """Return whether operands are best swapped, so that a large b is streamed; None if either.

    64x7232x8384 nt took 32.0 us so on an H200, 38.4 by the choice of the least estimate, and
    32x4096x4096 nt 6.6 and 12.0; 40x2048x8192 nt 12.5 and 9.9. Of an a stored as [k, m] five of
    16 to 56 rows took 0.80 to 0.96 of the time: 32x416x6872 tt 5.3 us instead of 6.3.
    """
    if shape.transpose_a and shape.m < FULL_ROWS:
        if not in_registers(shape) or shape.batch > 1:
            return 0
        return 1 if shape.m >= FEW_ACROSS and shape.k <= LONG_ACROSS else None
    if gemm_skinny.is_far(shape) and shape.m <= FEW_OF_TILE and not shape.epilogue.residual:
        return None  # as of fewer rows: `_by_tma`
    near = shape.n * shape.k >= gemm_skinny.LEAST and shape.k <= gemm_skinny.SHORT_SUM
    large = near or gemm_skinny.is_far(shape)
    few = shape.m <= gemm_skinny.MOST_ROWS and shape.batch == 1
    return 1 if large and few and gemm_skinny.has_many_tiles(shape) else None


def halos_gain(shape: Product, choice: Mapping[str, int], target: Target) -> bool:
    """Return whether a convolution is faster by `conv2d_halo` than by implicit GEMM.

    On an H200 these shares of the other estimates chose seven of 22 layers, of which six were 1.06
    to 1.29 times as fast, and one 3% slower; of the others one would have gained a tenth.
    """
    if conv2d_halo.violation(shape, choice, target) is not None:
        return False
    run = conv2d_halo.estimate(shape, choice, target)
    every = conv2d_halo.HaloTiling(cast(Any, shape), choice).all_filters
    share = OF_TMA_BY_ALL if every else OF_TMA
    boxes, copies = (
        gemm_tma.default_choice(shape, target),
        gemm_wgmma.default_choice(shape, target),
    )
    return (
        run > SHORT_HALO
        and run < share * gemm_tma.estimate(shape, boxes, target)
        and run < OF_CP_ASYNC * gemm_wgmma.estimate(shape, copies, target)
    )


def choice_without_tma(shape: Product, target: Target) -> dict[str, int]:
    """Return a good guess by ``cp.async``: of floats by wgmma, also for few rows.

    With a residual, results are stored as fast by wgmma as they are read: 6752x1576x16 took 20.9
    us so on an H200, by ``mma.sync`` 48.9, and 3768x7072x24 57.5 and 77.8.
    """
    results = shape.batch * shape.m * shape.n
    added = shape.epilogue.residual and results >= MANY_RESULTS and not shape.gathers
    long = suits_wgmma(shape) and not is_tiny(shape)
    if (long or added) and gemm_wgmma.refusal(shape) is None:
        return {KNOB: 1, **gemm_wgmma.default_choice(shape, target)}
    return {KNOB: 0, **gemm_mma.default_choice(shape, target)}


def kernel(
    shape: Product, choice: Mapping[str, int], plain: Product | None = None
) -> SourceKernel:
    """Return the kernel of a choice of knobs; ``plain`` is as in the families."""
    own = {name: value for name, value in choice.items() if name != KNOB}
    if choice.get(KNOB) == gemm_skinny.VALUE:
        return gemm_skinny.kernel(shape, choice, plain)
    if choice.get(KNOB) == conv2d_halo.VALUE:
        return conv2d_halo.kernel(shape, choice, plain)
    if choice.get(KNOB, 0) > 1:
        return gemm_tma.kernel(shape, choice, plain)
    if choice.get(KNOB):
        return gemm_wgmma.kernel(shape, own, plain)
    return gemm_mma.kernel(shape, own, plain)
