"""Reductions for a CPU: sum, product, min, max, argmin and argmax, along rows or down columns.

Rows are read in vectors, with several accumulators. Down columns several rows at a time are added
to results that stay in the L1 cache, so that memory is read in order. Where outputs are too few to
give each core work, the reduction is split.
"""

from __future__ import annotations

from collections.abc import Mapping

from autotune import SourceKernel, Target, call, workspace

from .. import common, cpu_tiles
from .reduction_shape import Reduction

REDUCERS = {"sum": 0, "mean": 0, "prod": 1, "max": 2, "min": 3, "argmax": 2, "argmin": 3}
SPLITS = (1, 2, 4, 8, 16, 32, 64, 128)
# Elements that are worth a part of their own, and columns of a tile where nothing was tuned.
_LEAST_PART, _USUAL_TILE = 16384, 512


def candidates(shape: Reduction) -> dict[str, list[int]]:
    """Return the values each knob may take for a shape."""
    down = shape.inner > 1
    return {
        "lanes": [4, 8, 16],
        "split": common.up_to(max(1, shape.depth // 64), SPLITS),
        "tile": [64, *(t for t in (128, 256, 512, 1024, 2048) if t < 2 * shape.inner)]
        if down
        else [1],
        "rows": common.up_to(shape.depth, (1, 2, 4, 8)) if down else [1],
    }


def violation(shape: Reduction, choice: Mapping[str, int], target: Target) -> str | None:
    """Return why a choice cannot run, or None."""
    if choice["split"] * shape.outputs >= 2**31:
        return "partial results beyond 32-bit indices"
    return None


def default_choice(shape: Reduction, target: Target) -> dict[str, int]:
    """Return a good guess: as few parts, and as wide tiles, as give each core work."""
    options, cores = candidates(shape), max(target.limits.sm_count, 1)

    def tasks(tile: int, split: int) -> int:
        return shape.outer * common.ceil_div(shape.inner, tile) * split

    tiles = [t for t in options["tile"] if t <= _USUAL_TILE]
    tile = max((t for t in tiles if tasks(t, 1) >= cores), default=max(tiles))
    most = max(1, shape.outputs * shape.depth // _LEAST_PART)
    splits = [s for s in options["split"] if s <= most]
    split = min((s for s in splits if tasks(tile, s) >= cores), default=max(splits))
    lanes = cpu_tiles.vector_unit(target).floats
    return {"lanes": lanes, "split": split, "tile": tile, "rows": max(options["rows"])}


def kernel(shape: Reduction, choice: Mapping[str, int]) -> SourceKernel:
    """Return the kernel of a choice of knobs."""
    s, split = shape, choice["split"]
    knobs = common.defines(
        outer=s.outer, depth=s.depth, inner=s.inner, reducer=REDUCERS[s.operation], arg=s.place,
        mean=s.operation == "mean", lanes=choice["lanes"], split=split, rows=choice["rows"],
        per_split=common.ceil_div(s.depth, split),
    )  # fmt: skip
    if s.inner > 1:
        knobs = {**knobs, "TILE": choice["tile"]}
    partial = [workspace("partial", (split, s.outputs))] if split > 1 else []
    if split > 1 and s.place:
        partial.append(workspace("indices", (split, s.outputs), "int32"))
    here = {each.name for each in partial}
    names = ["data", *(n if n in here else "out" for n in ("partial", "indices")), "out"]
    return SourceKernel(
        "reduce",
        common.text("vectors.h", "shuffle.h", "rows.h", "reduce.c"),
        defines=knobs,
        args=s.arguments(),
        calls=[call("reduce", names)],
        workspace=partial,
        reference=s.reference(),
        language="c",
    )
