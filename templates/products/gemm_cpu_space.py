"""The knobs of `gemm_cpu`, their values, and which choices of them are sure to be slow."""

from __future__ import annotations

from collections.abc import Mapping

from autotune import Target

from .. import common, cpu_tiles
from .gemm_shape import Gemm

# Rows up to which panels may be read unpacked or be streamed.
FEW = 64
# Values of "pack": panels are read unpacked, packed before they are multiplied, packed while the
# previous rows are multiplied, packed by the tiles of the first rows, or read in place; or each
# panel is packed by the tile of the first rows, and multiplied by all rows before the next one is;
# and likewise, with a copy of the rows of a.
LIE, PACKED, STREAMED, BY_TILES, IN_PLACE, ONE_BY_ONE, BOTH = 0, 1, 2, 3, 4, 5, 6
# Bytes of the sums, and of the rows of b, of a task that packs nothing; of a task that streams; of
# a panel that is packed alone; and of the rows of a that a task may copy.
MOST_SUMS, _MOST_READ, MOST_STREAMED = 1 << 18, 1 << 19, 1 << 20
_MOST_PANEL, _MOST_ROWS = 1 << 17, 1 << 21
# The least K of a part of a split, also of a single row; elements of a result up to which K may be
# split.
_LEAST_PART, _LEAST_PART_OF_ROW, _SPLIT = 128, 48, 1 << 18
# Knobs that older records do not have, and the values that kernels had then.
ADDED = {"split_k": 1}


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
            (*((8, 16) if few else ()), 32, 64, 96, 128, 192, 256, 384, 512, 1024, 2048),
        ),
        "pack": [PACKED, *([LIE, STREAMED] if few else []), BY_TILES, IN_PLACE, ONE_BY_ONE, BOTH],
        "split_k": common.up_to(
            shape.k // (_LEAST_PART if shape.m > 1 else _LEAST_PART_OF_ROW),
            (1, 2, 4, 8, 16, 32, 64),
        )
        if shape.m * shape.n <= _SPLIT
        else [1],
    }


def _panels(rows: int) -> list[int]:
    """Return how many panels a task may have.

    Of few rows also those of 48 columns that are about a power of two together: there are few
    tasks then, which should be of one size.
    """
    if rows == 1:
        return [1, 2, 4, 8, 16, 32, 64, 128, 256]
    return [1, 2, 4, *((6, 8, 11, 16, 22, 32, 43) if rows <= FEW else (8, 16, 32, 64, 128))]


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
        ((c["pack"] < IN_PLACE) & (4 * task * c["depth"] > 1 << 21), "panels beyond the cache"),
        (
            (c["pack"] == BOTH) & (4 * c["block_m"] * c["depth"] > _MOST_ROWS),
            "rows beyond the cache",
        ),
        (
            (c["pack"] > IN_PLACE) & (4 * width * c["depth"] > _MOST_PANEL),
            "a panel beyond the cache",
        ),
        ((lies | streamed) & (width > shape.n), "panels of too few columns, not packed"),
        (streamed & (shape.m < 2), "a row that streams"),
        (
            (shape.m == 1) & lies & unit.spills(c["depth"] + c["vectors"] - 1, 1, c["lanes"]),
            "more elements of a row than registers",
        ),
        (lies & (4 * task * c["block_m"] > MOST_SUMS), "sums beyond the cache"),
        (lies & (8 * task * c["depth"] > _MOST_READ), "rows of b beyond the cache"),
        (
            streamed & (4 * task * (c["block_m"] + 2 * c["depth"]) > MOST_STREAMED),
            "sums and panels beyond the cache",
        ),
    ]
    return common.first_broken(rules)
