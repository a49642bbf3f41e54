"""Inclusive prefix sums of rows for CUDA, with one read and one write.

Warps scan by shuffles, in log2(32) steps, and their totals are scanned in shared memory (Harris,
Sengupta and Owens, "Parallel prefix sum (scan) with CUDA", 2007).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from autotune import SourceKernel, Target, call

from .. import common
from ..common import Array
from . import number_types
from .array_map import ArrayMap
from .rows_shape import DTYPES as FLOATS
from .rows_shape import check_extents, check_rows

# Bytes of elements, by their types.
DTYPES = {**FLOATS, "float64": 8, "int32": 4, "int64": 8}
# Rows up to which a device has more multiprocessors than there are blocks.
FEW_ROWS = 132


@dataclass(frozen=True)
class Scan(ArrayMap):
    """The sums of the first 1, 2, ... elements of each of ``rows`` rows."""

    rows: int
    columns: int
    dtype: str = "float32"

    def __post_init__(self) -> None:
        check_extents("cumsum", self.dtype, self.rows, self.columns, dtypes=DTYPES)
        check_rows("cumsum", self.rows, self.columns)

    @property
    def extents(self) -> tuple[int, ...]:
        """The shape of both arrays."""
        return (self.rows, self.columns)

    @property
    def flop(self) -> int:
        """Additions."""
        return self.rows * self.columns

    def reference(self) -> Callable[..., Array]:
        """Return numpy in, numpy out."""
        return prefix_sums(self.dtype)


def prefix_sums(dtype: str) -> Callable[..., Array]:
    """Return the sums along axis 1: numpy in, numpy out."""

    def cumsum(data: Array) -> Array:
        sums: Array = np.cumsum(data, axis=1)
        return sums.astype(dtype) if dtype in number_types.WHOLE else sums

    return cumsum


def kernel(shape: Scan, choice: Mapping[str, int]) -> SourceKernel:
    """Return the kernel of a choice of knobs."""
    knobs = number_types.defines(shape.dtype)
    knobs |= common.defines(batch=shape.rows, depth=shape.columns, **choice)
    blocks = common.ceil_div(shape.rows, choice["rows"])
    calls = [call("scan", ["data", "out"], blocks, (choice["threads"], choice["rows"]))]
    return common.cuda_kernel(shape, [*texts(shape), "scan_tile.h", "scan.cu"], knobs, calls)


def texts(shape: Scan) -> list[str]:
    """Files of the kernels folder for elements and sums."""
    return [number_types.elements_text(shape.dtype), "value.h"]


def split_kernel(
    shape: Scan, choice: Mapping[str, int], split: int, per_split: int
) -> SourceKernel:
    """Return the kernels that split a row into ``split`` ranges (`split_rows`)."""
    knobs = number_types.defines(shape.dtype)
    knobs |= common.defines(depth=shape.columns, split=split, per_split=per_split, **choice)
    grid = (split, shape.rows)
    calls = [
        call("range_sums", ["data", "partial"], grid, choice["threads"]),
        call("scan", ["data", "partial", "out"], grid, choice["threads"], early=True),
    ]
    return common.cuda_kernel(
        shape, ["dependent_launch.h", *texts(shape), "scan_tile.h", "scan_split.cu"], knobs, calls,
        (shape.rows, split), parts_dtype=number_types.value_dtype(shape.dtype),
    )  # fmt: skip


def candidates(shape: Scan) -> dict[str, list[int]]:
    """Return the values each knob may take for a shape."""
    widest = 16 // shape.element_bytes
    return {
        "threads": [32, 64, 128, 256, 512, 1024],
        "rows": [r for r in (1, 2, 4, 8, 16) if r < 2 * shape.rows],
        "vec": [v for v in (1, 2, 4, 8) if v <= min(widest, shape.columns)],
        "items": [1, 2, 4, 8],
    }


def violation(shape: Scan, choice: Mapping[str, int], target: Target) -> str | None:
    """Return why a choice cannot run or is sure to be slow, or None."""
    return common.first_broken(rules(shape, choice, target, shape.columns))


def rules(
    shape: Scan, choice: Mapping[str, int], target: Target, columns: int
) -> list[tuple[bool, str]]:
    """Return what may be wrong with a choice: whether it is, and in words.

    Args:
        columns: elements of a row that a block has.
    """
    limits, threads = target.limits, choice["threads"] * choice["rows"]
    sweep, held = choice["threads"] * choice["vec"], choice["items"] * (choice["vec"] + 1)
    held *= number_types.value_bytes(shape.dtype) // 4
    return [
        (threads > limits.threads_per_block, "too many threads"),
        ((held + 32) * threads > limits.registers, "too many registers"),
        ((choice["threads"] > 32) & (sweep >= 2 * columns), "threads beyond the row"),
        ((choice["items"] > 1) & (choice["items"] * sweep >= 2 * columns), "items beyond the row"),
    ]


def default_choice(shape: Scan, target: Target) -> dict[str, int]:
    """Return a good guess: 16-byte loads, four of them a thread, or as many as a row has.

    Short rows share blocks. Blocks of few rows are larger, so that they have fewer tiles in turn.
    """
    vec = max(candidates(shape)["vec"])
    threads, items = 32, 1
    while items < 4 and items * 2 * threads * vec < 2 * shape.columns:
        items *= 2
    most = 1024 if shape.rows <= FEW_ROWS and vec * items <= 16 else 256
    while threads < most and threads * 2 * vec * items < 2 * shape.columns:
        threads *= 2
    rows = max(r for r in candidates(shape)["rows"] if r == 1 or r * threads <= 256)
    return {"threads": threads, "rows": rows, "vec": vec, "items": items}
