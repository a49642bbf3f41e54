"""Matrix multiplication for a CPU: a tile of sums in vector registers, over panels of b in cache.

(Goto and van de Geijn, "Anatomy of high-performance matrix multiplication", 2008.)
Panels are packed (`gemm_nn.c`), which pays where many rows use them, or where vectors are short;
or read in place, all their depth at once, where b is near. Few rows of a larger b wait for memory:
they may pack, in the order of memory, what they need next while they add up what they have
(`gemm_streamed.c`), or read panels where they lie, a few rows of b at a time (`gemm_few.c`). A
single row asks for nothing but memory, which comes fastest in the longest runs (`gemm_row.c`).
"""

from __future__ import annotations

from collections.abc import Mapping

from autotune import SourceKernel, Target

from .. import common, cpu_tiles
from .gemm_shape import Gemm

# Rows up to which panels may be read where they lie or be streamed; where they lie, untuned.
FEW, _UNPACKED = 64, 8
# Values of "pack": panels are read where they lie, packed at first, packed all along, while sums
# are made, packed by the tiles of the first rows, or read in place.
LIE, PACKED, STREAMED, BY_TILES, IN_PLACE = 0, 1, 2, 3, 4
# Bytes of sums, and of the rows of b beside them, of a task that packs nothing; of all of what
# streams.
_MOST_SUMS, _MOST_READ, _MOST_STREAMED = 1 << 18, 1 << 19, 1 << 20
# Floats of whole rows of b whose pages a core can name at once, of which a part is fetched ahead.
_NEAR_FLOATS = 1 << 17
# Rows up to which a product waits for b, where it has more bytes than a second cache; up to which
# panels are read in place, untuned, where it has fewer.
_WAITING, _NEARBY, _IN_PLACE = 256, 1 << 20, 32
# Bytes after which lines share a place of a first cache, and how many rows that holds beside b.
_ALIAS, _TOGETHER = 4096, 6


def candidates(shape: Gemm) -> dict[str, list[int]]:
    """Return the values each knob may take for a shape."""
    few = shape.m <= FEW
    # There is a block for the highest tile, which may have more than four rows.
    highest = max(2 * shape.m, 16 if shape.m > 4 else 0)
    return {
        "rows": common.up_to(shape.m, cpu_tiles.ROWS),
        "vectors": list(cpu_tiles.VECTORS),
        "lanes": list(cpu_tiles.LANES),
        "block_m": common.up_to(
            highest, (4, *((8, 16, 24, 32, 48) if few else (16, 32)), 64, 128, 256, 512, 1024)
        ),
        "panels": _panels(shape.m),
        "depth": common.up_to(
            max(2 * shape.k, 32),
            (*((8, 16) if few else ()), 32, 64, 128, 256, 384, 512, 1024, 2048),
        ),
        "pack": [PACKED, *([LIE, STREAMED] if few else []), BY_TILES, IN_PLACE],
    }


def _panels(rows: int) -> list[int]:
    """Return how many panels a task may have.

    Of few rows also those of 48 columns that are about a power of two together: there are few
    tasks then, which should be of one size.
    """
    if rows == 1:
        return [1, 2, 4, 8, 16, 32, 64, 128]
    return [1, 2, 4, *((6, 8, 11, 16, 22, 32, 43) if rows <= FEW else (8, 16, 32))]


def violation(shape: Gemm, choice: Mapping[str, int], target: Target) -> str | None:
    """Return why a choice is sure to be slow, or None."""
    c, unit = choice, cpu_tiles.vector_unit(target)
    width = c["vectors"] * c["lanes"]
    task = c["panels"] * width
    lies, streamed = c["pack"] == LIE, c["pack"] == STREAMED
    rules = [
        (unit.spills(c["rows"], c["vectors"], c["lanes"]), "more sums than registers"),
        (c["block_m"] < c["rows"], "a tile beyond its block"),
        (width >= shape.n + c["lanes"], "columns beyond the output"),
        (c["panels"] > 1 and task >= 2 * shape.n, "panels beyond the output"),
        ((c["pack"] != IN_PLACE) & (4 * task * c["depth"] > 1 << 21), "panels beyond the cache"),
        ((lies | streamed) & (width > shape.n), "panels of too few columns, not packed"),
        (streamed & (shape.m < 2), "a row that streams"),
        (lies & (4 * task * c["block_m"] > _MOST_SUMS), "sums beyond the cache"),
        (lies & (8 * task * c["depth"] > _MOST_READ), "rows of b beyond the cache"),
        (
            streamed & (4 * task * (c["block_m"] + 2 * c["depth"]) > _MOST_STREAMED),
            "sums and panels beyond the cache",
        ),
    ]
    return common.first_broken(rules)


def default_choice(shape: Gemm, target: Target) -> dict[str, int]:
    """Return a good guess for a shape that was never tuned."""
    options, unit = candidates(shape), cpu_tiles.vector_unit(target)
    is_near = 4 * shape.n * shape.k <= _NEARBY
    in_rows = is_near or shape.m > FEW
    # Tiles of short vectors take half the time: their panels have to come from the first cache.
    in_place = is_near and shape.m <= _IN_PLACE and unit.floats > 8
    # Rows of a whose elements share a place of the first cache push each other out of it.
    most = _TOGETHER if in_rows and 4 * shape.k % _ALIAS == 0 else max(cpu_tiles.ROWS)
    # What waits for b reads it once, where registers allow that.
    least = shape.m if not in_rows and shape.m <= _UNPACKED and unit.registers > 16 else 1
    rows, vectors, lanes = cpu_tiles.tile(
        unit, shape.m, shape.n, narrow=in_rows, is_far=in_place,
        rows_of_tile=range(least, most + 1),
    )  # fmt: skip
    width = vectors * lanes
    panels = [p for p in options["panels"] if p <= common.ceil_div(shape.n, width)]
    choice = {"rows": rows, "vectors": vectors, "lanes": lanes}
    if shape.m == 1 and width <= shape.n:
        return choice | _of_one_row(shape, options, target)
    if in_place or (is_near and _UNPACKED < shape.m <= rows):
        return choice | _in_place(shape, options, panels, choice, target)
    parted = shape.m > min(rows, _UNPACKED)
    if shape.m <= FEW and width <= shape.n and not (is_near and parted):
        # Read where it lies, a panel would be read again from far away for the tiles below.
        waiting = _streamed if parted else _lying
        blocks = _blocks(options, rows)
        block_m = min((b for b in blocks if b >= shape.m), default=max(blocks))
        return choice | {"block_m": block_m} | waiting(shape, options, panels, width, target)
    # A panel is packed for each block anew, and rows come from far away for each group of panels.
    block_m, together = cpu_tiles.tasks(
        target, _blocks(options, rows), panels, (shape.m, shape.n), width,
        lambda high, wide: 8 / high + 4 / wide + 1e-4 * wide,
    )  # fmt: skip
    depth = max(d for d in options["depth"] if d <= max(384, min(options["depth"])))
    # By tiles the first sums are made while rows come from far away, where tiles are as high.
    return choice | {"block_m": block_m, "panels": together, "depth": depth, "pack": BY_TILES}


def _blocks(options: Mapping[str, list[int]], rows: int) -> list[int]:
    """Return the blocks that hold a tile of so many rows, or the largest."""
    return [b for b in options["block_m"] if b >= rows] or [max(options["block_m"])]


def _in_place(
    shape: Gemm, options: Mapping[str, list[int]], panels: list[int], tile: Mapping[str, int],
    target: Target,
) -> dict[str, int]:  # fmt: skip
    """Return block, panels and depth of what reads b in place.

    Each block, of whole tiles, reads all of b, and each group of panels all of a.
    """
    rows = tile["rows"]
    whole = {common.ceil_div(b, rows) * rows: b for b in reversed(_blocks(options, rows))}
    block, together = cpu_tiles.tasks(
        target, list(whole), panels, (shape.m, shape.n), tile["vectors"] * tile["lanes"],
        lambda high, wide: 4 / high + 1 / wide,
    )  # fmt: skip
    depth = min(d for d in options["depth"] if d >= min(shape.k, max(options["depth"])))
    return {"block_m": whole[block], "panels": together, "depth": depth, "pack": IN_PLACE}


def _lying(
    shape: Gemm, options: Mapping[str, list[int]], panels: list[int], width: int, target: Target
) -> dict[str, int]:
    """Return panels and depth of what packs nothing.

    Long runs of a row of b come faster, and sums go to the nearer cache and back.
    """
    _, together = cpu_tiles.tasks(
        target, [shape.m], [p for p in panels if p <= 32], (shape.m, shape.n), width,
        lambda high, wide: 40 / wide + high * wide / (1 << 19),
    )  # fmt: skip
    deep = min(max(_NEAR_FLOATS // shape.n, 16), 64)
    depth = max(d for d in options["depth"] if d <= max(deep, min(options["depth"])))
    return {"panels": together, "depth": depth, "pack": LIE}


def _streamed(
    shape: Gemm, options: Mapping[str, list[int]], panels: list[int], width: int, target: Target
) -> dict[str, int]:
    """Return panels and depth of what packs all along."""
    depth = max(d for d in options["depth"] if d <= max(32, min(options["depth"])))
    cores = max(target.limits.sm_count, 1)

    def time(together: int) -> float:
        # Long runs of a row of b come faster; sums and panels stay in the second cache.
        wide = min(together * width, shape.n)
        turns = common.ceil_div(common.ceil_div(shape.n, wide), cores)
        return turns * wide * (1 + 100 / wide + wide * (shape.m + 2 * depth) / (1 << 20))

    return {"panels": min(panels, key=time), "depth": depth, "pack": STREAMED}


def _of_one_row(shape: Gemm, options: Mapping[str, list[int]], target: Target) -> dict[str, int]:
    """Return the choice of what reads memory in the longest runs: each core has one task."""
    wide = cpu_tiles.vector_unit(target).floats
    lanes = max(n for n in options["lanes"] if n <= min(wide, shape.n))
    vectors = max(v for v in options["vectors"] if v * lanes <= min(32, shape.n))
    each = common.ceil_div(shape.n, max(target.limits.sm_count, 1))
    enough = [p for p in options["panels"] if p * vectors * lanes >= each]
    panels = min(enough, default=max(options["panels"]))
    depth = max(d for d in options["depth"] if d <= max(8, min(options["depth"])))
    here = {"block_m": 1, "panels": panels, "depth": depth, "pack": LIE}
    return {"vectors": vectors, "lanes": lanes, **here}


def _fetched(shape: Gemm, choice: Mapping[str, int]) -> int:
    """Return how many rows of what is packed next a tile fetches with each 16 steps.

    The tiles of a task share them. Where there are many tiles, waiting for b takes little of all.
    """
    if shape.m > _WAITING or 4 * shape.n * shape.k <= _NEARBY:
        return 0
    return common.ceil_div(16, common.ceil_div(min(choice["block_m"], shape.m), choice["rows"]))


def kernel(shape: Gemm, choice: Mapping[str, int]) -> SourceKernel:
    """Return the kernel of a choice of knobs."""
    knobs = dict(choice)
    pack = knobs.pop("pack")
    extents = {"m": shape.m, "n": shape.n, "k": shape.k, "lda": shape.k, "ldc": shape.n}
    extents["rows_left"] = shape.m % choice["rows"]
    if pack in (PACKED, BY_TILES, IN_PLACE):
        parts: tuple[str, ...] = ("panel.h", "strip.h", "gemm_nn.c")
        extents["by_tiles"], extents["in_place"] = pack == BY_TILES, pack == IN_PLACE
        extents["fetched"] = _fetched(shape, choice)
    elif shape.m == 1:
        parts = ("gemm_row.c",)
    else:
        parts = ("gemm_few.c",) if pack == LIE else ("gemm_streamed.c",)
        extents["lda"] = choice["depth"]  # of the copy that both make
    nothing_follows = {"bias": 0, "residual": 0, "affine": 0, "relu": 0, "most_runs": 1}
    return SourceKernel(
        "gemm_nn",
        common.text("tile.h", *parts),
        defines=common.defines(**extents, **nothing_follows, **knobs),
        args=shape.arguments(),
        reference=shape.reference(),
        language="c",
    )
