"""Inclusive prefix sums along a middle axis for CUDA: of columns of planes, read across them.

As those of rows (`scan_cuda`, `split_rows`) they have one read and one write, or, of few columns,
two reads: the first of two kernels sums up the ranges into which columns are split.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from autotune import SourceKernel, Target, call

from .. import common
from ..common import Array
from . import number_types
from .array_map import ColumnsMap
from .rows_shape import check_extents, check_rows
from .scan_cuda import DTYPES, prefix_sums

SPLITS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
# Fewest rows of a range, elements that a thread keeps, and bytes of static shared memory.
SHORTEST, MOST_KEPT, SHARED_BYTES = 32, 64, 48 * 1024
# Bytes that an H200 moves in a cycle, of a multiprocessor, and of a sector.
BYTES_A_CYCLE, SECTOR = 20, 32


@dataclass(frozen=True)
class ScanColumns(ColumnsMap):
    """Prefix sums of an array ``[outer, depth, inner]`` along its middle axis."""

    outer: int
    depth: int
    inner: int
    dtype: str = "float32"

    def __post_init__(self) -> None:
        check_extents("cumsum", self.dtype, self.outer, self.depth, self.inner, dtypes=DTYPES)
        check_rows("cumsum", self.columns, self.depth, named="columns")

    @property
    def flop(self) -> int:
        """Additions."""
        return self.columns * self.depth

    def reference(self) -> Callable[..., Array]:
        """Return numpy in, numpy out."""
        return prefix_sums(self.dtype)


def candidates(shape: ScanColumns) -> dict[str, list[int]]:
    """Return the values each knob may take for a shape."""
    widest = 16 // shape.element_bytes
    return {
        "threads": [4, 8, 16, 32, 64, 128],
        "rows": [1, 2, 4, 8, 16, 32],
        "width": [w for w in (1, 2, 4, 8) if shape.inner % w == 0 and w <= widest],
        "items": [1, 2, 4, 8, 16],
        "split": common.up_to(max(1, shape.depth // SHORTEST), SPLITS),
    }


def _shared_bytes(shape: ScanColumns, choice: Mapping[str, int]) -> int:
    values = choice["threads"] * choice["rows"] * choice["width"]
    return 2 * values * number_types.value_bytes(shape.dtype)


def violation(shape: ScanColumns, choice: Mapping[str, int], target: Target) -> str | None:
    """Return why a choice cannot run or is sure to be slow, or None."""
    threads, tile = choice["threads"] * choice["rows"], choice["rows"] * choice["items"]
    per_split = common.ceil_div(shape.depth, choice["split"])
    kept = choice["items"] * choice["width"] * number_types.value_bytes(shape.dtype)
    across = choice["threads"] * choice["width"]
    rules = [
        (threads > target.limits.threads_per_block, "too many threads"),
        (threads < 32, "less than a warp"),
        (kept > 4 * MOST_KEPT, "runs too long for registers"),
        ((kept // 2 + 40) * threads > target.limits.registers, "too many registers"),
        (_shared_bytes(shape, choice) > SHARED_BYTES, "too much shared memory"),
        ((tile > 32) & (tile >= 2 * per_split), "rows beyond the range"),
        ((choice["threads"] > 4) & (across >= 2 * shape.columns), "threads beyond the columns"),
        (choice["split"] * shape.columns >= 2**31, "sums beyond 32-bit indices"),
    ]
    return common.first_broken(rules)


def estimate(shape: ScanColumns, choice: Mapping[str, int], target: Target) -> float:
    """Return a rough number of cycles: memory and its latency, and the sums of other threads."""
    threads, across = choice["threads"] * choice["rows"], choice["threads"] * choice["width"]
    words = number_types.value_bytes(shape.dtype) // 4
    held = choice["items"] * choice["width"] * words
    blocks = common.ceil_div(shape.columns, across)
    occupied = common.occupancy(
        target, blocks * choice["split"], threads, 32 + 2 * held, _shared_bytes(shape, choice)
    )
    per_split = common.ceil_div(shape.depth, choice["split"])
    tiles = common.ceil_div(per_split, choice["rows"] * choice["items"])
    warps = occupied.together * threads / 32
    # Neighbouring columns of a plane are read together; of few, parts of sectors.
    run = min(across, shape.inner) * shape.element_bytes
    narrow = max(1.0, (run + SECTOR - shape.element_bytes * choice["width"]) / run)
    moved = 64 * warps * choice["items"] * choice["width"] * shape.element_bytes * narrow
    read = max(900.0, moved / 2 / BYTES_A_CYCLE)
    shared = choice["rows"] * choice["width"] * words * warps + 8 * choice["rows"]
    busy = shared + 2 * choice["items"] * choice["width"] * warps + 100
    tile = max(read + moved / 2 / BYTES_A_CYCLE, busy) + 0.5 * busy
    alone = occupied.waves * (tiles * tile + 1000)
    if choice["split"] == 1:
        return alone
    ranges = common.ceil_div(choice["split"], choice["rows"])
    return alone + occupied.waves * (tiles * read + 600 + 100 * ranges) + 1600


def default_choice(shape: ScanColumns, target: Target) -> dict[str, int]:
    """Return a good guess for a shape that was never tuned: the best of a fixed sample."""
    return common.best_drawn(
        candidates(shape),
        1500,
        partial(violation, shape, target=target),
        partial(estimate, shape, target=target),
    )


def kernel(shape: ScanColumns, choice: Mapping[str, int]) -> SourceKernel:
    """Return the kernels of a choice of knobs."""
    split = choice["split"]
    knobs = number_types.defines(shape.dtype)
    knobs |= common.defines(
        outer=shape.outer, depth=shape.depth, inner=shape.inner,
        per_split=common.ceil_div(shape.depth, split), **choice,
    )  # fmt: skip
    grid = (common.ceil_div(shape.columns, choice["threads"] * choice["width"]), split)
    block = (choice["threads"], choice["rows"])
    # Without a split there are no partial sums.
    calls = [call("scan", ["data", "out", "out"], grid, block)]
    if split > 1:
        calls = [
            call("range_sums", ["data", "partial"], grid, block),
            call("scan", ["data", "out", "partial"], grid, block, early=True),
        ]
    texts = [number_types.elements_text(shape.dtype), "value.h", "scan_columns.cu"]
    return common.cuda_kernel(
        shape, ["dependent_launch.h", *texts], knobs, calls,
        (split, shape.columns) if split > 1 else None,
        parts_dtype=number_types.value_dtype(shape.dtype),
    )  # fmt: skip
