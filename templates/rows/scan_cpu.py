"""Inclusive prefix sums of rows for a CPU, vector by vector."""

from __future__ import annotations

from collections.abc import Mapping

from autotune import SourceKernel, Target

from .. import common, cpu_tiles
from .scan_cuda import Scan


def candidates(shape: Scan) -> dict[str, list[int]]:
    """Return the values each knob may take for a shape."""
    return {
        "lanes": [4, 8, 16],
        "task_rows": common.up_to(shape.rows, (1, 2, 4, 8, 16, 32, 64)),
    }


def violation(shape: Scan, choice: Mapping[str, int], target: Target) -> str | None:
    """Return why a choice cannot run: every one can."""
    return None


def default_choice(shape: Scan, target: Target) -> dict[str, int]:
    """Return a good guess for a shape that was never tuned."""
    return {"lanes": cpu_tiles.vector_unit(target).floats, "task_rows": 1}


def kernel(shape: Scan, choice: Mapping[str, int]) -> SourceKernel:
    """Return the kernel of a choice of knobs."""
    return SourceKernel(
        "cumsum",
        common.text("vectors.h", "shuffle.h", "rows.h", "scan.c"),
        defines=common.defines(batch=shape.rows, columns=shape.columns, **choice),
        args=shape.arguments(),
        reference=shape.reference(),
        language="c",
    )
