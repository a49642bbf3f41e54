"""A cost model of products by TMA, which ranks choices where nothing was tuned."""

from __future__ import annotations

from collections.abc import Mapping

from autotune import Target

from .. import common
from ..convolutions.image_planes import plane_of
from ..epilogue import Epilogue
from .gemm_mma import FAR_BYTES, item_bytes
from .gemm_mma import NEAR_BYTES as FAR_FLOATS
from .gemm_shape import HALVES, TF32, Product
from .gemm_tma_tiling import MULTIPROCESSORS, PANEL, WIDE, TmaTiling

# Cycles before the main loop of a block, and after its epilogue.
PROLOGUE = 5000
# Extent of K up to which ping-pong was timed for integers.
SHORT_SUM_OF_INTEGERS = 512
# Cycles of an integer result that ping-pong hides, and more with swapped operands, half of which
# it hides, not written through shared memory: 1520x2224x208 took an H200 9.1 us by 128x224 tiles,
# 7.2 by ping-pong.
SHOWN_INTEGERS, SWAPPED_INTEGERS = 0.17, 0.12
# Extent of K up to which that was timed.
SHOWN_SUM = 1024
# Cycles of a result that persistent kernels take longer with swapped operands, stored by two boxes
# in turn: 3200 took an H200 111.6 us so, and 102.5 otherwise, and 2304x3712x1664 45.3 and 40.
SWAPPED_STORES = 0.2
# Bytes of partial sums that a multiprocessor moves in a cycle, and where the operands are so large
# that they do not stay in the L2 cache, which these share.
SUMS, FAR_SUMS, NEAR_BYTES = 9.9, 3.0, 40 * 2**20
# Cycles of a term of few rows of 16-bit floats stored as [k, m], whose boxes have short rows. Of
# 127 choices of 22 products on an H200 those of the least estimates took 1.16 times as long as the
# fastest without this, and so 1.02 times.
SHORT_ROW = 9.0
# Cycles of a result more that is written as part of a plane of an image.
PLANES = 0.15
# Share of the cycles of K tiles of a b that swapped operands stream once, with ranges of K reduced
# within clusters, and extent of K from which on.
STREAMED, LEAST_STREAMED = 0.58, 1024
# Cycles of a float of unaligned rows beyond those of whole sectors, in strips and with swapped
# operands: 116 of 360x165x42 tt took an H200 21.0 us in strips, 33.9 swapped.
IN_STRIPS, ACROSS_UNALIGNED = 0.12, 0.2
# By how much longer K tiles of 16-bit floats take whose columns are an odd number of fragments, of
# fewer than so many: 136x1696x3336 nt took an H200 13.6 us by 5, 9.9 by 6, 672x280x816 4.7 and
# 3.9, but 160x1360x1672 5.9 and 6.3. Twelve products whose choice it changes take 0.93 of the time
# before in the geometric mean, seven by wider tiles took 1.03. The cause is not known.
ODD_FRAGMENTS, NARROW = 0.05, 8
# By how much less K tiles take in pairs of blocks that split K, with swapped operands, and of how
# many times as many columns as rows of c.
PAIRED, STREAMS = 0.1, 4
# By how much longer products take if a left operand of 64 rows comes from registers, and of 128
# floats of one warpgroup, which loads the second half while the first is multiplied: of seven
# pairs of tiles of four products as TF32, and of 13 drawn ones that it changes, those of two
# warpgroups took an H200 0.82 to 1.01 of the time, 0.96 in the geometric mean; of seven of
# integers 0.94 to 1.12, 1.02 in the mean.
REGISTERS_ALONE, REGISTERS_HALVES = 0.5, 0.1


def estimate(
    shape: Product, choice: Mapping[str, int], target: Target, strips: bool = False
) -> float:
    """Return a rough number of cycles: the slower of products and loads, and their overheads.

    The constants were fitted to 1010 choices for 50 shapes from 197x3072x768 to 4096 on an H200,
    the fast ones above all; those of loads, and of clusters, once more to 866 for 71 products,
    those of split-K to 3300 for 97, and those of clusters of 16-bit floats to 576 for 44 on an
    H100. Choices may be arrays of them.

    Args:
        strips: whether rows of c are unaligned, and written in strips.
    """
    tiling, c = TmaTiling(shape, choice), choice
    form, split = tiling.form, c["split"]
    sms = target.limits.sm_count if target.limits.sm_count > 1 else MULTIPROCESSORS
    resident = tiling.resident(target)
    blocks = tiling.tiles * split
    steps = common.ceil_div(blocks, sms * resident)
    together = common.smaller(resident, common.ceil_div(blocks, sms))
    work = tiling.k_tiles * _k_tile_cycles(tiling, together, _crowding(blocks / together, steps))
    # Blocks of a cluster synchronise first.
    others = form.cluster_m + form.cluster_n - 2
    cluster_sync = 600 * (others > 0) + 40 * others
    # The epilogue.
    writing = _writing_cycles(tiling, strips) * together
    writing /= common.pick(form.cluster_reduce, split, 1)
    # Blocks of a cluster exchange partial sums, 12 bytes a cycle, when all have theirs.
    writing += form.cluster_reduce * (
        600 + 4 * tiling.tile_m * tiling.tile_n * (1 - 1 / split) / 12
    )
    work = common.larger(work * _cluster_factor(tiling), tiling.k_tiles * _least_cycles(tiling))
    ends = PROLOGUE + writing
    # A second kernel is launched, reads partial sums from the L2 cache and stores results.
    reducing = ((split > 1) & (form.cluster_reduce == 0)) * (
        2500 + 4 * (split + 1) * tiling.part_size / (_sums_rate(shape) * sms)
    )
    # Persistent blocks have one prologue. With ping-pong one warpgroup multiplies during the
    # epilogue of the other; what the fit to 16-bit floats has for that counts a prologue a tile.
    # Long sums of integers were not timed otherwise.
    short = tiling.integers and shape.k <= SHORT_SUM_OF_INTEGERS
    between = 480 + writing if short else ends
    ping_pong = common.larger(work, (work + between) / tiling.tiles_in_flight)
    persistent = common.pick(form.schedule > 1, ping_pong, work + 480 + writing)
    # Blocks of a cluster wait for each other from tile to tile: most were 1 to 2% slower.
    persistent *= 1 + 0.015 * (form.cluster_m - 1)
    one = common.pick(form.persistent, persistent, work + ends)
    once = common.pick(form.schedule > 1, ends, PROLOGUE * form.persistent)
    cycles: float = cluster_sync + steps * one + once + reducing
    # Large operands are read from memory; for other types only choices of one shape are compared.
    read = sum(argument.bytes for argument in shape.arguments()[:2])
    if shape.dtype != TF32 or shape.gathers or read <= FAR_FLOATS:
        return cycles
    far: float = (cycles**4 + (read / FAR_BYTES) ** 4) ** 0.25
    return far


def _is_few_across(shape: Product) -> bool:
    """Return whether a has few rows of 16-bit floats, and is stored as [k, m]."""
    few = shape.transpose_a and shape.m < PANEL and shape.batch == 1
    return few and shape.dtype in HALVES and not shape.gathers


def _sums_rate(shape: Product) -> float:
    """Return the bytes of partial sums that a multiprocessor moves in a cycle."""
    of_b = shape.batch * shape.n * shape.k * item_bytes(shape)
    return FAR_SUMS if of_b > NEAR_BYTES and shape.dtype in HALVES else SUMS


def _cluster_factor(tiling: TmaTiling) -> float:
    """Return how much longer the K tiles of a block take because of the others of its cluster."""
    form, split = tiling.form, tiling.choice["split"]
    sharing = form.cluster_m * form.cluster_n
    # Those that read other ranges of K make it slower if they share nothing, or are many: more so
    # with swapped operands, and with wide tiles of these: 155x872x4224 took an H200 8.8 us in such
    # clusters by tiles of 64x96 with four ranges, and 7.6 by others. The cause was not found.
    # Pairs with swapped operands are faster than blocks alone where these stream a large b for few
    # rows: 256x1600x4096 nt took an H200 8.4 us so and 10.3, but 512x512x8192 14.9 and 9.8. Of few
    # rows stored as [k, m] more ranges are too: 24x4560x2016 tn took 7.7 us by four.
    partial = tiling.n % tiling.tile_n > 0
    many, single = split > 2, sharing == 1
    streams = tiling.m >= STREAMS * tiling.n
    few_across = _is_few_across(tiling.shape)
    pair = form.swapped * single * (split == 2) * streams
    apart = single * (1 - pair) * (1 - few_across * form.swapped)
    several = (0.15 + 0.1 * form.swapped) * (sharing > 1) * many
    several = several + 0.2 * form.swapped * many * (tiling.tile_n > PANEL)
    reducing = 0.04 + several + 0.4 * apart - PAIRED * pair + 0.05 * partial
    factor: float = 1 + form.cluster_reduce * reducing
    # Where one tile has all rows, and the L2 cache the other operand: 32x1024x6144 nt took an H200
    # 4.1 us so, 7.1 by `gemm_skinny`.
    near = tiling.shape.batch * tiling.shape.n * tiling.shape.k * tiling.item <= NEAR_BYTES
    streamed = form.swapped * form.cluster_reduce * (tiling.tile_n >= tiling.n) * (split <= 4)
    streamed = streamed * (tiling.tile_n <= PANEL // 2)
    long = tiling.shape.k >= LEAST_STREAMED
    streamed = streamed * (near and long and not few_across)
    factor = factor * (1 - (1 - STREAMED) * streamed)
    if tiling.shape.dtype not in HALVES:
        return factor
    # Large clusters suffer less from the order in which others read the same lines, if many K
    # tiles are in flight. Single blocks are faster with such short ones too: by 4% for 24 of 29
    # pairs of configurations of three products on an H100.
    short = tiling.choice["chunk"] == PANEL
    alone = 0.03 * (sharing == 1) * (form.cluster_reduce == 0) * (1 - short)
    width = tiling.choice["frags_n"]
    odd = ODD_FRAGMENTS * (width % 2) * (width < NARROW) * (form.cluster_reduce == 0)
    odd = odd * (not tiling.shape.gathers)
    return factor * (1 + odd + alone - short * (0.07 * (sharing > 2) + 0.05 * (sharing > 4)))


def _writing_cycles(tiling: TmaTiling, strips: bool) -> float:
    """Return the cycles of the epilogue of a block and of its stores."""
    epilogue, swapped = tiling.shape.epilogue, tiling.form.swapped
    results = tiling.tile_m * tiling.tile_n
    # Sectors of 32 bytes that two tiles share are written twice (of unaligned rows any tiles share
    # some), and boxes of few rows slowly.
    # Ping-pong hides stores of integers, of four bytes each: 1858x1696x224 nt took an H200 7.2 us
    # by 192x144 tiles, 6.1 so.
    shown = SHOWN_INTEGERS * (tiling.form.schedule < 2) * (tiling.shape.k <= SHOWN_SUM)
    shown = shown + SWAPPED_INTEGERS * swapped / tiling.tiles_in_flight
    each = (0.16 + shown if tiling.integers else tiling.item / 81) + 0.11 * (
        tiling.choice["frags_n"] % 2
    ) * (1 - swapped) * (not strips)
    boxes = swapped * tiling.smem_epilogue * tiling.form.persistent
    if plane_of(tiling.shape):
        boxes, each = 0, each + PLANES
    each += 0.1 * boxes * (32 / tiling.box_rows - 1)
    each += SWAPPED_STORES * boxes * (not tiling.integers)
    # A warpgroup alone waits for its stores, where no other one multiplies meanwhile: 181 of
    # 87x224x56 nt took 6.8 us by tiles of 128x112 of one, and 5.6 of two (one H100).
    each += 0.045 * (tiling.form.schedule == 1) * (tiling.tile_warpgroups == 1)
    # Results of 4 bytes of odd rows are written one by one, others in pairs that share sectors;
    # swapped, eight neighbours at once. The factors fit 150 choices of ten products as TF32 on an
    # H100.
    if tiling.floats or tiling.integers:
        columns, whole = tiling.shape.n, tiling.choice["split"] == 1
        uneven = 1.2 if columns % 2 else 0.15 * (columns % 8 > 0)
        uneven = common.pick(tiling.float_strip_bytes > 0, IN_STRIPS, uneven) * (1 - swapped)
        unaligned = tiling.floats and columns % 8 > 0 and not tiling.shape.gathers
        across = ACROSS_UNALIGNED if unaligned else 0.0
        each += (uneven + across * swapped) * whole
    if epilogue != Epilogue(alpha=epilogue.alpha):
        each += (8 + 8 * (epilogue.has_powers)) / 64
    # Where warpgroups multiply one after another, the others store meanwhile.
    cycles: float = results * each / common.pick(tiling.ordered > 0, tiling.tile_warpgroups, 1)
    return cycles


def _crowding(blocks: float, steps: int) -> float:
    """Return how much longer loads take where multiprocessors of a GPC share a port to the cache.

    The times fit an H200 of 8 GPCs with 16 to 18 multiprocessors each: up to 128 blocks are spread
    evenly, of 130 the largest GPC has 18, and all wait for it.
    """
    most = common.pick(steps > 1, 17.9, common.pick(blocks <= 128, blocks / 8, 18.0))
    crowding: float = common.larger(1.0, most / 16)
    return crowding


def _least_cycles(tiling: TmaTiling) -> float:
    """Return the cycles that the products of a K tile take at least, where tensor cores are busy.

    Narrow tiles leave them idle while they wait, so large clusters may speed them up; others they
    do not. On an H200 512x4096x14336 nt took 103.5 us in clusters of eight with tiles of 128x144,
    whose products alone take as long, and 92.6 with 128x128.
    """
    c = tiling.choice
    busy = (c["frags_n"] >= WIDE) & (tiling.tile_m > 64)
    return busy * _products_cycles(tiling)


def _products_cycles(tiling: TmaTiling) -> float:
    """Return the cycles of the products of a K tile.

    Those of 64 x 8 x 32 bytes take 4 unless the device is throttled; narrow ones wait for their
    left operand, and three warpgroups contend. A warpgroup with 64 rows alone multiplies nothing
    while it loads its left operand to registers: 256 filters of 3x3 on 8x28x28 as TF32 took an
    H100 44.0 us by tiles of 64x200, and 30.9 of 128x96.
    """
    c = tiling.choice
    columns = c["frags_n"] / tiling.joined
    one = common.larger(columns * 5.55 + 4, 32 + columns * 3.6)
    products = tiling.tile_warpgroups * c["frags_m"] * c["chunk"] * tiling.item / 32 * one
    one_group = tiling.left_in_registers * (tiling.tile_warpgroups == 1)
    alone = one_group * common.pick(
        c["frags_m"] == 1, REGISTERS_ALONE, REGISTERS_HALVES * tiling.floats
    )
    cycles: float = products * (1 + 0.04 * (tiling.tile_warpgroups > 2) + alone)
    return cycles


def _k_tile_cycles(tiling: TmaTiling, together: int, crowding: float) -> float:
    """Return the cycles of a K tile where a multiprocessor runs ``together`` blocks."""
    # TMA loads 66 bytes a cycle into a multiprocessor, and 50 where some are multicast.
    c, form = tiling.choice, tiling.form
    products = _products_cycles(tiling)
    loads = tiling.loaded_bytes * crowding / 66
    if _is_few_across(tiling.shape):
        loads = common.larger(loads, SHORT_ROW * c["chunk"])
    # Where both take long they contend.
    cycles = (products**6 + loads**6) ** (1 / 6)
    # A stage that is filled anew waits for the slowest block of a cluster.
    others, again = form.cluster_m + form.cluster_n - 2, tiling.k_tiles > c["stages"]
    multicast = tiling.stage_bytes / 50 * (others > 0) * again
    cycles = common.larger(cycles, multicast) * together
    # A stage is released in the middle of the next K tile, and full again a latency later: longer
    # where other blocks have to release it too.
    apart = others**0.5 if tiling.shape.dtype in HALVES else others
    latency = 1150 + 370 * apart + loads
    waiting = common.larger(0.0, latency - (c["stages"] - 1.32) * cycles) / c["stages"]
    # Registers of a left operand are loaded when the products before have read them.
    total: float = cycles + waiting * again + 11 + 2 * others + 60 * tiling.left_in_registers
    return total
