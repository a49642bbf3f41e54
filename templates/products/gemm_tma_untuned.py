"""What runs by TMA where nothing was tuned, and by which choice of knobs."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from autotune import Target

from .. import choices, common
from ..epilogue import Epilogue
from . import gemm_wgmma
from .gemm_shape import HALVES, TF32, Product
from .gemm_tma_estimate import NEAR_BYTES, estimate
from .gemm_tma_form import KNOB, Form
from .gemm_tma_rules import LARGEST_BOX, Rules, rules, violation
from .gemm_tma_space import FEW_RESULTS, LARGEST_TILE, candidates
from .gemm_tma_tiling import MULTIPROCESSORS, PANEL, TmaTiling, in_place, in_registers

# Results up to which all tiles run in one wave; with more, swapped strips were slower.
ONE_STEP = MULTIPROCESSORS * LARGEST_TILE
# Vectors of 8 columns up to which one warpgroup writes a tile in strips faster than two.
NARROW_STRIPS = 20
# Rows, columns and extent of K from which on unaligned results gain by strips.
LEAST_IN_STRIPS = 192
# Columns up to which few rows of an a that is stored as [k, m] are loaded by TMA.
FEW_COLUMNS = 1024
# And where TMA gains for more columns: fewest rows and terms; rows and columns from which on few
# rows have only so many terms.
LEAST_ROWS, LEAST_ACROSS, FEWER_ROWS, MANY_COLUMNS, LONG_OF_FEW = 16, 640, 24, 2048, 2048
# Rows of such an a up to which swapped operands with ranges of K in clusters gain.
MOST_BY_RANGES = 32
# Extent of K from which on products with a residual gain without split-K too.
LONG_SUM = 256
# Multiply-adds of floats as TF32, and terms of a sum, up to which ``mma.sync`` is as fast: nine
# with more terms and 2^20 to 2^22 multiply-adds took an H100 1.2 to 4.3 times as long without TMA.
TINY_FLOATS, FEW_TERMS = 2**22, 128
# Multiply-adds, and extent of K, from which on convolutions as TF32 gain whatever their channels.
LEAST_PRODUCTS, LEAST_SUM = 2**23, 65
# Cycles of a multiprocessor for a result of short sums of floats more with swapped operands, whose
# rows are odd, where blocks store alone and do not multiply meanwhile; up to so many results and
# terms. Four products took an H200 0.72 to 0.94 of the time so:
# 4608x1115x104 17.0 us instead of 18.9.
ALONE_ODD, NEAR_RESULTS, SHORT_SUM_OF_FLOATS = 0.125, 2**24, 128
# Terms of a range of K of floats from which on longer K tiles gain, of half as many stages, where
# an operand is not K-major, and the stages that this takes: 472x156x61864 took an H200 69.7 us so
# instead of 75.9, 1536x768x3072 26.3 and 28.2; with 3 stages instead of 6 six others took 0.96 to
# 1.05 of the time.
LONG_ACROSS, DEEP = 2048, 8
# Estimated cycles of convolutions up to which `cp.async`, with its shorter prologue, is faster.
CONVOLUTION_RUN = 12000
# Estimates of those of 16-bit floats, in parts of that of `gemm_wgmma`, up to which TMA is faster.
FASTER, FASTER_SHORT = 0.94, 0.7
# Rows, extent of K and multiply-adds of integers up to which ``mma.sync`` is as fast.
FEW_ROWS, SHORT_SUM, FEW_PRODUCTS = 32, 64, 2**25
# Results from which on sums as short as that gain too, unless an operand has to be copied.
MANY_INTEGERS = 2**21
# Integers of a b along the sum from which on few rows gain.
MANY_STREAMED = 43_000_000
# Extent of K from which on fewer rows need split-K, which ``mma.sync`` has of floats only.
SPLIT_SUM = 4096


def wins(shape: Product, choice: Mapping[str, int], target: Target) -> bool:
    """Return whether a choice is known to beat other families where nothing was tuned.

    Since launches overlap, what comes before a block's first load costs nothing. On an H200 TMA
    was faster than `gemm_wgmma` for 37 of 41 products of 16-bit floats whose epilogue is in place,
    of 16 to 2495 rows, by up to 3.1 times, and at worst 0.94 times as fast. Where a is stored as
    [k, m] with m below 64, `gemm_wgmma` was 1.02 to 1.8 times as fast as that for seven of eight
    with 2048 and more columns, but for five of up to 1024 columns TMA was 1.2 to 2.4 times as
    fast. Many residuals took longer by TMA, so that short sums do not gain, and long ones do:
    320x24x12192 took 5.0 us, 13.1 before, and on an H100 ten from 1500x512x256 to 4096x1280x1280
    1.05 to 1.6 times as long without. As TF32 TMA was 1.04 to 2.7 times as fast as ``mma.sync``
    and `gemm_wgmma` for nine of ten products of 4e6 multiply-adds and more, and 0.94 times for
    30x7872x11008. On an H100 it was for all of eleven of 16 to 60 rows, both operands K-major, by
    up to 8.4 times (16x64x30000: 6.5 us instead of 54.6), but for that one (0.95), and on an H200
    for 24x5612x12248 nt (74.5 us, by `gemm_wgmma` 78.6).

    Of 23 layers of 3x3 filters it did for 18 of the 19 that take 7 us and more, the other took as
    long, and for one of four shorter ones: a block first writes its tensor map. With a residual it
    did for all three. As TF32 it did for four such layers, 1.13 to 1.43 times as fast, not for
    8x7x7 pixels (0.95) and 64 filters (0.9).
    """
    if shape.dtype == "int8":
        suits = suits_integers(shape) or streams_integers(shape)
        return suits and violation(shape, choice, target) is None
    if shape.dtype == TF32:  # `gemm_wgmma` reads no such a
        slow = shape.gathers or shape.k <= FEW_TERMS
    else:
        gains = gains_across(shape) or gains_by_ranges(shape, choice)
        slow = shape.transpose_a and shape.n > FEW_COLUMNS and not gains
    if (shape.m < PANEL and slow) or violation(shape, choice, target):
        return False
    if shape.gathers:
        return _wins_for_windows(shape, choice, target)
    results = shape.batch * shape.m * shape.n
    if shape.dtype == TF32 and (in_place(shape.epilogue) or results < FEW_RESULTS):
        return results * shape.k > TINY_FLOATS or shape.k > FEW_TERMS
    if not in_place(shape.epilogue):
        return choice["split"] > 1 or shape.k >= LONG_SUM
    return suits_strips(shape) if shape.n % 8 > 0 else True


def gains_across(shape: Product) -> bool:
    """Return whether few rows of an a stored as [k, m] gain by TMA for more columns too.

    `gemm_wgmma` is slower where rows of b are not aligned to lines of the cache, which its
    estimate does not know: 48x1104x1056 took an H200 5.5 us so and 3.4 by TMA, 24x5544x1320 tt 8.5
    and 6.9, 16x1368x6704 9.3 and 8.4, but 40x2048x4096 an H100 6.7 and 8.7. Of sums below 640 five
    of six were slower by TMA, as were a b beyond the L2 cache, fewer than 16 rows, and up to 24
    with long sums of many columns: 24x3440x5112 14.0 and 10.0.
    """
    aligned = shape.b_run % PANEL == 0
    near = shape.batch == 1 and 2 * shape.n * shape.k <= NEAR_BYTES
    long = LEAST_ACROSS <= shape.k <= _longest(shape)
    return not aligned and near and long and shape.m >= LEAST_ROWS and in_registers(shape)


def gains_by_ranges(shape: Product, choice: Mapping[str, int]) -> bool:
    """Return whether 16 to 32 rows of an a stored as [k, m] gain by swapped operands and split-K.

    In clusters, hot and after 100 MB were written: 32x4096x4096 tt took an H200 9.0 us and 14.4
    so, by `gemm_wgmma` 9.5 and 17.2, 24x5376x904 5.5 and 8.5 instead of 6.9 and 8.9, 32x3488x9144
    19.5 and 25.4 instead of 20.0 and 26.6; but without split-K 24x24528x1432 24.0 instead of 21.9,
    of 8 rows 8x4056x8904 39.2 instead of 23.5, and 56x2048x2048 tt 6.8 instead of 6.4.
    """
    form = Form.of(choice[KNOB])
    ranges = form.cluster_reduce > 0 and form.swapped > 0
    rows = LEAST_ROWS <= shape.m <= MOST_BY_RANGES
    long = LEAST_ACROSS <= shape.k <= _longest(shape)
    return rows and ranges and shape.batch == 1 and long


def _longest(shape: Product) -> int:
    """Return the longest sum of few rows of an a stored as [k, m] that gains by TMA."""
    limited = shape.m <= FEWER_ROWS and shape.n > MANY_COLUMNS
    return LONG_OF_FEW if limited else shape.k


def _wins_for_windows(shape: Product, choice: Mapping[str, int], target: Target) -> bool:
    """Return whether a convolution is faster by TMA in im2col mode than by ``cp.async``.

    TMA loads a box of 128 bytes for each pixel and tap, however few channels are in it, and a
    block first writes its tensor map. On an H200 48 layers drawn with 5 to 600 channels took 1.04
    times as long as by the fastest instruction, by this rule and that of `conv2d_padded`; of those
    by ``wgmma`` the worst, of 217 channels by 2x2 filters, took 1.26 times.
    """
    run = float(estimate(shape, choice, target))
    if shape.dtype == TF32 and shape.n <= PANEL:
        return beats_mma_as_tf32(shape)
    if shape.dtype not in HALVES:
        return run > CONVOLUTION_RUN
    factor = FASTER if run > CONVOLUTION_RUN else FASTER_SHORT
    other = gemm_wgmma.default_choice(shape, target)
    return run < factor * float(gemm_wgmma.estimate(shape, other, target))


def beats_mma_as_tf32(shape: Product) -> bool:
    """Return whether a convolution as TF32 is faster by TMA than by ``mma.sync``.

    On an H200 it was for 12 of the 14 of 28 drawn layers with as many products, of 7 to 400
    channels, 1.05 to 2.6 times as fast, on copies or not, and for one of the 14 others.
    """
    return shape.batch * shape.m * shape.n * shape.k >= LEAST_PRODUCTS and shape.k >= LEAST_SUM


def suits_integers(shape: Product) -> bool:
    """Return whether products of integers run by TMA untuned, else by ``mma.sync``.

    On an H200 TMA made 11 of 15 products 1.01 to 2.6 times as fast, among them 32x4096x4096 and
    96x1000x512; 16x4096x4096, 1024x1024x64, 256 and 64x512x512 lost. Of few rows with long sums
    20x258x39433 took 95 us by ``mma.sync``, and 2048x2048x64 nt 8.2, by TMA 6.2.
    """
    products = shape.batch * shape.m * shape.n * shape.k
    many = shape.m >= FEW_ROWS or shape.k >= SPLIT_SUM
    written = shape.batch * shape.m * shape.n >= MANY_INTEGERS and shape.transpose_b
    long = shape.k > SHORT_SUM or (written and shape.k == SHORT_SUM)
    return many and long and products >= FEW_PRODUCTS


def streams_integers(shape: Product) -> bool:
    """Return whether few rows of integers by a large b along the sum run by TMA untuned.

    ``mma.sync`` has few loads in flight: 11x39984x2560 nt took an H200 35.2 us so, by TMA 28.5.
    """
    along_k = shape.transpose_b and not shape.transpose_a and not shape.gathers
    return along_k and shape.n * shape.k >= MANY_STREAMED


def suits_strips(shape: Product) -> bool:
    """Return whether a product with unaligned rows of results runs by TMA untuned.

    On an H200 those were 5 to 73% faster for six such shapes with b as [n, k], from 197x1001x768
    to 1024x50257x768.
    """
    odd = shape.n % 8 > 0 and shape.a_run % 8 == 0 and shape.b_run % 8 == 0
    long = min(shape.m, shape.n, shape.k) >= LEAST_IN_STRIPS
    return odd and long and shape.epilogue == Epilogue() and shape.dtype in HALVES


def default_choice(
    shape: Product,
    target: Target,
    strips: bool = False,
    swapped: int | None = None,
    free_bytes: int = 0,
    ranges: bool = False,
) -> dict[str, int]:
    """Return a good guess for a shape that was never tuned: the best by estimate.

    Of choices that are as good the first has the deepest pipeline, and tall tiles.

    Args:
        strips: whether rows of c are unaligned, and only tiles count that are written in strips.
        swapped: whether operands are; None leaves it open, except for TF32: `_swapped_as_tf32`.
        free_bytes: shared memory of a multiprocessor that is left to the kernel before, so that
            blocks start while it ends.
        ranges: whether blocks may share sums though rows of c are unaligned: these are written
            pair by pair.
    """
    options = candidates(shape)
    if swapped is None and shape.dtype == TF32 and not shape.gathers:
        swapped = _swapped_as_tf32(shape)
    if swapped is not None:
        options[KNOB] = [knob for knob in options[KNOB] if Form.of(knob).swapped == swapped]
    if strips:
        swaps = shape.batch * shape.m * shape.n <= ONE_STEP
        some = [Form.of(knob) for knob in options[KNOB]]
        alone = [f for f in some if f.cluster_m * f.cluster_n == 1 and not f.cluster_reduce]
        alone = [f for f in alone if f.swapped <= (swaps and not f.persistent)]
        reducing = [f for f in some if f.cluster_reduce and ranges]
        options |= {KNOB: [form.knob for form in (*alone, *reducing)]}
        options |= {} if ranges else {"split": [1]}
    if shape.dtype == TF32:
        # Longer K tiles took as long in 12 pairs of configurations. Narrow tiles load an implicit
        # left operand again and again: 56 columns took 18.2 us, 128 with split-K 14.3 (256
        # channels, eight images of 14x14).
        least = PANEL if shape.gathers and not swapped else 0
        wide = [width for width in options["frags_n"] if 8 * width > least]
        options |= {"chunk": options["chunk"][:1], "frags_n": wide}
    few = min(shape.m, shape.n) < 8 * LARGEST_BOX
    options |= {
        "frags_m": [2, 1],
        "stages": [8, 6, 5, 4, 3, 2] if shape.k < 256 else [8, 6, 5, 4, 3],
        "band": [8, 4, 2, 1] if few else [8],
    }
    choice = choices.best_of_all(
        options,
        partial(_untuned_rules, strips=strips, free_bytes=free_bytes, shape=shape, target=target),
        partial(_untuned_cycles, strips=strips, shape=shape, target=target),
    )
    choice = _with_longer_k_tiles(shape, choice, target)
    return choice | {"band": _band(shape, choice)}


def _with_longer_k_tiles(shape: Product, choice: dict[str, int], target: Target) -> dict[str, int]:
    """Return a choice with K tiles of twice the length where threads load them to registers."""
    across = shape.transpose_a or not shape.transpose_b
    long = shape.k // choice["split"] >= LONG_ACROSS and choice["stages"] >= DEEP
    if shape.dtype != TF32 or shape.gathers or not (across and long):
        return choice
    longer = choice | {"chunk": 2 * choice["chunk"], "stages": choice["stages"] // 2}
    return choice if violation(shape, longer, target) else longer


def _untuned_cycles(every: Mapping[str, Any], strips: bool, shape: Product, target: Target) -> Any:
    """Return the estimate, with what odd rows of floats take in blocks that store alone."""
    cycles = estimate(shape, every, target, strips=strips)
    results = shape.batch * shape.m * shape.n
    near = results <= NEAR_RESULTS and shape.k <= SHORT_SUM_OF_FLOATS
    if shape.dtype != TF32 or shape.gathers or shape.n % 2 == 0 or not near:
        return cycles
    form = Form.of(every[KNOB])
    alone = form.swapped * (form.persistent == 0) * (every["split"] == 1)
    return cycles + ALONE_ODD * alone * results / common.multiprocessors(target)


def _swapped_as_tf32(shape: Product) -> int | None:
    """Return whether operands are best swapped as TF32: where a is K-major, as it must be then.

    Rows that are no whole sectors may be written in strips otherwise: it is left open.

    A residual is read in pairs where they are not: on an H100 3552x96x416 nt took 11.7 us swapped
    and 6.4 to 9.4 otherwise, 2048x2048x1024 nt 40.9 and 34.1.
    """
    if shape.transpose_b and not shape.transpose_a and shape.n % 8 > 0:
        return None
    pairs = not in_place(shape.epilogue) and shape.transpose_b and shape.n % 2 == 0
    return int(not shape.transpose_a and not pairs)


def _untuned_rules(
    every: Mapping[str, Any], strips: bool, free_bytes: int, shape: Product, target: Target
) -> Rules:
    """Return the rules, and those that leave out choices known to be slow.

    Tiles may take long to write in strips. On an H100, of 23 products with unaligned rows from 900
    to 2047 whose best tile by estimate was such a one, the best of the others was faster for all,
    by 0.5 to 25%; wider tiles of two warpgroups were mostly as fast or faster.
    """
    shared_bytes = TmaTiling(shape, every).shared_bytes
    slow = (every["warps_m"] == 8) & (every["frags_n"] <= NARROW_STRIPS)
    return [
        *rules(every, shape, target),
        (strips & slow, "strips of narrow tiles by two warpgroups"),
        (
            shared_bytes > target.limits.shared_bytes_optin - free_bytes,
            "too much shared memory beside the kernel before",
        ),
    ]


def _band(shape: Product, choice: Mapping[str, int]) -> int:
    """Return the tiles of M that are rasterised before the next of N: a divisor of their number.

    On an H200, of 68 products of 16-bit floats that are one tile a block, 4, or else 2, was 1.9%
    faster than 8 in the mean, up to 24% (384x1024x4096) and at most 1.2% slower. Split-K within a
    cluster, multicast of B among four blocks, and persistent kernels gained nothing. With three
    times as many tiles along M as along N, which swapped operands have, 1 is faster, as blocks
    that run together then share the larger operand's tiles: 256x1216x3328 took 11.4 us by 8 on an
    H100, 9.0 by 1, 320x2048x1536 6.4 and 5.1 (by 4 5.2). As TF32 blocks alone gain too:
    125x3264x2400 nt took an H200 13.1 us by 8, 10.6 by 1; in pairs 960x1856x3264 nt took 37.4 by 8
    and 42.1 by 4. In clusters of 2x2 blocks 2 took 0.94 to 0.99 of the time of 8, for all of five
    products (an H100: 368x2560x720 9.1 us by 8, 8.6 by 2).
    """
    tiling = TmaTiling(shape, choice)
    form = tiling.form
    if shape.dtype == TF32 and not shape.gathers and form.cluster_m == form.cluster_n == 2:
        return form.cluster_m
    alone = form.cluster_m * form.cluster_n == 1
    plain = not shape.gathers and (shape.dtype in HALVES or (shape.dtype == TF32 and alone))
    if not plain or form.persistent or form.cluster_reduce or form.cluster_m > 2:
        return choice["band"]
    rows, columns = tiling.blocks
    bands = (1,) if alone and rows >= 3 * columns else (4, 2)
    return next((band for band in bands if rows % band == 0), choice["band"])
