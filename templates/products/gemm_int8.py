"""Products of 8-bit integers whose operands are not K-major.

Tensor cores multiply K-major integers only. ``mma.sync`` sorts others in registers, where rows in
memory are multiples of 4 (`gemm_mma`). ``wgmma``, which TMA loads for (`gemm_tma`), reads its left
operand from registers too, where one that is not K-major is sorted alike: that is a, or with
swapped operands b, with rows of a multiple of 16. For all others kernels before the product
transpose what is not K-major, and pad rows; everything else is as for products of 16-bit floats
(`gemm_half`).
"""

from __future__ import annotations

import math
from collections.abc import Container, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from autotune import SourceKernel, Target, call, workspace

from .. import common
from . import gemm_half, gemm_mma, gemm_skinny_int8, gemm_tma, gemm_tma_untuned
from .gemm_padded import Products
from .gemm_shape import Gemm
from .gemm_tma_form import Form

# Rows of a tile whose left operand TMA reads across the sum.
WHOLE_BOX = 128
# Of the kernel that transposes: threads of a block, and its tile across and along K.
THREADS, ACROSS, ALONG = 256, 64, 128
TRANSPOSE = "transpose_int8.h"
TEXTS = ("dependent_launch.h", TRANSPOSE, "transposed_int8.cu")
# Multiply-adds from which on copies pay for products that ``mma.sync`` could read as they are, and
# extent of K from which on they do for few columns too: 150x50x96984 nt took 318 us without.
MANY_PRODUCTS, LONG_SUM = 2**28, 4096
# Elements of b from which on it is worth a kernel that copies a before, and of up to 16 rows.
LARGE, LARGE_OF_FEW = 2**24, 2**22
# Bytes that copies read and write in a cycle, cycles of the estimate by TMA that launches hide
# which overlap, those of two launches, which that of ``mma.sync`` lacks, and by how much
# `gemm_skinny_int8` must be faster by estimate, and of a b stored as [k, n] faster than by TMA.
MOVED, HIDDEN, LAUNCHES = 2600, 1700, 4500
MARGIN, MARGIN_ALONG_N = 1.26, 1.45
# Extent of K from which up to 64 rows by a b stored as [k, n] are faster by TMA than by
# ``mma.sync``, whatever estimates say: 12x9072x1488 took an H200 5.4 us by TMA and 7.7, twelve
# others 0.18 to 0.73 of the time, but 62x11136x368 4.2 and 4.0. Cycles that each part of such a
# sum takes more than the estimate has: 16x352x16208 in 32 parts took 5.4 us, streamed 4.5.
LONG_OF_FEW, PART = 1024, 50
# Cycles that copies of rows of no multiple of 4 take beyond those, in the mean of four products,
# and extent of K up to which many such rows are faster without copies: 147x328x25538 took 60 us;
# cycles of the kernel that copies for TMA.
UNALIGNED_COPIES, UNALIGNED_SUM, COPIES = 3600, 512, 3000
# Share of the estimate that copies and products by TMA take of more than 64 rows of an a stored as
# [k, m], from so many terms and multiply-adds on: 208x1440x2992 took an H200 8.7 us so and 16.2 by
# ``mma.sync``. All of 15 such products gained, 1.36 times in the mean; 88x576x912 tt took 4.2 and
# 3.1, 80x3504x480 7.3 and 4.4. Batches and extents that are no multiple of 8 were not timed.
OF_ACROSS, ACROSS_SUM, ACROSS_PRODUCTS = 0.75, 512, 2**27
# Cycles of ``mma.sync`` on operands as they are: at the start, in parts of its estimate, at least
# of a K tile after the first, and of a multiprocessor for a result, of even and of odd rows. They
# fit 77 choices of ten products on an H100, with an error of 14%.
MMA_START, OF_MMA, MMA_K_TILE, MMA_WRITTEN, MMA_WRITTEN_ODD = 3850, 1.45, 1500, 0.21, 1.4


def is_needed(shape: Gemm) -> bool:
    """Return whether operands are not K-major, or their rows no multiple of 4."""
    along_k = shape.transpose_b and not shape.transpose_a
    return not along_k or shape.k % 4 > 0


def gains(shape: Gemm, target: Target) -> bool:
    """Return whether copies pay for a product that ``mma.sync`` could read as it is."""
    many = shape.batch * shape.m * shape.n * shape.k >= MANY_PRODUCTS
    least = gemm_tma_untuned.FEW_ROWS if shape.k >= LONG_SUM else gemm_half.FULL_ROWS
    full = min(shape.m, shape.n) >= least and shape.k > gemm_half.SHORT_SUM
    return many and full and shape.k % 16 > 0 and gemm_tma.offered(along_k(shape), target)


def streams(shape: Gemm, target: Target, knobs: Container[str]) -> bool:
    """Return whether a product runs by `gemm_skinny_int8` on its operands as they are.

    Args:
        knobs: names of the knobs that were chosen, if any.
    """
    refused = shape.dtype != "int8" or gemm_skinny_int8.refusal(shape) is not None
    if refused or "warps_m" in knobs or streams_copies(shape, knobs):
        return False
    if gemm_skinny_int8.suits(shape, knobs):
        chosen = gemm_skinny_int8.KNOB in knobs
        if gemm_skinny_int8.lies_along_k(shape):
            return chosen or gemm_skinny_int8.beats_tma(shape, target)
        either = (_lies_along_n(shape) and gemm_mma.reads(shape)) or _is_across(shape)
        return chosen or not either or _is_streamed_fastest(shape, target)
    return _beats_copies(shape, target)


@lru_cache(maxsize=1024)
def _beats_copies(shape: Gemm, target: Target) -> bool:
    """Return whether `gemm_skinny_int8`, which reads any layout, is faster than K-major copies.

    On an H200 95x1424x80 took 1.9 us so and 3.1 on copies, 256x160x464 2.3 and 3.2, 676x3208x336
    11.0 and 7.3, on an H100 300x2060x164 4.2 and 7.3, 468x892x2204 12.5 and 9.4. Of many rows of
    an a stored as [k, m] copies that TMA reads are faster: 256x512x4096 tn 7.9 and 6.0,
    200x480x7000 tt 12.5 and 9.7. It writes odd rows in vectors of four, others in pairs, one by
    one: 831x2063x76 nt took 5.9 us on an H100, by ``mma.sync`` 14.0. Of long sums of K-major
    operands its estimate is too low: on an H200 999x1001x1004 nt took 15.0 us so and 11.4 on
    copies, 501x999x2004 14.0 and 8.7; 777x1777x404 11.7 and 13.5.
    """
    whole = along_k(shape)
    across = shape.transpose_a and shape.m > gemm_half.FULL_ROWS
    if across and gemm_tma.suits_integers(whole):
        return False
    k_major = not is_needed(shape) and not gains(shape, target)
    both_along_k = shape.transpose_b and not shape.transpose_a
    long = shape.k > UNALIGNED_SUM and (both_along_k or not gemm_mma.reads(shape))
    long = long and gemm_tma.suits_integers(whole)  # ``mma.sync`` does not split integers
    if (k_major and shape.n % 2 == 0) or (long and shape.m > gemm_half.FULL_ROWS):
        return False
    return _is_streamed_fastest(shape, target)


@lru_cache(maxsize=1024)
def _is_streamed_fastest(shape: Gemm, target: Target) -> bool:
    """Return whether `gemm_skinny_int8` is the fastest by estimate.

    Up to 64 rows ``mma.sync`` counts for short sums only: on an H100 26x5688x720 took 5.5 us
    streamed and 7.1 so, 356x540x20 3.0 and 1.9. By TMA 62x11136x368 took 4.4 us instead of 8.2,
    55x3840x7072 10.4 instead of 16.8, but 64x4096x4096 11.6 instead of 9.9
    (on an H200 7.6 instead of 8.9).
    """
    choice = gemm_skinny_int8.default_choice(shape, target)
    if gemm_skinny_int8.violation(shape, choice, target) is not None:
        return False
    streamed = float(gemm_skinny_int8.estimate(shape, choice, target))
    copying = on_copies(shape, target)[0]
    if not gemm_mma.reads(shape):
        return streamed < copying
    if _is_across(shape):
        return min(as_they_are(shape, target)[0], MARGIN_ALONG_N * streamed) < copying
    margin = 1.0 if gemm_skinny_int8.lies_along_k(shape) else MARGIN  # estimates of its own
    by_tma = MARGIN_ALONG_N if _lies_along_n(shape) else margin
    if gemm_skinny_int8.suits(shape) and shape.k > gemm_half.SHORT_SUM:
        return by_tma * streamed < copying
    by_mma = by_tma if shape.k <= gemm_half.SHORT_SUM else margin
    return by_tma * streamed < copying and by_mma * streamed < as_they_are(shape, target)[0]


def _is_across(shape: Gemm) -> bool:
    """Return whether few rows, but not too few for TMA, are of an a [k, m], by many columns.

    On an H200 56x2816x6416 tn took 18.1 us streamed and 10.3 on copies by TMA, cold 20.4 and 13.0,
    32x6000x2048 tt 7.0 and 6.6, cold 11.6 and 8.0.
    """
    some = shape.transpose_a and shape.m >= gemm_tma_untuned.FEW_ROWS
    many_columns = shape.n > gemm_tma_untuned.FEW_COLUMNS
    return some and many_columns and gemm_skinny_int8.suits(shape)


def _lies_along_n(shape: Gemm) -> bool:
    """Return whether rows of a are along the sum, and those of b across it."""
    return not shape.transpose_a and not shape.transpose_b


def _is_few_along_n(shape: Gemm) -> bool:
    """Return whether rows of such an a are few."""
    return _lies_along_n(shape) and gemm_skinny_int8.suits(shape)


def on_copies(shape: Gemm, target: Target) -> tuple[float, dict[str, int]]:
    """Return the estimated cycles of the fastest product on K-major copies, and its choice."""
    whole = along_k(shape)
    few, few_along_n = not gemm_tma.suits_integers(whole), _is_few_along_n(shape)
    short = shape.k <= gemm_tma_untuned.SHORT_SUM
    if not gemm_half.offered(whole, target) or (few and (short or not gemm_mma.reads(shape))):
        if gemm_mma.reads(shape):
            return math.inf, {}  # ``mma.sync`` reads the operands as they are: `as_they_are`
        family = gemm_half if gemm_half.offered(whole, target) else gemm_mma
        choice = family.default_choice(whole, target)
        run = float(family.estimate(whole, choice, target)) + _copying(shape, choice)
        return run + LAUNCHES, choice
    timed = shape.batch == 1 and not any(each % 8 for each in (shape.m, shape.n, shape.k))
    many = shape.m * shape.n * shape.k >= ACROSS_PRODUCTS and shape.k >= ACROSS_SUM
    across = timed and many and shape.transpose_a and shape.m > gemm_half.FULL_ROWS
    every = []
    for swapped in (0, 1):
        knob = {gemm_half.KNOB: Form(0, 1, swapped).knob}
        whole = read(shape, knob)
        if swapped and whole.transpose_b:
            continue  # no tiles of swapped K-major operands
        choice = gemm_tma.default_choice(whole, target, swapped=swapped)
        if few and any(copied(shape, choice).values()):
            continue  # for so few products no copies are made
        if gemm_tma.violation(whole, choice, target) is None:
            run = float(gemm_tma.estimate(whole, choice, target)) + _copying(shape, choice)
            run += COPIES * any(copied(shape, choice).values())
            run *= OF_ACROSS if across else 1.0
            run += PART * choice["split"] * few_along_n
            every.append((run - HIDDEN, choice))
    if every:
        return min(every, key=lambda one: one[0])
    if few:
        return math.inf, {}
    whole = along_k(shape)
    choice = gemm_half.default_choice(whole, target)
    return float(gemm_half.estimate(whole, choice, target)) + LAUNCHES, choice


def as_they_are(shape: Gemm, target: Target) -> tuple[float, dict[str, int]]:
    """Return the same by ``mma.sync`` without copies; infinity where it cannot read them."""
    if not gemm_mma.reads(shape):
        return math.inf, {}
    choice = gemm_mma.default_choice(shape, target)
    k_tiles = gemm_mma.MmaTiling(shape, choice).k_tiles
    run = max(OF_MMA * gemm_mma.estimate(shape, choice, target), MMA_K_TILE * (k_tiles - 1))
    knob = {gemm_half.KNOB: 0} if gemm_half.offered(along_k(shape), target) else {}
    written = MMA_WRITTEN_ODD if shape.n % 2 else MMA_WRITTEN
    return MMA_START + run + written * _results(shape, target), {**knob, **choice}


def _results(shape: Gemm, target: Target) -> float:
    """Return the results of a multiprocessor."""
    return shape.batch * shape.m * shape.n / common.multiprocessors(target)


def _copying(shape: Gemm, choice: Mapping[str, int]) -> float:
    """Return the cycles in which the K-major copies of a choice are made."""
    there = copied(shape, choice)
    if not any(there.values()):
        return 0.0
    moved = sum(2 * math.prod(_sizes(shape)[name]) for name in there if there[name])
    unaligned = 0 if gemm_mma.reads(shape) else UNALIGNED_COPIES
    return moved / MOVED + unaligned


def copied(shape: Gemm, choice: Mapping[str, int]) -> dict[str, bool]:
    """Return which operands a choice copies: those that it cannot read as they are.

    TMA reads a left operand across the sum in whole boxes of 128 bytes: lower tiles are of a copy.
    """
    padded, left, knob = shape.k % 16 > 0, "", choice.get(gemm_half.KNOB, 0)
    whole = 16 * choice.get("warps_m", WHOLE_BOX) * choice.get("frags_m", 1) % WHOLE_BOX == 0
    if knob > 1 and whole:  # by TMA
        left = "b" if Form.of(knob).swapped > 0 else "a"
    across = {"a": shape.transpose_a, "b": not shape.transpose_b}
    runs = {"a": shape.a_run, "b": shape.b_run}
    return {name: runs[name] % 16 > 0 or name != left if across[name] else padded for name in "ab"}


def read(shape: Gemm, choice: Mapping[str, int]) -> Gemm:
    """Return the shape of the product that a choice multiplies: of copies, where it makes some."""
    there = copied(shape, choice)
    return replace(
        along_k(shape),
        transpose_a=shape.transpose_a and not there["a"],
        transpose_b=shape.transpose_b or there["b"],
    )


def streams_copies(shape: Gemm, knobs: Container[str]) -> bool:
    """Return whether a product of few rows runs by `gemm_skinny_int8` on a copy of a.

    Args:
        knobs: names of the knobs that were chosen, if any.
    """
    return _copies_left(shape) and gemm_skinny_int8.suits(_streamed(shape), knobs)


def _copies_left(shape: Gemm) -> bool:
    """Return whether an a stored as [k, m] is copied: few rows of it, for a large b.

    Warps transpose it again and again: 16x17056x7952 tn took 54 us without on an H200, and 45,
    33x4096x4096 tn 13.1 on an H100, and 11.1. On an H200 16x13568x944 tn took 9.2 us without and
    6.1, 16x2048x2048 5.5 and 4.6, 8x6000x1000 4.6 and 4.7, 32x8192x1024 4.7 and 5.3.
    """
    large = LARGE_OF_FEW if shape.m <= gemm_skinny_int8.FRAGMENT else LARGE
    most = gemm_skinny_int8.FRAGMENT if shape.m % 4 == 0 else gemm_half.FULL_ROWS
    few = shape.m <= most and shape.batch == 1
    padded = shape.transpose_b and shape.k % 16 > 0  # b would be copied too
    return shape.transpose_a and few and shape.n * shape.k >= large and not padded


def _streamed(shape: Gemm) -> Gemm:
    """Return the shape of the product of that copy."""
    return replace(shape, transpose_a=False, k=along_k(shape).k)


def _copied_left(shape: Gemm) -> dict[str, bool]:
    """Return what is copied for it."""
    return {"a": True, "b": shape.transpose_b and shape.k % 16 > 0}


def along_k(shape: Gemm) -> Gemm:
    """Return the shape of the copies."""
    return replace(shape, transpose_a=False, transpose_b=True, k=shape.k + -shape.k % 16)


@dataclass(frozen=True)
class AlongK:
    """A family of products, applied to K-major copies."""

    family: Products

    @property
    def ADDED(self) -> Mapping[str, int]:
        """What choices have of logs that are older than a knob of the family."""
        added: Mapping[str, int] = getattr(self.family, "ADDED", {})
        return added

    def candidates(self, shape: Gemm) -> dict[str, list[int]]:
        """Return the values each knob may take."""
        options = self.family.candidates(self._whole(shape, {}))
        swapped = read(shape, {gemm_half.KNOB: Form(0, 1, 1).knob})
        if self.family is not gemm_half or swapped.transpose_b:
            return options
        others = gemm_tma.candidates(swapped)
        return {name: sorted({*values, *others[name]}) for name, values in options.items()}

    def violation(self, shape: Gemm, choice: Mapping[str, int], target: Target) -> str | None:
        """Return why a choice cannot run, or None."""
        if self._reads(shape, choice):
            return gemm_half.violation_in_family(shape, {gemm_half.KNOB: 0, **choice}, target)
        return self.family.violation(self._whole(shape, choice), choice, target)

    def default_choice(self, shape: Gemm, target: Target) -> dict[str, int]:
        """Return the choice to use where nothing was tuned."""
        if self.family is gemm_skinny_int8 or not is_needed(shape):
            return self.family.default_choice(self._whole(shape, {}), target)
        cycles, choice = on_copies(shape, target)
        few = _is_few_along_n(shape) and shape.k >= LONG_OF_FEW
        if few and choice and not any(copied(shape, choice).values()):
            return choice
        return min((as_they_are(shape, target), (cycles, choice)), key=lambda one: one[0])[1]

    def kernel(self, shape: Gemm, choice: Mapping[str, int]) -> SourceKernel:
        """Return the kernels of a choice: copies, and the product."""
        if self._reads(shape, choice):
            return gemm_half.kernel(shape, choice)
        source = self._product(shape, choice)
        there = self._copied(shape, choice)
        if not any(there.values()):
            return source
        names = {name: f"{name}_along_k" for name in there if there[name]}
        sizes = _sizes(shape)
        product = [
            replace(one, args=tuple(names.get(name, name) for name in one.args))
            for one in source.calls
        ]
        if choice.get(gemm_half.KNOB):  # kernels that wait for the copies (dependent launch)
            product[0] = replace(product[0], launch=replace(product[0].launch, early=True))
        blocks = {name: _blocks(sizes[name]) for name in names}
        given = [each for pair in names.items() for each in pair]
        calls = [call("along_k", given, sum(blocks.values()), THREADS), *product]
        sides = common.defines(
            copy_a=there["a"], copy_b=there["b"], copy_transposes_a=shape.transpose_a,
            copy_transposes_b=not shape.transpose_b, k_plain=shape.k, a_rows=shape.m,
            b_rows=shape.n, a_blocks=blocks.get("a", 0),
        )  # fmt: skip
        # Kernels of few rows have that text.
        texts = [t for t in TEXTS if t != TRANSPOSE or self.family is not gemm_skinny_int8]
        copies = [
            workspace(copy, (math.prod(sizes[name]),), "int8") for name, copy in names.items()
        ]
        return replace(
            source,
            name=calls[0].entry,
            source=f"{source.source}\n{common.text(*texts)}",
            defines={**source.defines, **sides},
            calls=calls,
            workspace=[*source.workspace, *copies],
        )

    def _reads(self, shape: Gemm, choice: Mapping[str, int]) -> bool:
        """Return whether a choice, of ``mma.sync``, reads the operands as they are."""
        by_mma = self.family is not gemm_skinny_int8 and not choice.get(gemm_half.KNOB)
        return by_mma and gemm_mma.reads(shape)

    def _copied(self, shape: Gemm, choice: Mapping[str, int]) -> dict[str, bool]:
        """Return which operands are copied."""
        return _copied_left(shape) if self.family is gemm_skinny_int8 else copied(shape, choice)

    def _whole(self, shape: Gemm, choice: Mapping[str, int]) -> Gemm:
        """Return the shape of the product that runs; that of K-major copies without a choice."""
        return _streamed(shape) if self.family is gemm_skinny_int8 else read(shape, choice)

    def _product(self, shape: Gemm, choice: Mapping[str, int]) -> SourceKernel:
        """Return the kernels of the product of the copies, which take what is asked for."""
        whole = self._whole(shape, choice)
        if self.family is not gemm_skinny_int8:
            return gemm_half.kernel(whole, choice, shape)
        return gemm_skinny_int8.kernel(whole, choice, shape)


def _sizes(shape: Gemm) -> dict[str, tuple[int, int, int]]:
    """Return the matrices, rows and integers of rows of the copies."""
    of_a, of_b = (1 if name == shape.shared else shape.batch for name in "ab")
    k = along_k(shape).k
    return {"a": (of_a, shape.m, k), "b": (of_b, shape.n, k)}


def _blocks(size: tuple[int, int, int]) -> int:
    """Return the blocks that copy an operand."""
    matrices, rows, k = size
    return matrices * common.ceil_div(rows, ACROSS) * common.ceil_div(k, ALONG)
