"""Matrix multiplication for a CPU: a tile of sums in vector registers, over panels of b in cache.

(Goto and van de Geijn, "Anatomy of high-performance matrix multiplication", 2008.)
Panels are packed (`gemm_nn.c`), which pays where many rows use them, or where vectors are short:
several at a time, for L2, or one by one, for L1; or they are read in place, over all of K, where b
is in cache. Products of few rows with a larger b are bound by memory: they may pack the next rows
of b, in memory order, while they multiply the current ones (`gemm_streamed.c`), or read panels
unpacked, a few rows of b at a time (`gemm_skinny.c`). A single row is bound by memory bandwidth,
which is highest for long contiguous reads (`gemm_row.c`). Where there are too few rows and columns
for all cores, they split K (`gemm_tasks.c`).
"""

from __future__ import annotations

from collections.abc import Mapping

from autotune import SourceKernel, call, workspace

from .. import common, cpu_tiles
from .gemm_cpu_space import ADDED as ADDED
from .gemm_cpu_space import BOTH as BOTH
from .gemm_cpu_space import BY_TILES as BY_TILES
from .gemm_cpu_space import FEW as FEW
from .gemm_cpu_space import IN_PLACE as IN_PLACE
from .gemm_cpu_space import LIE as LIE
from .gemm_cpu_space import ONE_BY_ONE as ONE_BY_ONE
from .gemm_cpu_space import PACKED as PACKED
from .gemm_cpu_space import STREAMED as STREAMED
from .gemm_cpu_space import candidates as candidates
from .gemm_cpu_space import violation as violation
from .gemm_cpu_untuned import ALIAS, MANY, NEARBY
from .gemm_cpu_untuned import default_choice as default_choice
from .gemm_shape import Gemm

# Ways to read b by which the tile of the first rows packs.
_BY_TILES = (BY_TILES, ONE_BY_ONE, BOTH)
# Bytes of a b that stays in cache while many rows are multiplied.
_NEARBY_MANY = 2 << 20
# Floats of a cache line.
_LINE = 16
# K of a short sum, whose rows of b are prefetched so many steps ahead where it is read in place.
_BRIEF, _SOON = 128, 4


def _fetched(shape: Gemm, choice: Mapping[str, int]) -> int:
    """Return how many rows that are packed next a tile prefetches with each 16 steps.

    The tiles of a task share them. Several panels of many rows wait little for b.
    """
    is_many = shape.m > MANY
    if is_many and choice["pack"] not in (ONE_BY_ONE, BOTH):
        return 0
    if 4 * shape.n * shape.k <= (_NEARBY_MANY if is_many else NEARBY):
        return 0
    tiles = cpu_tiles.least_units(shape.m, choice["block_m"], choice["rows"])
    return common.ceil_div(16, max(tiles - (choice["pack"] != PACKED), 1))


def _steps_ahead(shape: Gemm) -> int:
    """Return how many steps before its use a row of b that is read in place is prefetched.

    Rows that share sets of L1 evict each other until then, and the first rows of a short sum are
    waited for.
    """
    is_alias = 4 * shape.n % ALIAS == 0
    return _SOON if is_alias or shape.k <= _BRIEF else _LINE


def _even(k: int, depth: int) -> int:
    """Return the depth of parts of one size, as many as there are of a depth."""
    each = common.ceil_div(k, common.ceil_div(k, depth))
    return min(common.ceil_div(each, _LINE) * _LINE, depth)


def kernel(shape: Gemm, choice: Mapping[str, int]) -> SourceKernel:
    """Return the kernel of a choice of knobs."""
    knobs = dict(choice)
    pack, split = knobs.pop("pack"), knobs.setdefault("split_k", 1)
    extents = {"m": shape.m, "n": shape.n, "k": shape.k, "lda": shape.k, "ldc": shape.n}
    extents["rows_left"] = shape.m % choice["rows"]
    if pack not in (LIE, STREAMED):
        parts: tuple[str, ...] = ("panel.h", "strip.h", "gemm_nn.c")
        extents["by_tiles"], extents["in_place"] = pack in _BY_TILES, pack == IN_PLACE
        extents |= {"fetch_steps": _steps_ahead(shape), "fetch_last": 1, "fetch_next": 0}
        knobs["depth"] = _even(common.ceil_div(shape.k, split), choice["depth"])
        extents["copies_rows"] = pack == BOTH
        if pack == BOTH:
            # Of the copy, whose rows do not share sets of L1.
            extents["lda"] = knobs["depth"] + _LINE
        extents["group"] = choice["panels"] if pack in (PACKED, BY_TILES) else 1
        extents |= {"fetched": _fetched(shape, choice), "fetch_pitch": shape.n}
        extents["fetch_wide"] = choice["vectors"] * choice["lanes"]
    elif shape.m == 1:
        parts = ("gemm_row.c",)
    else:
        parts = ("gemm_skinny.c",) if pack == LIE else ("gemm_streamed.c",)
        extents["lda"] = choice["depth"]  # of the copy that both make
    nothing_follows = {"bias": 0, "residual": 0, "affine": 0, "relu": 0, "most_runs": 1}
    names = [each.name for each in shape.arguments()]
    parts_of_sums = [workspace("parts", (split - 1, shape.m, shape.n))] if split > 1 else []
    return SourceKernel(
        "gemm_nn",
        common.text("vectors.h", "tile.h", *parts, "even_parts.h", "gemm_tasks.c"),
        defines=common.defines(**extents, **nothing_follows, **knobs),
        args=shape.arguments(),
        calls=[call("gemm_nn", [*names, *(each.name for each in parts_of_sums)])],
        workspace=parts_of_sums,
        reference=shape.reference(),
        language="c",
    )
