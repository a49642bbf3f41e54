"""Inclusive prefix sums of many short rows for CUDA: a thread has a row, in shared memory.

The rows of a block are one run of memory, copied in vectors of 16 bytes (`scan_staged.cu`).
"""

from __future__ import annotations

from collections.abc import Container, Mapping

from autotune import SourceKernel, Target, call

from .. import common
from . import number_types
from .scan_cuda import Scan, texts

# Longest rows, in elements, and fewest elements in all; bytes of a run, untuned and at most; and
# blocks that fill a device.
LONGEST, FEWEST = 64, 2**17
USUAL_BYTES, MOST_BYTES, WANTED = 8192, 48 * 1024, 1056


def offered(shape: Scan) -> bool:
    """Return whether rows are many, and too short for a warp."""
    return shape.columns <= LONGEST and shape.rows * shape.columns >= FEWEST


def chosen_before(knobs: Container[str]) -> bool:
    """Return whether knobs were chosen when rows were not staged: old logs stay valid."""
    return "items" in knobs


def candidates(shape: Scan) -> dict[str, list[int]]:
    """Return the values each knob may take for a shape."""
    widest = 16 // shape.element_bytes
    return {
        "threads": [32, 64, 128, 256],
        "times": [1, 2, 4, 8],
        "vec": [v for v in (1, 2, 4, 8) if shape.columns % v == 0 and v <= widest],
    }


def violation(shape: Scan, choice: Mapping[str, int], target: Target) -> str | None:
    """Return why a choice cannot run or is sure to be slow, or None."""
    run = choice["threads"] * choice["times"] * shape.columns * shape.element_bytes
    return common.first_broken([(run > MOST_BYTES, "too much shared memory")])


def default_choice(shape: Scan, target: Target) -> dict[str, int]:
    """Return a good guess: blocks of 128 threads, or of fewer with long rows, and runs of 8 KB."""
    row, options = shape.columns * shape.element_bytes, candidates(shape)
    threads = max(common.up_to(128 if 64 * row <= USUAL_BYTES else 64, options["threads"]))
    most = min(USUAL_BYTES // (threads * row), shape.rows // (threads * WANTED))
    times = max(common.up_to(most, options["times"]))
    return {"threads": threads, "times": times, "vec": max(options["vec"])}


def kernel(shape: Scan, choice: Mapping[str, int]) -> SourceKernel:
    """Return the kernel of a choice of knobs."""
    rows = choice["threads"] * choice["times"]
    knobs = number_types.defines(shape.dtype)
    knobs |= common.defines(
        batch=shape.rows, depth=shape.columns, run=rows * shape.columns, plane=shape.columns,
        pad=0, block=choice["threads"], **choice,
    )  # fmt: skip
    calls = [call("scan", ["data", "out"], common.ceil_div(shape.rows, rows), choice["threads"])]
    return common.cuda_kernel(
        shape, [*texts(shape), "staged_run.h", "scan_staged.cu"], knobs, calls
    )
