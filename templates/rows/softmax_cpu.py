"""Softmax over rows for a CPU: vectorised exponentials, rows in parallel."""

from __future__ import annotations

from collections.abc import Mapping

from autotune import SourceKernel, Target

from .. import common, cpu_tiles
from .softmax_shape import Softmax


def candidates(shape: Softmax) -> dict[str, list[int]]:
    """Return the values each knob may take for a shape."""
    return {
        "lanes": [4, 8, 16],
        "task_rows": common.up_to(shape.rows, (1, 2, 4, 8, 16, 32, 64)),
        "keep": [0, 1],
    }


def violation(shape: Softmax, choice: Mapping[str, int], target: Target) -> str | None:
    """Return why a choice cannot run: every one can."""
    return None


def default_choice(shape: Softmax, target: Target) -> dict[str, int]:
    """Return a good guess for a shape that was never tuned."""
    each_core = max(shape.rows // max(target.limits.sm_count, 1), 1)
    task_rows = max(n for n in candidates(shape)["task_rows"] if n <= min(4, each_core))
    return {"lanes": cpu_tiles.vector_unit(target).floats, "task_rows": task_rows, "keep": 1}


def kernel(shape: Softmax, choice: Mapping[str, int]) -> SourceKernel:
    """Return the kernel of a choice of knobs."""
    return SourceKernel(
        "softmax",
        common.text("vectors.h", "shuffle.h", "softmax.c"),
        defines=common.defines(batch=shape.rows, columns=shape.columns, **choice),
        args=shape.arguments(),
        reference=shape.reference(),
        language="c",
    )
