"""The untuned choice of `gemm_cpu`: how b is read, and tiles and tasks that suit it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from autotune import Target

from .. import common, cpu_tiles
from .gemm_cpu_space import (
    BOTH,
    BY_TILES,
    FEW,
    IN_PLACE,
    LIE,
    MOST_STREAMED,
    MOST_SUMS,
    ONE_BY_ONE,
    STREAMED,
    candidates,
)
from .gemm_shape import Gemm

# Rows up to which panels are read unpacked.
_UNPACKED = 8
# Bytes and rows of a panel that stays in L1 while it is multiplied by all rows of a task; bytes of
# one of all of K, whose sums long vectors need not add to others.
_PANEL, _DEEP, _WHOLE_PANEL = 24 << 10, 256, 32 << 10
# Rows of panels that stay in L2; of a Zen 4, whose L2 is smaller.
_DEEP_FAR, _DEEP_HALVES = 512, 384
# Bytes of rows of a that stay in L2 while panels are packed one by one.
_ROWS_NEAR = 1 << 19
# Rows up to which panels are packed one by one, and products of operands beyond L2 are bound by
# loading b; rows from which that pays where there are few.
MANY, _SOME = 256, 20
# Bytes of sums that are loaded and stored for each part of K without waiting, for long vectors.
_FEW_SUMS = 1 << 20
# Bytes of a result beyond L2, which a short sum waits for; rows that each core should have of one.
_FAR_SUMS, _TALL = 2 << 20, 128
# K from which packing takes any time; K up to which several panels stay in L1, so that rows of the
# result are written in longer parts.
_LEAST_DEPTH, _SHALLOW = 64, 32
# Rows of tiles for few rows: at the least, where they pack what is not in cache; at the most, for
# short vectors, whose tiles are wide then and read more contiguous elements of a row of b; of
# short vectors that read b unpacked, for more than a few rows.
_HIGH, _LOW, _HALF = 8, 4, 6
# Bytes of a b that stays in cache; rows up to which panels are read in place then, untuned; bytes
# of a b that the TLB covers, about, and from which on long vectors read it in longer parts; floats
# of rows of it, a part of which is prefetched.
NEARBY, _IN_PLACE, _NAMED, _FAR, _NEAR_FLOATS = 1 << 20, 32, 12 << 20, 30 << 20, 1 << 17
# Rows beyond which multiplying takes longer than loading b; bytes from which long vectors pack it
# meanwhile, for more than a few rows.
_BUSY, _FAR_BUSY = 40, 9 << 19
# Bytes of a b whose packing takes longer than what it spares, for long vectors; and its columns,
# where there are more than a few rows, for which these are half as many bytes.
_SMALL, _NARROW = 1 << 19, 96
# Bytes of a b that stays in the L2 cache of an Intel with AVX-512, and its columns that up to FEW
# rows read there, as sums of all of K stay in registers. Rows up to which short vectors read b
# unpacked, once for all tiles.
_SECOND, _SLIM, _FEW_SHORT = 3 << 19, 256, 12
# Multiply-adds in the time of a barrier of all threads, of the reduction of an element of a part,
# and of the scheduling of a task.
_JOINING, _OF_PART, _OF_TASK = 5e5, 8, 1e4
# Bytes after which cache lines share a set of L1.
ALIAS = 4096


def default_choice(shape: Gemm, target: Target) -> dict[str, int]:
    """Return a good guess for a shape that was never tuned."""
    options, unit = candidates(shape), cpu_tiles.vector_unit(target)
    pack = _way(shape, unit)
    in_rows = pack not in (LIE, STREAMED)
    # Vectors of b come from L2, each once per tile.
    is_far = unit.floats > 8 and (pack == IN_PLACE or (pack == BY_TILES and not unit.halves))
    rows, vectors, lanes = cpu_tiles.tile(
        unit, shape.m, shape.n, narrow=in_rows, is_far=is_far,
        rows_of_tile=_rows_of_tile(shape, target, pack),
    )  # fmt: skip
    width = vectors * lanes
    panels = [p for p in options["panels"] if p == 1 or p * width < 2 * shape.n]
    choice = {"rows": rows, "vectors": vectors, "lanes": lanes, "pack": pack, "split_k": 1}
    if shape.m == 1 and width <= shape.n:
        return choice | _of_one_row(shape, options, target)
    if pack == IN_PLACE or (_is_near(shape) and _UNPACKED < shape.m <= rows):
        return choice | _in_place(shape, options, panels, choice, target)
    if in_rows or width > shape.n:
        return choice | _packed(shape, options, panels, choice, target)
    waiting = _lying if pack == LIE else _streamed
    blocks = _blocks(options, rows)
    block_m = min((b for b in blocks if b >= shape.m), default=max(blocks))
    return choice | {"block_m": block_m} | waiting(shape, options, panels, width, target)


def _rows_of_tile(shape: Gemm, target: Target, pack: int) -> range:
    """Return how many rows a tile may have."""
    unit = cpu_tiles.vector_unit(target)
    is_short = unit.floats <= 8
    if pack == LIE and is_short:
        # Two tiles have all of more than a few rows.
        least = _HALF if shape.m > _UNPACKED else shape.m if shape.m <= _tallest(unit) else 1
        return range(least, max(least, _LOW) + 1)
    if pack == LIE:
        least = shape.m if shape.m <= _tallest(unit) else _HIGH
        return range(least, max(cpu_tiles.ROWS) + 1)
    if pack in (ONE_BY_ONE, BOTH) and is_short and (shape.m > FEW or not _is_near(shape)):
        # Of few columns, as many rows as keep the multipliers busy.
        return range(1, (_LOW if shape.n > 4 * unit.floats else _HALF) + 1)
    is_low = pack == BY_TILES or (pack == IN_PLACE and shape.m >= _SOME)
    most = cpu_tiles.HIGHEST if is_low else max(cpu_tiles.ROWS)
    if pack not in (BOTH, STREAMED) and 4 * shape.k % ALIAS == 0:
        # Rows of a whose elements share a set of L1 evict each other.
        most = min(most, cpu_tiles.rows_together(target))
    return range(1, most + 1)


def _is_near(shape: Gemm) -> bool:
    return 4 * shape.n * shape.k <= NEARBY


def _tallest(unit: cpu_tiles.VectorUnit) -> int:
    """Return the rows up to which one tile has all, of a product bound by loading b."""
    return _UNPACKED if unit.halves else (unit.registers - 1) // 2 - 1


def _way(shape: Gemm, unit: cpu_tiles.VectorUnit) -> int:
    """Return how b is read: one of the values of "pack".

    Products bound by loading b read it once, where registers allow that. Else panels are packed
    one by one if many rows share each panel, or vectors are short and the TLB covers b; long ones
    of fewer rows stay in L2 until all rows are multiplied, in place. Otherwise b is read in longer
    contiguous parts.
    """
    is_short = unit.floats <= 8
    if not is_short and _is_small(shape):
        return IN_PLACE
    if is_short and shape.k <= _SHALLOW and shape.m > _UNPACKED:
        return BY_TILES
    if shape.m <= FEW:
        return _way_of_few_rows(shape, unit)
    if is_short:
        return _one_by_one(shape)
    is_one = shape.m <= MANY and 4 * shape.m * shape.n <= _FEW_SUMS
    return ONE_BY_ONE if is_one else BY_TILES


def _way_of_few_rows(shape: Gemm, unit: cpu_tiles.VectorUnit) -> int:
    """Return how b is read by up to `FEW` rows, for which that takes longer than to multiply."""
    is_short = unit.floats <= 8
    is_second = 4 * shape.n * shape.k <= _SECOND and not (is_short or unit.halves)
    if is_second and shape.n <= _SLIM:
        return IN_PLACE
    if _is_near(shape):
        return IN_PLACE if shape.m <= (_UNPACKED if is_short else _IN_PLACE) else ONE_BY_ONE
    if is_second and shape.m < _SOME and (8 * shape.n % ALIAS or shape.m <= _tallest(unit)):
        return IN_PLACE
    if shape.m <= (max(_FEW_SHORT, _tallest(unit)) if is_short else _tallest(unit)):
        return LIE
    # Rows of b that share a set of a cache evict each other before they are copied.
    if unit.halves or (not is_short and 4 * shape.n % ALIAS == 0):
        return STREAMED
    far = _FAR if shape.m < _SOME else _FAR_BUSY
    if 4 * shape.n * shape.k > (_NAMED if is_short else far):
        return STREAMED
    if not is_short and _SOME <= shape.m <= _BUSY:
        return IN_PLACE
    return ONE_BY_ONE if is_short or is_second or shape.m >= _SOME else LIE


def _is_small(shape: Gemm) -> bool:
    """Return whether a b in the L2 cache is multiplied by too few rows to be packed.

    A small K is packed in no time.
    """
    is_few = shape.m <= FEW
    is_slim = shape.m <= MANY and shape.n <= _NARROW
    most = _SMALL if is_few else _SMALL // 2
    return (is_few or is_slim) and shape.k >= _LEAST_DEPTH and 4 * shape.n * shape.k <= most


def _one_by_one(shape: Gemm) -> int:
    """Return how short vectors multiply many rows by a panel in L1: panels of L2 bound them.

    Rows of a that share sets of the caches evict each other, and are copied.
    """
    is_alias = 4 * shape.k % ALIAS == 0
    return BOTH if is_alias and min(shape.m, shape.n) > MANY else ONE_BY_ONE


def _packed(
    shape: Gemm, options: Mapping[str, list[int]], panels: list[int], tile: Mapping[str, int],
    target: Target,
) -> dict[str, int]:  # fmt: skip
    """Return block, panels and depth of a kernel that packs b by the tiles of the first rows.

    The first sums are made then while rows come from far away. A panel is packed for each block
    anew, and rows come from far away for each group of panels. Few tiles of rows wait less for
    panels of the first cache, while others are on their way to the second; many wait for what they
    are added to, which deep panels ask for more rarely.
    """
    width, is_one = tile["vectors"] * tile["lanes"], tile["pack"] != BY_TILES
    # Short vectors of few rows gain by the rows of a that stay in L1 beside a panel.
    most = _DEEP // 2 if tile["lanes"] <= 8 and shape.m <= FEW else _DEEP
    deep = _DEEP_HALVES if cpu_tiles.vector_unit(target).halves else _DEEP_FAR
    depth, of_panels = (min(most, _PANEL // (4 * width)), 0.0) if is_one else (deep, 5e-5)
    cores = max(target.limits.sm_count, 1)
    if not is_one and shape.k <= _SHALLOW:
        is_far = tile["lanes"] > 8 and 4 * shape.m * shape.n >= _FAR_SUMS
        if is_far and (cores == 1 or shape.m >= _TALL * cores):
            panels = panels[-1:]  # writing whole rows takes longer than all else
        elif cores == 1:
            # Several cores gain more by parts of rows in which they meet rarely.
            panels = [p for p in panels if p == 1 or 4 * p * width * shape.k <= _PANEL]
    if is_one and tile["lanes"] > 8 and 4 * width * shape.k <= _WHOLE_PANEL:
        depth = min((d for d in options["depth"] if d >= shape.k), default=depth)
    deepest = max(d for d in options["depth"] if d <= max(depth, min(options["depth"])))
    blocks = _blocks(options, tile["rows"])
    if is_one:
        blocks = [b for b in blocks if 4 * b * deepest <= _ROWS_NEAR] or blocks[:1]
    copied = 16 if tile["pack"] == BOTH else 4
    split, block_m, together = _tasks(
        shape, options, blocks, panels, (tile["rows"], width), target,
        lambda high, wide: 8 / high + copied / wide + of_panels * wide,
    )  # fmt: skip
    pack = tile["pack"] if tile["pack"] in (BOTH, BY_TILES) else ONE_BY_ONE
    here = {"block_m": block_m, "panels": together, "depth": deepest, "pack": pack}
    return here | {"split_k": split}


def _tasks(
    shape: Gemm, options: Mapping[str, list[int]], blocks: list[int], panels: list[int],
    tile: tuple[int, int], target: Target, copying: Callable[[float, float], float],
) -> tuple[int, int, int]:  # fmt: skip
    """Return the parts of K, and rows and panels of tasks, see `cpu_tiles`."""
    extents, width = (shape.m, shape.n), tile[1]

    def besides(high: float, wide: float) -> float:
        of_line = cpu_tiles.BORDER / min(shape.k, _DEEP)
        return copying(high, wide) + of_line / wide + _OF_TASK / (high * wide * shape.k)

    def of_parts(split: int) -> tuple[float, int, int, int]:
        block, some = cpu_tiles.tasks(target, blocks, panels, extents, width, besides, split, tile)
        high, wide = min(block, shape.m), min(some * width, shape.n)
        alone = cpu_tiles.task_time(target, (high, wide), extents, besides, split, tile) / split
        # Parts but the first are written, and added after a barrier of all threads.
        joining = _JOINING + _OF_PART * split * shape.m * shape.n if split > 1 else 0
        return alone + joining / shape.k, split, block, some

    return min(map(of_parts, options["split_k"]))[1:]


def _blocks(options: Mapping[str, list[int]], rows: int) -> list[int]:
    """Return the blocks that hold a tile of so many rows, or the largest."""
    return [b for b in options["block_m"] if b >= rows] or [max(options["block_m"])]


def _in_place(
    shape: Gemm, options: Mapping[str, list[int]], panels: list[int], tile: Mapping[str, int],
    target: Target,
) -> dict[str, int]:  # fmt: skip
    """Return block, panels and depth of a kernel that reads b in place.

    Each block, of whole tiles, reads all of b, and each group of panels all of a.
    """
    rows = tile["rows"]
    whole = {common.ceil_div(b, rows) * rows: b for b in reversed(_blocks(options, rows))}
    split, block, together = _tasks(
        shape, options, list(whole), panels, (rows, tile["vectors"] * tile["lanes"]), target,
        lambda high, wide: 4 / high + 1 / wide,
    )  # fmt: skip
    depth = min(d for d in options["depth"] if d >= min(shape.k, max(options["depth"])))
    here = {"block_m": whole[block], "panels": together, "depth": depth, "pack": IN_PLACE}
    return here | {"split_k": split}


def _lying(
    shape: Gemm, options: Mapping[str, list[int]], panels: list[int], width: int, target: Target
) -> dict[str, int]:
    """Return panels and depth of a kernel that packs nothing.

    Long runs of a row of b come faster, and sums go to the nearer cache and back.
    """
    some = [p for p in panels if 4 * p * width * shape.m <= MOST_SUMS and p <= 32]
    split, _, together = _tasks(
        shape, options, [shape.m], some or panels[:1], (shape.m, width), target,
        lambda high, wide: 40 / wide + high * wide / (1 << 19),
    )  # fmt: skip
    deep = min(max(_NEAR_FLOATS // shape.n, 16), 32)
    depth = max(d for d in options["depth"] if d <= max(deep, min(options["depth"])))
    return {"panels": together, "depth": depth, "pack": LIE, "split_k": split}


def _streamed(
    shape: Gemm, options: Mapping[str, list[int]], panels: list[int], width: int, target: Target
) -> dict[str, int]:
    """Return panels and depth of a kernel that packs while it multiplies."""
    deep = 32 if shape.m < _BUSY and cpu_tiles.vector_unit(target).floats > 8 else 64
    depth = max(d for d in options["depth"] if d <= max(deep, min(options["depth"])))
    high = min((b for b in options["block_m"] if b >= shape.m), default=max(options["block_m"]))
    held = 4 * width * (high + 2 * depth)
    panels = [p for p in panels if p * held <= MOST_STREAMED] or panels[:1]
    # Long contiguous reads of a row of b are faster; sums and panels stay in L2.
    split, _, together = _tasks(
        shape, options, [shape.m], panels, (shape.m, width), target,
        lambda high, wide: 100 / wide + wide * (high + 2 * depth) / (1 << 20),
    )  # fmt: skip
    return {"panels": together, "depth": depth, "pack": STREAMED, "split_k": split}


def _of_one_row(shape: Gemm, options: Mapping[str, list[int]], target: Target) -> dict[str, int]:
    """Return the choice with the longest contiguous reads: one task per core."""
    unit = cpu_tiles.vector_unit(target)
    # Of whole vectors in two halves, more lie in two cache lines.
    wide = unit.floats // 2 if unit.halves else unit.floats
    lanes = max(n for n in options["lanes"] if n <= min(wide, shape.n))
    vectors = max(v for v in options["vectors"] if v <= 2 and v * lanes <= shape.n)
    cores = max(target.limits.sm_count, 1)
    # The longest contiguous reads are whole rows of b, split among the cores.
    split = min((s for s in options["split_k"] if s >= cores), default=1)
    each = common.ceil_div(shape.n, 1 if split > 1 else cores)
    enough = [p for p in options["panels"] if p * vectors * lanes >= each]
    panels = min(enough, default=max(options["panels"]))
    depth = max(d for d in options["depth"] if d <= max(8, min(options["depth"])))
    here = {"block_m": 1, "panels": panels, "depth": depth, "pack": LIE, "split_k": split}
    return {"vectors": vectors, "lanes": lanes, **here}
