"""Multiplication of 16-bit floats by ``wgmma`` where rows are not aligned to 16 bytes.

TMA loads boxes that are aligned to 16 bytes, and ``wgmma`` reads aligned rows of shared memory.
Rows of an odd number of elements have any alignment. Instead of padded copies of both operands
(`gemm_padded`), which take 2.7 to 39 us on an H200, this family reads them as they are:

- Rows whose distance is a multiple of 8 have the same misalignment (their address modulo 16
  bytes), so every eighth row is a matrix that has a tensor map: the rows are in eight classes.
- Operands are swapped and transposed, c' = b' a', as ``wgmma`` takes its left operand from
 registers too. Eight TMA boxes load rows of b as stored, each from the last multiple of 16 bytes
  before them, and threads gather their fragments, two or four bytes at a time.
- A tile of a has rows of one class, and its K tiles start up to 7 elements before its rows.

Where a row is a multiple of 2 or 4 elements there are four classes, or two. Loads are what takes
longest, so tiles of the same columns, in a cluster, load some boxes of b each for all (multicast),
or those of the same rows a part of a each.

The knobs are those of `gemm_tma` with swapped operands. ``wgmma`` selects the form
(`gemm_unaligned_form`): which operands are read unaligned, b alone, where a's rows are, or were
padded to, multiples of 8, or both, and clusters.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

from autotune import SourceKernel, Target, call
from autotune.errors import TemplateError

from .. import choices, common
from ..epilogue import Epilogue
from . import gemm_tma_tiling, gemm_wgmma, l2_resident
from .gemm_shape import HALVES, Gemm, first_names, result_name
from .gemm_tma_form import KNOB
from .gemm_unaligned_form import FORMS as FORMS
from .gemm_unaligned_form import Form as Form
from .gemm_unaligned_tiling import CHUNK, ITEM_BYTES, VECTOR, Tiling, classes_of
from .gemm_wgmma import ARCH

HOPPER = Target(f"cuda -arch={ARCH}")
# Cycles of the kernel that pads, bytes that it copies in a cycle, and elements from which on the
# L2 cache holds too little of them, with the cycles of each more: 15.3 million took an H200 15.9,
# 8.4 million 6.1 us.
COPY_CYCLES, COPIED_BYTES, NEAR_COPIES, FAR_CYCLES = 500, 2650, 2**23, 0.0007
# Of products of even rows that are known to be faster so untuned: rows, columns and elements of b.
FEW_ROWS, MANY_COLUMNS, LARGE_B = range(64, 513), 2048, 2**22
# Fewer rows of a, whose b is read so: elements of b, columns and terms from which on, and elements
# of one of even rows, which ``mma.sync`` reads in tiles; bytes of b that are read in a cycle
# beyond the estimate, in the geometric mean of runs hot and after 100 MB were written.
LEAST_OF_FEW, FEW_COLUMNS, FEW_TERMS, EVEN_OF_FEW, READ_BYTES = 2**20, 64, 128, 2**21, 3200
# Rows up to which even rows of b are read in tiles by ``mma.sync``, or by `few_rows_half`.
FEWEST = 4
# Multiply-adds of those drawn to compare with copies, and the share of the cycles on copies, as
# estimated, below which reading them as they are is faster: with few rows, with more, and with as
# many as this from which on it is another.
MANY_PRODUCTS, OF_COPIES_OF_FEW, OF_COPIES = 2**26, 0.83, 0.9
MANY_ROWS, OF_COPIES_OF_MANY = 768, 0.98
# Ranges of K that blocks of a cluster take, and fragments of 8 rows of a tile, at most.
RANGES, WIDEST = tuple(range(1, 9)), 32
# Of few rows those to which estimates were fitted.
RANGES_OF_FEW = (1, 2, 4, 8)
# Rows that a narrow tile has all of.
ONE_TILE = 32
TEXTS = (
    "elements.h", "epilogue.h", "operands.h", "mma.h", "barriers.h", "dependent_launch.h",
    "wgmma.h", "exp2.h", "activations.h", "tma.h", "gemm_unaligned.h",
    "gemm_unaligned_operands.h", "cluster_reduce.h", "gemm_unaligned.cu",
)  # fmt: skip


@dataclass(frozen=True)
class Factors:
    """Factors of the estimate.

    Attributes:
        launch: cycles of a launch, with what blocks do before and after their tiles.
        loaded_bytes: that TMA loads into a multiprocessor in a cycle.
        line_along_k, line: bytes as long as which a line of b takes more, by its alignment, where
            b is stored as [n, k] and as [k, n].
        latency: cycles from the release of a stage until it is full again, without its loads.
        gathered, gathered_even: cycles in which a warpgroup gathers its part of b from shared
            memory, where lines have odd lengths, and even ones.
        by_class: share that rows of a take more which are read unaligned: they touch two lines.
        written: cycles of a result.
        exchanged: bytes of partial sums that blocks of a cluster exchange in a cycle.
        aligned_pairs, class_pairs, pairs_of_rows, ranges: shares of the time that multicast of a
            takes more, aligned or by class, that of b less, and ranges of K more.
    """

    launch: int
    loaded_bytes: float
    line_along_k: int
    line: int
    latency: int
    gathered: int
    gathered_even: int
    by_class: float
    written: float
    exchanged: float
    aligned_pairs: float
    class_pairs: float
    pairs_of_rows: float
    ranges: float


# With up to 63 rows, fitted to 174 choices of 47 products, of which the estimate is off by 7% in
# the mean; with more, to 497 choices of 30, which then differ from it by 3.6% in the median, and
# the share of rows read by class to those of 102.
OF_FEW = Factors(4770, 44.2, 41, 25, 2000, 96, 96, 0.7, 0.18, 12, 0.092, 0.028, 0.022, 0.053)
OF_MANY = Factors(5000, 53.3, 188, 219, 2430, 156, 113, 0.6, 0.22, 8.6, 0.032, 0.012, 0.018, 0.008)


def refusal(shape: Gemm, knob: int) -> str | None:
    """Return why operands of a shape cannot be read unaligned, or None."""
    both = Form.of(knob).by_class > 0
    rules = [
        (shape.dtype not in HALVES, "operands must be 16-bit floats"),
        (shape.transpose_a, "a must be stored as [m, k]"),
        (shape.b_row > 0, "rows of b are aligned to 16 bytes"),
        (both and shape.batch > 1, "matrices of a batch have any misalignment"),
        (both and shape.k % VECTOR == 0, "all rows of a are aligned to 16 bytes"),
        (both and shape.m < classes_of(shape.k), "there must be a row of a of each class"),
    ]
    return common.first_broken(rules)


def forms(shape: Gemm) -> list[int]:
    """Return the values of the knob that can read a shape."""
    return [knob for knob in FORMS if refusal(shape, knob) is None]


def candidates(shape: Gemm) -> dict[str, list[int]]:
    """Return the values each knob may take for a shape."""
    rows = common.ceil_div(shape.m, classes_of(shape.k))
    widths = {4, *gemm_tma_tiling.widths(shape.m), *gemm_tma_tiling.widths(rows)}
    widths |= {common.ceil_div(shape.m, 8)} if shape.m <= ONE_TILE else set()
    # Blocks that share a sum reduce whole fragments each.
    whole = {width + -width % ranges for width in widths for ranges in RANGES}
    return {
        KNOB: forms(shape),
        "warps_m": [4, 8, 12],
        "warps_n": [1],
        "frags_m": [1],
        "frags_n": sorted(width for width in whole if width <= WIDEST),
        "chunk": [CHUNK],
        "stages": [2, 3, 4, 5, 6, 8],
        "split": common.up_to(max(1, common.ceil_div(shape.k, 4 * CHUNK)), RANGES),
        "band": [1, 2, 4, 8, 16],
    }


def violation(shape: Gemm, choice: Mapping[str, int], target: Target) -> str | None:
    """Return why a choice cannot run or is sure to be slow, or None."""
    own = candidates(shape).items()
    strange = [
        (common.is_none_of(choice[name], values), f"{name} of another family")
        for name, values in own
    ]
    return (
        refusal(shape, choice[KNOB])
        or common.first_broken(strange)
        or common.first_broken(_rules(choice, shape, target))
    )


def _rules(choice: Mapping[str, int], shape: Gemm, target: Target) -> list[tuple[bool, str]]:
    """Return the rules of `violation`; choices may be arrays of them."""
    tiling, limits, c = Tiling(shape, choice), target.limits, choice
    form = tiling.form
    return [
        (not gemm_wgmma.offered(_whole(shape), target), "no wgmma"),
        (tiling.shared_bytes > limits.shared_bytes_optin, "too much shared memory"),
        (tiling.fits(1, target) == 0, "too many registers"),
        (tiling.tile_m >= 2 * common.larger(tiling.rows, 64), "rows beyond the output"),
        (tiling.tile_n >= 2 * common.larger(shape.n, 64), "columns beyond the output"),
        ((c["band"] > 1) & (c["band"] >= 2 * tiling.clusters_m), "a band beyond the output"),
        (tiling.tile_m % (8 * form.cluster_n) > 0, "multicast of part of a swizzle"),
        (
            (form.cluster_n > 1) & (tiling.tile_n * (form.cluster_n - 1) >= shape.n),
            "a block without columns",
        ),
        (
            (form.cluster_m > 1) & (tiling.tile_m * (form.cluster_m - 1) >= tiling.rows),
            "a block without rows",
        ),
        (tiling.tiles > 2**31 - 1, "too many blocks"),
        *_of_ranges(tiling, target),
    ]


def _of_ranges(tiling: Tiling, target: Target) -> list[tuple[bool, str]]:
    """Return the rules of split-K, whose blocks have one tile each."""
    split, k_tiles = tiling.choice["split"], common.ceil_div(tiling.shape.k, CHUNK)
    return [
        (tiling.cluster_blocks > 8, "a cluster of more than eight blocks"),
        (tiling.k_tiles * (split - 1) >= k_tiles, "an empty range"),
        (tiling.tile_m % (8 * split) > 0, "a reduction of parts of fragments"),
        (
            tiling.sums_bytes > tiling.choice["stages"] * tiling.stage_bytes,
            "sums beyond the pipeline's buffers",
        ),
        (
            (split > 1) & (tiling.tiles * split > tiling.at_a_time(target)),
            "more ranges than run at a time",
        ),
    ]


def estimate(shape: Gemm, choice: Mapping[str, int], target: Target) -> float:
    """Return a rough number of cycles of an H200; choices may be arrays of them."""
    tiling, c = Tiling(shape, choice), choice
    factors = OF_FEW if shape.m < FEW_ROWS.start else OF_MANY
    resident, at_a_time = tiling.resident(target), tiling.at_a_time(target)
    split = c["split"]
    blocks = tiling.tiles * split
    together = common.smaller(resident, common.ceil_div(blocks * resident, at_a_time))
    steps = common.ceil_div(blocks, at_a_time)
    # Products of 64 x 8 x 16 take 4 cycles.
    products = tiling.consumer_warpgroups * 4 * c["frags_n"] * 4
    # Shared memory, 128 bytes a cycle: right operands, gathered left ones, and TMA's writes.
    line_length = shape.k if shape.transpose_b else shape.n
    gathered = factors.gathered if line_length % 2 else factors.gathered_even
    of_k = CHUNK // 16 * tiling.tile_m / 4 + gathered
    shared = tiling.consumer_warpgroups * of_k + tiling.stage_bytes / 128
    # Unaligned rows of a touch two cache lines each; those of b touch more sectors of 32 bytes.
    form, of_b = tiling.form, (CHUNK, tiling.tile_n)
    lines, length = reversed(of_b) if shape.transpose_b else of_b
    of_a = tiling.tile_m * CHUNK * ITEM_BYTES * (1 + factors.by_class * form.by_class)
    more = factors.line_along_k if shape.transpose_b else factors.line
    b_bytes = lines * (ITEM_BYTES * (length + VECTOR) + more)
    loads = (of_a / form.cluster_n + b_bytes / form.cluster_m) / factors.loaded_bytes
    k_tile = common.larger(common.larger(products, shared), loads) * together
    latency = factors.latency + loads
    waiting = common.larger(0.0, latency - (c["stages"] - 1.32) * k_tile) / c["stages"]
    work = tiling.k_tiles * (k_tile + waiting)
    results = tiling.tile_m * tiling.tile_n
    writing = results * factors.written * together / split
    # Blocks of a cluster exchange partial sums when all have theirs.
    writing += (split > 1) * (440 + 4 * results * (1 - 1 / split) / factors.exchanged)
    # Where a is not read unaligned, a kernel before pads it.
    copied = (1 - tiling.by_class) * (shape.k % 8 > 0)
    before = copied * copying_cycles(shape.batch * shape.m * shape.k)
    of_rows = common.pick(form.by_class, factors.class_pairs, factors.aligned_pairs)
    shares = 1 + of_rows * (form.cluster_n - 1) - factors.pairs_of_rows * (form.cluster_m - 1)
    shares += factors.ranges * (split > 1)
    cycles: float = factors.launch + steps * (work + writing) * shares + before
    return cycles


def default_choice(shape: Gemm, target: Target) -> dict[str, int]:
    """Return a good guess for a shape that was never tuned: the best by estimate."""
    options = {**candidates(shape), "stages": [8, 6, 5, 4, 3], "band": [1]}
    if shape.m < FEW_ROWS.start:
        options["split"] = [split for split in options["split"] if split in RANGES_OF_FEW]
    choice = choices.best_of_all(
        options,
        partial(_rules, shape=shape, target=target),
        partial(estimate, shape, target=target),
    )
    # Estimates do not depend on it.
    rows = Tiling(shape, choice).clusters_m
    return choice | {"band": next(band for band in (8, 4, 2, 1) if band == 1 or band < 2 * rows)}


def copying_cycles(elements: int) -> float:
    """Return a rough number of cycles in which an H200 copies so many elements."""
    far = max(0, elements - NEAR_COPIES)
    return COPY_CYCLES + 4 * elements / COPIED_BYTES + FAR_CYCLES * far


def reads_large_b(shape: Gemm) -> bool:
    """Return whether a product has few rows, and a b so large that copies of it are slow.

    On an H200 choices by estimate were 1.08 to 2.0 times as fast as on copies for six such
    products from 512x2049x2049 and 256x4097x1025 on, and on an H100, of 64 to 187 rows, 1.15 to 3
    times as fast as on copies or by ``mma.sync`` for 20 of 20. Others lost: 333x4097x1023,
    197x3071x767 and 16x1001x1003.
    """
    if _has_few_rows(shape):
        far = ITEM_BYTES * shape.n * shape.k >= l2_resident.LEAST
        return far or (shape.m > FEWEST and shape.n * shape.k >= EVEN_OF_FEW)
    if shape.epilogue != Epilogue() or shape.batch > 1 or not forms(shape):
        return False
    return shape.m in FEW_ROWS and shape.n >= MANY_COLUMNS and shape.n * shape.k >= LARGE_B


def _has_few_rows(shape: Gemm) -> bool:
    """Return whether a product has fewer rows, whose results take no time, and a b that does."""
    some = shape.n >= FEW_COLUMNS and shape.k >= FEW_TERMS and shape.n * shape.k >= LEAST_OF_FEW
    few = shape.m < FEW_ROWS.start and shape.batch == 1 and not shape.transpose_a
    return few and some and shape.dtype in HALVES and not shape.by_rows


def cycles_of_few_rows(shape: Gemm, target: Target) -> float:
    """Return the cycles of the untuned choice for few rows, infinity where that cannot run.

    Their geometric mean of runs hot and cold is within a fifth of this for 16 products of 1 to 16
    rows on an H200 by a b of 9 to 182 MB.
    """
    if not _has_few_rows(shape):
        return math.inf
    choice = default_choice(shape, target)
    if violation(shape, choice, target) is not None:
        return math.inf
    run = float(estimate(shape, choice, target))
    return run + ITEM_BYTES * shape.n * shape.k / READ_BYTES


def gains(shape: Gemm, choice: Mapping[str, int], target: Target, cycles_on_copies: float) -> bool:
    """Return whether a choice is known to beat padded copies where nothing was tuned.

    On an H200 estimates and shares were fitted to 47 products of few rows, and to 30 and 93 of
    more. All of ten of fewer than 768 rows with shares of 0.9 to 1.1 were faster on copies; with
    more rows six of nine from 0.9 to 0.98 were as they are, and two of 24 above.
    """
    few = _has_few_rows(shape)
    if not few and (shape.epilogue != Epilogue() or shape.batch > 1):
        return False
    many = few or (shape.m >= FEW_ROWS.start and shape.m * shape.n * shape.k >= MANY_PRODUCTS)
    share = OF_COPIES_OF_MANY if shape.m >= MANY_ROWS else OF_COPIES
    share = OF_COPIES_OF_FEW if few else share
    return many and estimate(shape, choice, target) < share * cycles_on_copies


def kernel(shape: Gemm, choice: Mapping[str, int], stored_k: int = 0) -> SourceKernel:
    """Return the kernel of a choice of knobs.

    Args:
        stored_k: elements from one row of a to the next, where a is a padded copy.
    """
    tiling, stored_k = Tiling(shape, choice), stored_k or shape.k
    if reason := refusal(shape, choice[KNOB]):
        raise TemplateError(f"gemm of {shape.dtype} with unaligned rows: {reason}, got {shape}")
    defines = common.defines(
        m=shape.m, n=shape.n, k=shape.k, c_n=shape.n, cluster=0, tf32=0,
        bfloat16=shape.dtype == "bfloat16", element=1 + HALVES.index(shape.dtype),
        groups=tiling.consumer_warpgroups, tile_m=tiling.tile_m, stages=choice["stages"],
        band=choice["band"], threads=tiling.threads, resident=tiling.resident(HOPPER),
        by_class=tiling.by_class, cluster_m=tiling.form.cluster_m,
        split=choice["split"], cluster_reduce=choice["split"] > 1,
        cluster_n=tiling.form.cluster_n,
        misalignments=tiling.misalignments,
    )  # fmt: skip
    operands = shape.operands()
    operands["A_STRIDE"] = (shape.shared != "a") * shape.m * stored_k
    ranges = choice["split"]
    blocks = tiling.tiles if ranges > 1 else min(tiling.tiles, tiling.at_a_time(HOPPER))
    names = [*first_names(shape), result_name(shape)]
    return common.cuda_kernel(
        shape,
        TEXTS,
        {
            **defines,
            **operands,
            **gemm_wgmma.product_text(tiling.tile_m, loaded=True),
            **gemm_wgmma.begin_and_end(shape.epilogue, False),
            "A_MAPS": tiling.a_maps(stored_k),
            "B_MAPS": tiling.b_maps(),
        },
        [call("gemm_unaligned", names, (blocks, 1, ranges), tiling.threads, tiling.shared_bytes)],
        flags=[f"-arch={ARCH}"],
    )


def _whole(shape: Gemm) -> Gemm:
    """Return a shape whose rows are multiples of 8."""
    return replace(shape, n=shape.n + -shape.n % 8, k=shape.k + -shape.k % 8)
