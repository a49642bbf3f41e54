"""Softmax and norms of rows for a CPU: vectors of a row, and rows in parallel.

``softmax.c`` has exponentials that vectorise. ``norms.c`` computes mean and variance of blocks
that stay in the L1 cache, and combines those of a row (Chan, Golub and LeVeque, 1979).
"""

from __future__ import annotations

from collections.abc import Mapping

from autotune import SourceKernel, Target, call

from .. import common, cpu_tiles
from .rows_shape import Rows

SOFTMAX = ("softmax", "log_softmax")


def candidates(shape: Rows) -> dict[str, list[int]]:
    """Return the values each knob may take for a shape."""
    return {
        "lanes": [4, 8, 16],
        "task_rows": common.up_to(shape.rows, (1, 2, 4, 8, 16, 32, 64)),
        "keep": [0, 1] if shape.operation == "softmax" else [0],
    }


def violation(shape: Rows, choice: Mapping[str, int], target: Target) -> str | None:
    """Return why a choice cannot run: every one can."""
    return None


def default_choice(shape: Rows, target: Target) -> dict[str, int]:
    """Return a good guess for a shape that was never tuned."""
    options = candidates(shape)
    each_core = max(shape.rows // max(target.limits.sm_count, 1), 1)
    task_rows = max(n for n in options["task_rows"] if n <= min(4, each_core))
    lanes = cpu_tiles.vector_unit(target).floats
    return {"lanes": lanes, "task_rows": task_rows, "keep": max(options["keep"])}


def kernel(shape: Rows, choice: Mapping[str, int]) -> SourceKernel:
    """Return the kernel of a choice of knobs."""
    knobs: dict[str, int | str] = {name.upper(): value for name, value in choice.items()}
    knobs |= common.defines(batch=shape.rows, columns=shape.columns)
    if shape.operation in SOFTMAX:
        texts, called = ["power.h", "softmax.c"], call("softmax", ["data", "out"])
        knobs["LOGARITHM"] = int(shape.operation == "log_softmax")
    else:
        # Operands that are not there are never read; the data are passed instead.
        names = ["data", "gain" if shape.gain else "data", "shift" if shape.shift else "data"]
        texts, called = ["norms.c"], call("norm", [*names, "out"])
        knobs |= common.defines(
            rms=shape.operation == "rms_norm", gain=shape.gain, shift=shape.shift,
            groups=shape.groups, channels=shape.row_channels,
            spatial=shape.columns // shape.row_channels,
        )  # fmt: skip
        knobs["EPSILON"] = repr(shape.epsilon)
    return SourceKernel(
        called.entry,
        common.text("vectors.h", "shuffle.h", "rows.h", *texts),
        defines=knobs,
        args=shape.arguments(),
        calls=[called],
        reference=shape.reference(),
        language="c",
    )
