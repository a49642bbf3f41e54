"""Softmax along a middle axis for CUDA: of columns of planes, read coalesced across them.

The map is that of `rows_cuda` (``row_maps.h``); the kernel is ``columns.cu``. Few long columns are
split among blocks, in two passes, as in `split_rows`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from autotune import SourceKernel, Target, call

from .. import common
from ..common import Array
from .array_map import ColumnsMap
from .rows_shape import DTYPES, MAPS, Rows, check_extents, check_rows

# Elements that a thread keeps in registers, and bytes of static shared memory, at most.
MOST_KEPT, SHARED_BYTES, STATE_BYTES = 64, 48 * 1024, 8
# Elements of a column that are loaded together where they are not kept.
SWEPT = 8
TEXTS = ("dependent_launch.h", "elements.h", "reducers.h", "row_maps.h", "columns.cu")
# Ranges of a column, the least rows of one, most columns that are split, and words of a state.
SPLITS, SHORTEST, FEW, STATE_WORDS = (1, 2, 4, 8, 16, 32, 64, 128, 256), 64, 2**14, 2
# Knobs that were added, with the values that kernels had before: old logs stay valid.
ADDED = {"split": 1}


@dataclass(frozen=True)
class Columns(ColumnsMap):
    """Softmax, or its logarithm, of an array ``[outer, depth, inner]`` along its middle axis."""

    operation: str
    outer: int
    depth: int
    inner: int
    dtype: str = "float32"

    def __post_init__(self) -> None:
        check_extents(self.operation, self.dtype, self.outer, self.depth, self.inner)
        check_rows(self.operation, self.columns, self.depth, named="columns")

    @property
    def flop(self) -> int:
        """Operations, five an element."""
        return 5 * self.columns * self.depth

    def reference(self) -> Callable[..., Array]:
        """Return numpy in, numpy out."""
        rows = Rows(self.operation, self.columns, self.depth).reference()

        def mapped(data: Array) -> Array:
            turned = data.swapaxes(1, 2)
            out: Array = rows(turned.reshape(-1, self.depth)).reshape(turned.shape).swapaxes(1, 2)
            return out

        return mapped


def candidates(shape: Columns) -> dict[str, list[int]]:
    """Return the values each knob may take for a shape."""
    widest = 16 // shape.element_bytes
    return {
        "threads": [8, 16, 32, 64, 128, 256],
        "rows": [1, 2, 4, 8, 16, 32, 64],
        "width": [w for w in (1, 2, 4, 8) if shape.inner % w == 0 and w <= widest],
        "keep": [0, 1],
        "split": common.up_to(shape.depth // SHORTEST if shape.columns <= FEW else 1, SPLITS),
    }


def _per_split(shape: Columns, choice: Mapping[str, int]) -> int:
    """Return the rows of a range of a column."""
    return common.ceil_div(shape.depth, choice["split"])


def _kept(shape: Columns, choice: Mapping[str, int]) -> int:
    """Return the elements that a thread holds at a time."""
    each = common.ceil_div(_per_split(shape, choice), choice["rows"])
    items = common.pick(choice["keep"], each, common.smaller(each, SWEPT))
    return items * choice["width"]


def violation(shape: Columns, choice: Mapping[str, int], target: Target) -> str | None:
    """Return why a choice cannot run or is sure to be slow, or None."""
    threads = choice["threads"] * choice["rows"]
    across = choice["threads"] * choice["width"]
    rules = [
        (threads > target.limits.threads_per_block, "too many threads"),
        (threads < 32, "less than a warp"),
        (_kept(shape, choice) > MOST_KEPT, "columns too long for registers"),
        (across * choice["rows"] * STATE_BYTES > SHARED_BYTES, "too much shared memory"),
        (
            (choice["rows"] > 4) & (choice["rows"] >= 2 * _per_split(shape, choice)),
            "threads beyond a column",
        ),
        ((choice["split"] > 1) & (choice["keep"] > 0), "a range is read twice"),
    ]
    return common.first_broken(rules)


def estimate(shape: Columns, choice: Mapping[str, int], target: Target) -> float:
    """Return a rough number of cycles: memory and its latency, and combining."""
    threads, kept = choice["threads"] * choice["rows"], _kept(shape, choice)
    across = choice["threads"] * choice["width"]
    blocks = common.ceil_div(shape.columns, across)
    shared = across * choice["rows"] * STATE_BYTES
    occupied = common.occupancy(target, blocks * choice["split"], threads, 24 + 2 * kept, shared)
    each = common.ceil_div(_per_split(shape, choice), choice["rows"])
    rounds = common.ceil_div(each, max(1, kept // choice["width"]))
    passes = 1 if choice["keep"] else 2
    flight = occupied.together * threads * kept * shape.element_bytes
    waiting = 800 * rounds * max(1.0, flight / 32768)
    # Neighbouring columns of a plane are read together; of few, parts of sectors.
    run = min(across, shape.inner) * shape.element_bytes
    narrow = max(1.0, (run + 32 - shape.element_bytes * choice["width"]) / run)
    issue = each * (12 + 10 * choice["width"]) * occupied.together * threads / 128
    # Maxima, powers and their sum are chains of a thread, which few warps do not hide.
    busy = max(issue, 40 * each * choice["width"])
    waiting *= narrow
    overlapped = passes * (max(waiting, busy) + 0.4 * min(waiting, busy))
    # Threads of a column are combined by halves.
    combining = 80 * math.log2(choice["rows"]) * choice["width"]
    alone = overlapped + combining + 1000
    wasted = blocks * across / shape.columns
    # Another kernel, and states of ranges that each thread combines.
    states = 200 * common.ceil_div(choice["split"], choice["rows"]) * choice["width"]
    second = 2500 + states + combining if choice["split"] > 1 else 0
    return occupied.waves * (alone * wasted + second)


def default_choice(shape: Columns, target: Target) -> dict[str, int]:
    """Return a good guess for a shape that was never tuned: the best of a fixed sample."""
    return common.best_drawn(
        candidates(shape),
        2000,
        partial(violation, shape, target=target),
        partial(estimate, shape, target=target),
    )


def kernel(shape: Columns, choice: Mapping[str, int]) -> SourceKernel:
    """Return the kernel of a choice of knobs."""
    knobs: dict[str, int | str] = {name.upper(): value for name, value in choice.items()}
    # A column is a row of scalars to the map, and parts of rows have no scale.
    knobs |= common.defines(
        outer=shape.outer, depth=shape.depth, inner=shape.inner, vec=1, gain=0, shift=0,
        element=list(DTYPES).index(shape.dtype), spatial=1, channels=1, groups=1,
        per_split=_per_split(shape, choice),
    )  # fmt: skip
    knobs |= {"EPSILON": "0.0", "MAP": MAPS[shape.operation]}
    grid = (common.ceil_div(shape.columns, choice["threads"] * choice["width"]), choice["split"])
    block = (choice["threads"], choice["rows"])
    if choice["split"] == 1:  # there are no states of ranges
        calls = [call("columns", ["data", "out", "out"], grid, block)]
        return common.cuda_kernel(shape, TEXTS, knobs, calls)
    calls = [
        call("column_states", ["data", "partial"], grid, block),
        call("columns", ["data", "out", "partial"], grid, block, early=True),
    ]
    parts = (choice["split"] * shape.columns, STATE_WORDS)
    return common.cuda_kernel(shape, TEXTS, knobs, calls, parts)
