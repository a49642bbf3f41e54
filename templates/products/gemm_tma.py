"""Warp-specialised matrix multiplication by ``wgmma``, with operands loaded by TMA.

In `gemm_wgmma` 128 threads of a block copy 16 bytes at a time (``cp.async``). Here one producer
thread issues TMA loads of boxes, which arrive swizzled for ``wgmma``, and an mbarrier counts their
bytes. What follows from it:

- A tensor map describes a matrix to TMA; `tensor_map` says how a map that is a constant of the
  program serves plain pointers. Rows of a and b must be aligned to 16 bytes.
- Where a shape has many tiles, the kernel can be persistent: the loads of the next tile start
  during the epilogue. With ping-pong one consumer warpgroup runs its epilogue
  while the other multiplies: with short sums, prologue and epilogue take half of the time.
- Of NHWC images TMA loads the filter's inputs of a tile's pixels in im2col mode
  (`implicit_gemm_tma`).
- As TF32, ``wgmma`` reads the right operand K-major only, but the left one from registers too,
  where threads load either layout. So b may be stored as [k, n] where operands are swapped, and a
  as [k, m] where they are not.
- Blocks of a cluster with tiles of the same columns can load a part of b each for all (multicast),
  and those with the same rows a part of a: two, four or eight blocks, in one row or in several.
- Where a shape has too few tiles to fill the device, ``split`` blocks take a range of K each
  (split-K): a second kernel reduces their partial sums, or they are in a cluster, and each reduces
  its share of the tile's columns through distributed shared memory. Blocks of several tiles in
  such a cluster multicast too.
- Results of 16 bits are stored by TMA too, in whole cache lines.
- Tiles have any multiple of 8 columns, so that as many of them as there are multiprocessors cover
  a result of any size. Boxes of MN-major operands are best whole cache lines: then the
  operands are swapped (swap AB), and rows of tiles are columns of c, a multiple of 64.

CUTLASS has kernels of this kind under the names "persistent", "cooperative" and "ping-pong" (its
documentation, "Efficient GEMM in CUDA", of warp-specialized kernels for Hopper), and "swap AB".
The knobs are those of `gemm_wgmma`, and mean the same for the warpgroups of a tile. ``wgmma``, the
knob by which `gemm_half` selects a family, selects the form of the kernel: see `Form`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from autotune import SourceKernel, Target, call, workspace
from autotune.errors import TemplateError
from autotune.kernel import KernelCall

from .. import choices, common, tensor_map
from ..convolutions import implicit_gemm_tma
from ..convolutions.conv2d_nhwc import AcrossGroups, Conv2dNhwc
from ..epilogue import Epilogue
from . import gemm_wgmma
from .gemm_mma import depth
from .gemm_shape import HALVES, TF32, Product, first_names, result_name
from .gemm_tma_estimate import estimate as estimate
from .gemm_tma_form import FORMS, KNOB, MORE_CLUSTERS, Form
from .gemm_tma_rules import LARGEST_BOX, SUM_THREADS, Rules, faults, rules
from .gemm_tma_rules import offered as offered
from .gemm_tma_rules import refusal as refusal
from .gemm_tma_rules import violation as violation
from .gemm_tma_tiling import (
    CLUSTERED,
    MULTIPROCESSORS,
    PANEL,
    TmaTiling,
    fragments,
    in_place,
    starts_with_residual,
)
from .gemm_wgmma import ARCH

HOPPER = Target(f"cuda -arch={ARCH}")
# Results of a tile, at most.
LARGEST_TILE = 128 * 256
# Results up to which all tiles run in one wave; with more, swapped strips were slower.
ONE_STEP = MULTIPROCESSORS * LARGEST_TILE
# Vectors of 8 columns up to which one warpgroup writes a tile in strips faster than two.
NARROW_STRIPS = 20
# Rows, columns and extent of K from which on unaligned results gain by strips.
LEAST_IN_STRIPS = 192
# Columns up to which few rows of an a that is stored as [k, m] are loaded by TMA.
FEW_COLUMNS = 1024
# Extent of K from which on products with a residual gain without split-K too.
LONG_SUM = 256
# Multiply-adds of floats as TF32, and terms of a sum, up to which ``mma.sync`` is as fast: nine
# with more terms and 2^20 to 2^22 multiply-adds took an H100 1.2 to 4.3 times as long without TMA.
TINY_FLOATS, FEW_TERMS = 2**22, 128
# Elements of b up to which few rows as TF32 gain: 30x7872x11008 (2^26.4) took 128 us on an H100
# instead of 122, 16x4096x4096 (2^24) 26.8 instead of 27.3.
MOST_OF_B = 2**25
# Multiply-adds, and extent of K, from which on convolutions as TF32 gain whatever their channels.
LEAST_PRODUCTS, LEAST_SUM = 2**23, 65
# Estimated cycles of convolutions up to which `cp.async`, with its shorter prologue, is faster.
CONVOLUTION_RUN = 12000
# Estimates of those of 16-bit floats, in parts of that of `gemm_wgmma`, up to which TMA is faster.
FASTER, FASTER_SHORT = 0.94, 0.7
# Rows, extent of K and multiply-adds of integers up to which ``mma.sync`` is as fast.
FEW_ROWS, SHORT_SUM, FEW_PRODUCTS = 32, 64, 2**25
# Extent of K from which on fewer rows need split-K, which ``mma.sync`` has of floats only.
SPLIT_SUM = 4096
# The kernels, and what they are made of.
TEXTS = (
    "elements.h", "epilogue.h", "operands.h", "mma.h", "pairs.h", "float_pairs.h", "barriers.h",
    "dependent_launch.h", "wgmma.h", "exp2.h", "activations.h", "tma.h", "gemm_tma.h",
    "init_accumulators.h", "gemm_tma_residual.h", "implicit_gemm_tma.h", "cluster_reduce.h",
    "gemm_tma_producer.h", "gemm_tma_epilogue.h", "gemm_tma_swap_ab.h",
    "gemm_tma.cu", "gemm_tma_reduce.cu",
)  # fmt: skip
# Those of floats.
FLOAT_TEXTS = tuple(text for text in TEXTS if text != "elements.h")
# Those of integers, which have no epilogue.
_BEHIND = {
    "mma.h": ["mma.h", "mma_int8_across.h"],
    "wgmma.h": ["wgmma.h", "wgmma_int8.h"],
}
INTEGER_TEXTS = tuple(name for text in FLOAT_TEXTS for name in _BEHIND.get(text, [text]))
# Results up to which split-K is worth its second kernel, which reduces partial sums; and up to
# which more ranges of K than eight are, as there are few tiles.
FEW_RESULTS, FEW_TILES = 2**20, 2**16
# Ranges of K of such few tiles: with one to twelve tiles, as many as fill 132 multiprocessors.
MANY_RANGES = (1, 2, 4, 8, 11, 16, 22, 26, 32, 33, 44, 66)


def _is_offered(form: Form, shape: Product) -> bool:
    """Return whether a form is in the space of a shape; the rules say with which tiles."""
    results = shape.batch * shape.m * shape.n
    if shape.dtype == "int8" or shape.gathers:
        alone = shape.dtype == TF32 and form.cluster_m == 1
        suits = alone if form.swapped else not _swaps(shape)
        if shape.dtype == "int8":  # what is not K-major is the left operand
            suits = form.swapped == (not shape.transpose_b)
        return form.cluster_n == 1 and not form.cluster_reduce and suits
    if form.swapped and form.cluster_reduce:
        return shape.dtype in HALVES and results <= FEW_RESULTS
    if form.knob < MORE_CLUSTERS:
        return shape.dtype in HALVES or not form.cluster_reduce
    # Few rows stream the other operand, and large clusters must all run at the same time.
    fits = results <= (FEW_RESULTS if form.cluster_reduce else CLUSTERED * LARGEST_TILE)
    pair = form.cluster_m * form.cluster_n == 2 and not form.cluster_reduce
    return shape.dtype in HALVES and min(shape.m, shape.n) > PANEL and (fits or pair)


def _swaps(shape: Product) -> bool:
    """Return whether operands have to be swapped: filters of groups as TF32 are not copied."""
    return isinstance(shape, AcrossGroups) and shape.dtype == TF32


def candidates(shape: Product) -> dict[str, list[int]]:
    """Return the values each knob may take for a shape."""
    results = shape.batch * shape.m * shape.n
    ranges = MANY_RANGES if results <= FEW_TILES else (1, 2, 4, 8)
    return {
        KNOB: [form.knob for form in FORMS if _is_offered(form, shape)],
        "warps_m": [4, 8, 12],
        "warps_n": [1],
        "frags_m": [1, 2],
        "frags_n": fragments(shape),
        "chunk": [32, 64] if shape.dtype == TF32 else [64, 128],
        "stages": [2, 3, 4, 5, 6, 8],
        "split": common.up_to(max(1, depth(shape) // 128), ranges)
        if results <= FEW_RESULTS
        else [1],
        "band": [1, 2, 4, 8, 16],
    }


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
    up to 8.4 times (16x64x30000: 6.5 us instead of 54.6), but for that one (0.95).

    Of 23 layers of 3x3 filters it did for 18 of the 19 that take 7 us and more, the other took as
    long, and for one of four shorter ones: a block first writes its tensor map. With a residual it
    did for all three. As TF32 it did for four such layers, 1.13 to 1.43 times as fast, not for
    8x7x7 pixels (0.95) and 64 filters (0.9).
    """
    if shape.dtype == "int8":
        return suits_integers(shape) and violation(shape, choice, target) is None
    across = shape.transpose_a and shape.n > FEW_COLUMNS
    few = shape.m < PANEL and (across or (shape.dtype == TF32 and not _streams_few_rows(shape)))
    if few or violation(shape, choice, target):
        return False
    if shape.gathers:
        return _wins_for_windows(shape, choice, target)
    results = shape.batch * shape.m * shape.n
    if shape.dtype == TF32 and (in_place(shape.epilogue) or results < FEW_RESULTS):
        return results * shape.k > TINY_FLOATS or shape.k > FEW_TERMS
    if not in_place(shape.epilogue):
        return choice["split"] > 1 or shape.k >= LONG_SUM
    return suits_strips(shape) if shape.n % 8 > 0 else True


def _streams_few_rows(shape: Product) -> bool:
    """Return whether TMA streams a b that caches hold for sums that pipelines pay for."""
    return not shape.gathers and shape.k > FEW_TERMS and shape.n * shape.k <= MOST_OF_B


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
    20x258x39433 took 95 us by ``mma.sync``.
    """
    products = shape.batch * shape.m * shape.n * shape.k
    many = shape.m >= FEW_ROWS or shape.k >= SPLIT_SUM
    return many and shape.k > SHORT_SUM and products >= FEW_PRODUCTS


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
) -> dict[str, int]:
    """Return a good guess for a shape that was never tuned: the best by estimate.

    Of choices that are as good the first has the deepest pipeline, and tall tiles.

    Args:
        strips: whether rows of c are unaligned, and only tiles count that are written in strips.
        swapped: whether operands are; None leaves it open, except for TF32: `_swapped_as_tf32`.
        free_bytes: shared memory of a multiprocessor that is left to the kernel before, so that
            blocks start while it ends.
    """
    options = candidates(shape)
    if swapped is None and shape.dtype == TF32 and not shape.gathers:
        swapped = _swapped_as_tf32(shape)
    if swapped is not None:
        options[KNOB] = [knob for knob in options[KNOB] if Form.of(knob).swapped == swapped]
    if strips:
        swaps = shape.batch * shape.m * shape.n <= ONE_STEP
        some = [Form.of(knob) for knob in options[KNOB]]
        some = [f for f in some if f.cluster_m * f.cluster_n == 1]
        some = [f for f in some if f.swapped <= (swaps and not f.persistent)]
        options |= {KNOB: [form.knob for form in some if not form.cluster_reduce], "split": [1]}
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
        partial(estimate, shape, target=target, strips=strips),
    )
    return choice | {"band": _band(shape, choice)}


def _swapped_as_tf32(shape: Product) -> int:
    """Return whether operands are best swapped as TF32: where a is K-major, as it must be then.

    A residual is read in pairs where they are not: on an H100 3552x96x416 nt took 11.7 us swapped
    and 6.4 to 9.4 otherwise, 2048x2048x1024 nt 40.9 and 34.1.
    """
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
    H100, 9.0 by 1, 320x2048x1536 6.4 and 5.1 (by 4 5.2).
    """
    tiling = TmaTiling(shape, choice)
    form, plain = tiling.form, shape.dtype in HALVES and not shape.gathers
    if not plain or form.persistent or form.cluster_reduce or form.cluster_m > 2:
        return choice["band"]
    rows, columns = tiling.blocks
    alone = form.cluster_m * form.cluster_n == 1
    bands = (1,) if alone and rows >= 3 * columns else (4, 2)
    return next((band for band in bands if rows % band == 0), choice["band"])


def _operands(shape: Product, asked: Product) -> dict[str, int | str]:
    """Return the layouts of operands: of left ones across the sum those that are asked for."""
    given, plain = shape.operands(), asked.operands()
    if shape.dtype in HALVES or shape.gathers:
        return given
    a = {"A_STRIDE": plain["A_STRIDE"]} if shape.transpose_a else {}
    b = {} if shape.transpose_b else {"B_STRIDE": plain["B_STRIDE"]}
    return {**given, **a, **b}


def swapped_operands(
    shape: Product, given: dict[str, int | str] | None = None
) -> dict[str, int | str]:
    """Return the layouts of swapped, transposed operands, of which some are ``given``."""
    given = given or shape.operands()
    return {
        "A_STRIDE": given["B_STRIDE"], "B_STRIDE": given["A_STRIDE"],
        "TRANSPOSE_A": int(not shape.transpose_b), "TRANSPOSE_B": int(not shape.transpose_a),
    }  # fmt: skip


def kernel(
    shape: Product, choice: Mapping[str, int], plain: Product | None = None
) -> SourceKernel:
    """Return the kernel of a choice of knobs, and with split-K the one that reduces.

    Args:
        plain: what is asked for, where ``shape`` is that of padded copies of a and b: the kernel
            takes its arguments and writes its result.

    Raises:
        TemplateError: these copies cannot serve the shape, or a kernel of this choice would be
            wrong; the message says why.
    """
    tiling, asked = TmaTiling(shape, choice), plain or shape
    if reason := refusal(shape) or common.first_broken(faults(tiling)):
        raise TemplateError(f"gemm of {shape.dtype} by TMA: {reason}, got {shape}")
    defines = {**_defines(tiling, asked), **tiling.maps(asked)}
    calls = _calls(tiling, asked)
    texts = INTEGER_TEXTS if tiling.integers else FLOAT_TEXTS if tiling.floats else TEXTS
    source = common.cuda_kernel(asked, texts, defines, calls, flags=[f"-arch={ARCH}"])
    workspaces = []
    if choice["split"] > 1 and not tiling.form.cluster_reduce:
        sums = "int32" if tiling.integers else "float32"
        workspaces.append(workspace("parts", (choice["split"] * tiling.part_size,), sums))
    if shape.gathers:  # one map more, so that the others can be aligned to their size
        maps = 1 + math.prod(calls[0].launch.grid)
        workspaces.append(workspace("maps", (maps * tensor_map.WORDS,), "int32"))
    return replace(source, workspace=workspaces)


def _defines(tiling: TmaTiling, asked: Product) -> dict[str, int | str]:
    """Return the preprocessor definitions of a kernel, except for its tensor maps."""
    shape, c, form = tiling.shape, tiling.choice, tiling.form
    sizes = common.defines(
        m=tiling.m, n=tiling.n, k=tiling.k, c_m=asked.m, c_n=asked.n, threads=tiling.threads,
        resident=tiling.resident(HOPPER), cluster=form.cluster_reduce,
        cluster_reduce=form.cluster_reduce, tf32=tiling.floats,
        bfloat16=shape.dtype == "bfloat16", int8=tiling.integers,
        groups=tiling.tile_warpgroups, frags_m=c["frags_m"], tile_n=tiling.tile_n,
        chunk=c["chunk"], stages=c["stages"], split=c["split"], band=c["band"],
        schedule=form.schedule, cluster_m=form.cluster_m, swap_ab=form.swapped,
        cluster_n=form.cluster_n, box_rows=tiling.written_rows,
        ordered=tiling.ordered * (asked.n % 8 == 0 or not form.swapped),
        smem_epilogue=tiling.smem_epilogue and (asked.n % 8 == 0 or tiling.strips),
    )  # fmt: skip
    element = {"ELEMENT": 1 + HALVES.index(shape.dtype)} if shape.dtype in HALVES else {}
    operands = _operands(shape, asked)
    whole = bool(c["split"] == 1 or form.cluster_reduce)
    # Persistent kernels that can load a residual behind the sums do so.
    added = whole and starts_with_residual(asked) and (form.swapped or not form.persistent)
    images = {}
    if isinstance(shape, Conv2dNhwc):
        images = {"IMAGES": shape.images, "TAP_RUN": implicit_gemm_tma.tap_run(shape)}
    return {
        **sizes,
        **images,
        **element,
        **operands,
        **gemm_wgmma.product_text(
            tiling.tile_n // tiling.joined, tiling.integers, tiling.left_in_registers > 0
        ),
        **gemm_wgmma.begin_and_end(asked.epilogue, whole),
        **({"RESIDUAL_FIRST": 1, "RESIDUAL": 0} if added else {}),
        **(swapped_operands(shape, operands) if form.swapped else {}),
    }


def _calls(tiling: TmaTiling, asked: Product) -> list[KernelCall]:
    """Return the launch of the products and, with split-K, that of the reduction."""
    a, b, *operands = first_names(asked)
    if tiling.form.swapped:
        a, b = b, a
    result, ranges = result_name(asked), tiling.choice["split"]
    alone = ranges == 1 or tiling.form.cluster_reduce
    written = result if alone else "parts"
    maps = ["maps"] if tiling.shape.gathers else []
    names, grid = [a, b, *operands, written, *maps], (tiling.grid(HOPPER), 1, ranges)
    products = call("gemm_tma", names, grid, tiling.threads, tiling.shared_bytes)
    if alone:
        return [products]
    blocks = tiling.part_size // (4 * SUM_THREADS)
    return [products, call("gemm_tma_reduce", ["parts", *operands, result], blocks, SUM_THREADS)]
