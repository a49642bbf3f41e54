"""Products of 16-bit floats whose n or k is not a multiple of 8: on padded copies.

Tensor cores are fed by copies of 4 or 16 bytes, which rows must be aligned to. Where they are not,
a kernel before copies the operand to rows of a multiple of 8 elements; the product writes its
result unpadded. That reads and writes b once more, which counts where m is small. `gemm_unaligned`
reads b, and many rows of a, without copies: its choices are part of the same space. ``mma.sync``
reads even rows without copies, where these do not pay.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from autotune import SourceKernel, Target, call, workspace
from autotune.kernel import KernelCall

from .. import common
from ..epilogue import Epilogue
from . import gemm_half, gemm_tma, gemm_unaligned, gemm_wgmma
from .gemm_shape import HALVES, Gemm

# Of a block of the kernel that pads; each makes one vector of 8 elements.
THREADS = 256
# Shared memory that the device reserves for as many of these as a multiprocessor runs at a time.
# Where it is not left free, blocks of a product start when the last of these have ended: 64x160
# tiles with 230 KB took 12.1 us for 943x1169x1245 nt, with 174 KB 9.7 (an H200).
COPYING_BYTES = 2048 // THREADS * 1024
# Elements of 16 bytes, and of a line of the L2 cache, and the length from which on rows are padded
# to whole lines: TMA takes twice as long for rows of 128 bytes that are not aligned to a line.
VECTOR, LINE, LONG = 8, 64, 512
# Results from which on, of as many rows and columns, products by TMA are known to be faster.
MANY_RESULTS, LEAST = 9 * 2**16, 192
# Rows and columns from which on fewer results may be.
LEAST_IN_STRIPS = 128
# Results up to which blocks that share sums run untuned where the estimate is less, though rows
# are then written pair by pair: on an H200 seven such products took 0.77 to 0.96 of the time, but
# of six with more results only two took less.
FEW_RESULTS = 2**18
# Multiply-adds and results from which on copies of even rows are known to pay.
EVEN_PRODUCTS, EVEN_RESULTS = 450_000_000, 9 * 2**16
# Of long sums fewer, and rows, columns and terms from which on: by ``mma.sync`` 274x1746x5040 took
# an H200 49.9 us and 16.5 without, 274x482x4430 26.0 and 10.5, 131x428x3534 11.9 and 7.4.
PRODUCTS_OF_LONG, LEAST_OF_LONG, LONG_SUM = 2**27, 64, 1024


class Products(Protocol):
    """A family of kernels of products."""

    def candidates(self, shape: Gemm) -> dict[str, list[int]]:
        """Return the values each knob may take."""

    def violation(self, shape: Gemm, choice: Mapping[str, int], target: Target) -> str | None:
        """Return why a choice cannot run, or None."""

    def default_choice(self, shape: Gemm, target: Target) -> dict[str, int]:
        """Return the choice to use where nothing was tuned."""

    def kernel(self, shape: Gemm, choice: Mapping[str, int]) -> SourceKernel:
        """Return the kernel of a choice of knobs."""


def is_needed(shape: Gemm) -> bool:
    """Return whether rows of a or b are not aligned to 4 bytes."""
    return shape.a_run % 2 > 0 or shape.b_run % 2 > 0


def gains(shape: Gemm, target: Target) -> bool:
    """Return whether this family is faster where ``mma.sync`` could read four bytes at a time.

    On an H200 copies, which wgmma can read, made products of 1028 and 2050, 197x3074x770 and
    2048x50258x768 1.5 to 6.5 times as fast; 512x1000x1026, 333x300x202 and 64 rows lost. A large b
    is best read without copies (`gemm_unaligned.reads_large_b`).
    """
    even = (shape.a_run % 8 > 0 or shape.b_run % 8 > 0) and not is_needed(shape)
    if not even or not gemm_wgmma.offered(padded(shape), target):
        return False
    if gemm_unaligned.reads_large_b(shape):
        choice = gemm_unaligned.default_choice(shape, target)
        if gemm_unaligned.violation(shape, choice, target) is None:
            return True
    results = shape.m * shape.n
    products, least = shape.batch * results * shape.k, min(shape.m, shape.n)
    long = shape.k >= LONG_SUM and products >= PRODUCTS_OF_LONG and least >= LEAST_OF_LONG
    many = products >= EVEN_PRODUCTS and results >= EVEN_RESULTS and least >= LEAST
    return many or (long and shape.batch == 1)


def gains_by_padded_b(shape: Gemm, target: Target) -> bool:
    """Return whether a product is faster by a b, stored as [n, k], whose rows were padded before.

    Then only rows of a are copied. Fewer rows read unaligned ones as fast, without any copies.
    """
    along_k = shape.transpose_b and shape.batch == 1 and shape.dtype in HALVES
    many = shape.m >= gemm_unaligned.FEW_ROWS.start and shape.k > gemm_half.SHORT_SUM
    if not along_k or not many or shape.b_run % VECTOR == 0:
        return False
    return is_needed(shape) or gains(shape, target)


def padded(shape: Gemm) -> Gemm:
    """Return the shape of the copies: rows in memory of a multiple of 8 elements, or of 64.

    Where rows of b were padded before (`Gemm.b_row`), those of a become as long.
    """
    along_k = not shape.transpose_a or shape.transpose_b
    return replace(
        shape,
        m=row_of_copy(shape.m) if shape.transpose_a else shape.m,
        n=shape.n if shape.transpose_b else row_of_copy(shape.n),
        k=shape.b_row or (row_of_copy(shape.k) if along_k else shape.k),
        b_row=0,
    )


def row_of_copy(length: int) -> int:
    """Return the padded length of a row; multiples of 16 bytes stay."""
    if length % VECTOR == 0:
        return length
    multiple = LINE if length >= LONG else VECTOR
    return common.ceil_div(length, multiple) * multiple


@dataclass(frozen=True)
class Padded:
    """A family of products, applied to padded copies."""

    family: Products

    def candidates(self, shape: Gemm) -> dict[str, list[int]]:
        """Return the values each knob may take."""
        options = self.family.candidates(padded(shape))
        if self.family is not gemm_half or not gemm_unaligned.forms(shape):
            return options
        others = gemm_unaligned.candidates(shape)
        return {name: sorted({*values, *others[name]}) for name, values in options.items()}

    def violation(self, shape: Gemm, choice: Mapping[str, int], target: Target) -> str | None:
        """Return why a choice cannot run, or None."""
        if _reads_b_unaligned(choice):
            return gemm_unaligned.violation(shape, choice, target)
        return self.family.violation(padded(shape), choice, target)

    def default_choice(self, shape: Gemm, target: Target) -> dict[str, int]:
        """Return the choice to use where nothing was tuned."""
        copied = self.choice_on_copies(shape, target)
        if self.family is not gemm_half or not gemm_unaligned.forms(shape):
            return copied
        choice = gemm_unaligned.default_choice(shape, target)
        if gemm_unaligned.violation(shape, choice, target) is not None:
            return copied
        cycles = _cycles_on_copies(shape, copied, target)
        return choice if gemm_unaligned.gains(shape, choice, target, cycles) else copied

    def choice_on_copies(self, shape: Gemm, target: Target) -> dict[str, int]:
        """Return the choice for a product on copies where nothing was tuned."""
        whole = padded(shape)
        if self.family is not gemm_half or shape.n % 8 == 0:
            choice = self.family.default_choice(whole, target)
            if not gemm_half.by_boxes(choice):
                return choice
            return gemm_tma.default_choice(whole, target, free_bytes=COPYING_BYTES)
        other = gemm_half.choice_without_tma(whole, target)
        if _suits_tma(shape) or _may_suit_tma(shape):
            few = shape.batch * shape.m * shape.n <= FEW_RESULTS
            choice = gemm_tma.default_choice(
                whole, target, strips=True, free_bytes=COPYING_BYTES, ranges=few
            )
            if gemm_tma.violation(whole, choice, target) is None and (
                _suits_tma(shape)
                or (other["split"] == 1 and shape.batch == 1)
                or gemm_half.estimate(whole, choice, target)
                < gemm_half.estimate(whole, other, target)
            ):
                return choice
        return other

    def kernel(self, shape: Gemm, choice: Mapping[str, int]) -> SourceKernel:
        """Return the kernels of a choice: padding, and the product."""
        whole = _with_whole_boxes(shape, choice)
        if _reads_b_unaligned(choice):
            source = gemm_unaligned.kernel(shape, choice, whole.k)
        else:
            source = gemm_half.kernel(whole, choice, shape)
        sizes = {name: math.prod(stored) for name, stored in zip("ab", whole.shapes, strict=False)}
        is_padded = {
            "a": _is_copied(shape, "a", choice) and not _reads_a_unaligned(choice),
            "b": _is_copied(shape, "b", choice) and not _reads_b_unaligned(choice),
        }
        if not any(is_padded.values()):
            return source
        names = {name: f"padded_{name}" if there else name for name, there in is_padded.items()}
        copied = {name: sizes[name] for name, there in is_padded.items() if there}
        product = [
            replace(one, args=tuple(names.get(name, name) for name in one.args))
            for one in source.calls
        ]
        if choice.get(gemm_half.KNOB):  # kernels that wait for the copies (dependent launch)
            product[0] = replace(product[0], launch=replace(product[0].launch, early=True))
        calls = [copy(copied), *product]
        copies = [
            workspace(names[name], (size,), shape.dtype)
            for name, size in sizes.items()
            if is_padded[name]
        ]
        return replace(
            source,
            name=calls[0].entry,
            source=f"{source.source}\n{common.text('dependent_launch.h', 'pad.cu')}",
            args=shape.arguments(),
            defines={
                **source.defines,
                **_pads(shape, whole, is_padded),
                "BEHIND_COPIES": 1,
            },
            calls=calls,
            workspace=[*source.workspace, *copies],
            reference=shape.reference(),
        )


def _is_copied(shape: Gemm, name: str, choice: Mapping[str, int]) -> bool:
    """Return whether an operand is copied by a choice that reads aligned rows.

    Of one that is stored with a row for each k, whose rows are aligned, copies only have more
    rows of zeros, with which TMA fills boxes anyway: 68x2312x4497 took 20.8 us on an H200 with a
    copy of b.
    """
    if name == "b" and shape.b_row:
        return False
    whole = padded(shape)
    across, along_k, row = (
        (shape.m, shape.transpose_a == 0, whole.m)
        if name == "a"
        else (shape.n, shape.transpose_b > 0, whole.n)
    )
    by_boxes = gemm_half.by_boxes(choice) and shape.batch == 1
    if not along_k and by_boxes:
        return across != row
    return (across, shape.k) != (row, whole.k)


def _with_whole_boxes(shape: Gemm, choice: Mapping[str, int]) -> Gemm:
    """Return the shape of the copies, of operands along K with rows of zeros that fill boxes.

    TMA takes longer to write zeros for what a box has beyond a matrix than to load as many rows.
    """
    whole = padded(shape)
    if not gemm_half.by_boxes(choice) or shape.batch > 1:
        return whole
    tiling = gemm_tma.TmaTiling(whole, choice)
    rows, columns = tiling.tile_m, tiling.tile_n
    if tiling.form.swapped:
        rows, columns = columns, rows
    if not shape.transpose_a and _is_copied(shape, "a", choice):
        whole = replace(whole, m=whole.m + -whole.m % rows)
    if shape.transpose_b and _is_copied(shape, "b", choice):
        whole = replace(whole, n=whole.n + -whole.n % columns)
    return whole


def _cycles_on_copies(shape: Gemm, choice: Mapping[str, int], target: Target) -> float:
    """Return a rough number of cycles of a choice of products of 16-bit floats with its copies."""
    copied = sum(
        math.prod(stored)
        for name, stored in zip("ab", padded(shape).shapes, strict=False)
        if _is_copied(shape, name, choice)
    )
    product = gemm_half.estimate(padded(shape), choice, target)
    return product + gemm_unaligned.copying_cycles(copied)


def _reads_b_unaligned(choice: Mapping[str, int]) -> bool:
    """Return whether b is read unaligned."""
    knob = choice.get(gemm_half.KNOB, 0)
    return not common.is_none_of(knob, gemm_unaligned.FORMS)  # one question about all values


def _reads_a_unaligned(choice: Mapping[str, int]) -> bool:
    """Return whether a is read unaligned too."""
    return (
        _reads_b_unaligned(choice) and gemm_unaligned.Form.of(choice[gemm_half.KNOB]).by_class > 0
    )


def _suits_tma(shape: Gemm) -> bool:
    """Return whether a product with unaligned rows of c runs by TMA untuned.

    On an H200 those were 6 to 24% faster for six such shapes, from 333x2049x511 to 197x50257x768,
    and not for 197x3071x767; of sums of 53 to 128 products five took 0.28 to 0.81 of the time by
    ``mma.sync``. Other epilogues store pair by pair, as without TMA: of seven short sums with a
    bias, from 5154x189x54 to 5502x629x32, all took 0.4 to 0.6 of that time (an H100).
    """
    many = shape.m * shape.n >= MANY_RESULTS
    plain = shape.epilogue == Epilogue() and min(shape.m, shape.n) >= LEAST
    return many and (plain or shape.k <= gemm_half.SHORT_SUM)


def _may_suit_tma(shape: Gemm) -> bool:
    """Return whether it may with fewer results: estimates choose where the other has split-K.

    On an H200 700x777x2301 took 10.6 us in strips and 13.6 by `gemm_wgmma`, 163x2879x1788 10.8 and
    13.6. Without split-K `gemm_wgmma` was slower for nine of ten, whatever the estimates:
    399x1101x813 nt took 7.7 us so and 5.3 by TMA, 884x412x1874 9.0 both. With split-K it was
    faster for both that were raced: 694x377x1739 nt took 7.5 us so and 8.0 by TMA.
    """
    plain = shape.epilogue == Epilogue() and shape.k > gemm_half.SHORT_SUM
    return plain and min(shape.m, shape.n) >= LEAST_IN_STRIPS


def _pads(shape: Gemm, whole: Gemm, is_padded: Mapping[str, bool]) -> Mapping[str, int]:
    """Return the parameters of ``pad.cu``."""
    of_a, of_b = (1 if name == shape.shared else shape.batch for name in "ab")
    (a_rows, a_row), (b_rows, b_row) = (
        each.shapes[i][-2:] for i, each in ((0, shape), (1, shape))
    )
    (a_all, a_long), (b_all, b_long) = whole.shapes[0][-2:], whole.shapes[1][-2:]
    return common.defines(
        pad_a=is_padded["a"], pad_b=is_padded["b"], a_count=of_a, b_count=of_b,
        a_rows=a_rows, a_row=a_row, a_all=a_all, a_long=a_long,
        b_rows=b_rows, b_row=b_row, b_all=b_all, b_long=b_long,
    )  # fmt: skip


def copy(sizes: Mapping[str, int]) -> KernelCall:
    """Return the launch that copies the arrays of these names to ``padded_`` and the name.

    Args:
        sizes: elements of the copies; of a first, where both operands are copied.
    """
    blocks = sum(common.ceil_div(size, 8 * THREADS) for size in sizes.values())
    arrays = [each for name in sizes for each in (name, f"padded_{name}")]
    return call("pad", arrays, blocks, THREADS)
