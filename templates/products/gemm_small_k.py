"""Products of floats with a small K, on CUDA: they write much more than they read.

As in the first layer of a network over some numbers a user, or over the 27 inputs of a 3x3 filter.
A thread keeps columns of the second matrix in registers and loops over rows of the first, which a
block stages in shared memory once: there is no main loop over K tiles. 16-bit floats are
multiplied as floats; neighbouring threads write neighbouring columns, so that rows of any
alignment are written in whole sectors.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache, partial

from autotune import SourceKernel, Target, call

from .. import choices, common
from ..occupancy import resident_blocks
from . import gemm_padded, gemm_tma
from .gemm_shape import HALVES, Gemm, first_names, result_name
from .gemm_wgmma import has_wgmma

# The largest K, and how many numbers of the second matrix a thread may hold.
LONGEST, MOST_HELD = 96, 192
# Types of elements, as ``elements.h`` numbers them.
DTYPES = ("float32", *HALVES)
# Of the kernel that copies before a product by TMA, beyond what it overlaps with.
COPY_CYCLES = 1400


class SmallKTiling:
    """The sizes that follow from a shape and a choice of knobs."""

    def __init__(self, shape: Gemm, choice: Mapping[str, int]) -> None:
        c = choice
        self.k, self.threads = shape.k, c["threads"]
        self.tile_n = c["threads"] * c["cols"]
        # Columns are padded to an odd number of floats against bank conflicts.
        columns = shape.transpose_b * self.tile_n * (shape.k | 1)
        self.shared_bytes = 4 * (shape.k * c["tile_m"] + columns)
        self.held = c["cols"] * shape.k
        tiles = common.ceil_div(shape.m, c["tile_m"]) * common.ceil_div(shape.n, self.tile_n)
        self.blocks = shape.batch * tiles

    @property
    def together(self) -> int:
        """Blocks that fit a multiprocessor."""
        registers = common.smaller(self.held + self.k // 2 + 34, 255)
        return common.smaller(resident_blocks(self.threads, registers, self.shared_bytes), 32)


def refusal(shape: Gemm) -> str | None:
    """Return why this kernel cannot serve a shape, or None."""
    rules = [
        (shape.dtype not in DTYPES, f"operands must be {', '.join(DTYPES)}"),
        (shape.k > LONGEST, f"sums of more than {LONGEST}"),
    ]
    return common.first_broken(rules)


def suits_odd_rows(shape: Gemm) -> bool:
    """Return whether 16-bit floats with odd rows can be multiplied so, or on padded copies."""
    halves = shape.dtype in HALVES and refusal(shape) is None
    return halves and gemm_padded.is_needed(shape)


def beats_copies(shape: Gemm, target: Target) -> bool:
    """Return whether odd rows are faster so than on padded copies where nothing was tuned."""
    if shape.epilogue.residual:  # which is loaded row by row: 118080x57x18 took 85 us, now 30
        return False
    return _beats_copies(shape, target)


@lru_cache(maxsize=1024)
def _beats_copies(shape: Gemm, target: Target) -> bool:
    """Return whether it is estimated to be faster than by TMA, which copies are made for.

    On an H100 it chose the faster one for 18 of 19 products with odd rows, from 7910x55x9 to
    24778x472x73, 1543x506x45 not.
    """
    whole = gemm_padded.padded(shape)
    if not has_wgmma(target) or gemm_tma.refusal(whole) is not None:
        return False
    by_tma = gemm_tma.estimate(whole, gemm_tma.default_choice(whole, target), target)
    own = estimate(shape, default_choice(shape, target), target)
    return float(own) < by_tma + COPY_CYCLES


def candidates(shape: Gemm) -> dict[str, list[int]]:
    """Return the values each knob may take for a shape."""
    return {
        "threads": [32, 64, 128, 256],
        "cols": [1, 2, 3, 4],
        "tile_m": [4, 8, 16, 32, 64, 128],
    }


def violation(shape: Gemm, choice: Mapping[str, int], target: Target) -> str | None:
    """Return why a choice cannot run or is sure to be slow, or None."""
    return common.first_broken(_rules(choice, shape, target))


def _rules(choice: Mapping[str, int], shape: Gemm, target: Target) -> list[tuple[bool, str]]:
    """Return the rules of `violation`; choices may be arrays of them."""
    tiling, c = SmallKTiling(shape, choice), choice
    return [
        (tiling.shared_bytes > target.limits.shared_bytes_optin, "too much shared memory"),
        ((c["cols"] > 1) & (tiling.held > MOST_HELD), "too many registers"),
        ((c["tile_m"] > 4) & (c["tile_m"] >= 2 * shape.m), "rows beyond the output"),
        ((c["threads"] > 32) & (tiling.tile_n >= 2 * shape.n), "columns beyond the output"),
        (tiling.blocks > target.limits.grid_dim[0], "too many blocks"),
    ]


@dataclass(frozen=True)
class Factors:
    """Factors of the estimate, in cycles unless stated otherwise.

    Attributes:
        broadcast: of a warp for a float of a row that all threads load.
        stores, fours: for a column of a row that is not aligned to sectors of 32 bytes, and more
            in vectors of four.
        columns, columns_along_k: of a warp for a float of b that its threads load, and of one that
            is stored as [n, k], which passes through shared memory.
        sharing: tiles of rows from which on more find the columns in the L1 cache.
        row, load: of a thread alone, for a row beside its products, and for a load of b.
        start: of the kernel.
        busy, alone: exponents of the sums of what overlaps.
    """

    broadcast: float
    stores: float
    fours: float
    columns: float
    columns_along_k: float
    sharing: float
    row: float
    load: float
    start: float
    busy: float
    alone: float


# For floats those of the least error, 14%, for 248 choices of 12 products on an H100, with
# launches that overlap: the choice of the least estimate took 1.08 times as long as the fastest.
# For 16-bit floats those for 503 choices of 46 products of floats on an H200, by which 18 of 19
# products with odd rows ran by the faster family.
OF_FLOATS = Factors(0.48, 9.8, 2.9, 1.5, 2.0, 8, 50, 10.6, 2600, 4, 1.25)
OF_HALVES = Factors(0.33, 6.0, 0.0, 1.84, 7.4, math.inf, 31, 0.0, 2200, 3, 1.18)


def estimate(shape: Gemm, choice: Mapping[str, int], target: Target) -> float:
    """Return a rough number of cycles; choices may be arrays of them.

    They are those of the busiest multiprocessor for all of its blocks, and of a block alone.
    """
    tiling, c = SmallKTiling(shape, choice), choice
    f = OF_HALVES if shape.dtype in HALVES else OF_FLOATS
    count, blocks, warps = common.multiprocessors(target), tiling.blocks, c["threads"] // 32
    waves = common.ceil_div(blocks, count * tiling.together)
    vec = common.widest(c["cols"], shape.n)
    rows = _rows(shape, c["tile_m"])
    # Instructions of a thread for a row: products, and stores.
    row = c["cols"] * (shape.k + 1 / vec)
    stores = (f.stores + f.fours * (vec == 4)) * (shape.n % 8 > 0) * warps * c["cols"]
    works = warps * row / 4, f.broadcast * warps * shape.k, stores
    busy = rows * sum(work**f.busy for work in works) ** (1 / f.busy)
    loads = tiling.held / (1 if shape.transpose_b else vec)
    shared_by = common.larger(1.0, common.ceil_div(shape.m, c["tile_m"]) / f.sharing)
    each = f.columns_along_k if shape.transpose_b else f.columns / shared_by
    columns = blocks / count * warps * tiling.held * each
    here = common.ceil_div(blocks, count) * (busy + 100) + columns
    alone = waves * (rows * (row + f.row) + f.load * loads)
    cycles: float = (here**f.alone + alone**f.alone) ** (1 / f.alone) + f.start
    return cycles


def _rows(shape: Gemm, tile_m: int) -> float:
    """Return the rows that a block multiplies in the mean: of the last tile those that exist."""
    tiles, left = common.ceil_div(shape.m, tile_m), shape.m % tile_m
    rows: float = (shape.m - left + 4 * common.ceil_div(left, 4)) / tiles
    return rows


def default_choice(shape: Gemm, target: Target) -> dict[str, int]:
    """Return a good guess for a shape that was never tuned: the best by estimate."""
    return choices.best_of_all(
        candidates(shape),
        partial(_rules, shape=shape, target=target),
        partial(estimate, shape, target=target),
    )


def kernel(shape: Gemm, choice: Mapping[str, int]) -> SourceKernel:
    """Return the kernel of a choice of knobs."""
    s, c, tiling = shape, choice, SmallKTiling(shape, choice)
    # Vectors are aligned within a matrix, and in a batch only if its size is a multiple of theirs.
    several = shape.batch > 1
    a_copy = common.widest(s.m if s.transpose_a else several * s.m * s.k)
    vec = common.widest(c["cols"], s.n)
    b_copy = common.widest(several * s.n * s.k) if s.k % 2 else vec
    sizes = common.defines(m=s.m, n=s.n, k=s.k, vec=vec, a_copy=a_copy, b_copy=b_copy, **c)
    names = [*first_names(shape), result_name(shape)]
    calls = [call("gemm_small_k", names, tiling.blocks, tiling.threads, tiling.shared_bytes)]
    element: dict[str, int] = {"ELEMENT": DTYPES.index(s.dtype)}
    texts = ["elements.h", "epilogue.h", "operands.h"]
    if s.dtype in HALVES:  # activations have a text of their own, faster for 16-bit floats
        texts += ["exp2.h", "activations.h"]
        last = s.epilogue.number
        element |= {**common.defines(tf32=0, bfloat16=s.dtype == "bfloat16"), "LAST": last}
        element |= {"ACTIVATION": 0}
    defines = {**sizes, **shape.operands(), **element}
    return common.cuda_kernel(shape, [*texts, "gemm_small_k.cu"], defines, calls)
