"""Softmax over rows for CUDA: one or several warps a row, one read and one write."""

from __future__ import annotations

from collections.abc import Mapping

from autotune import SourceKernel, Target

from . import common
from .softmax_shape import Softmax

# Of a kept row a thread holds at most this many elements, the rest being addresses and sums.
MOST_KEPT = 128


def kernel(shape: Softmax, choice: Mapping[str, int]) -> SourceKernel:
    """Return the kernel of a choice of knobs."""
    return SourceKernel(
        "softmax",
        common.text("device.h", "softmax.cu"),
        defines=common.defines(batch=shape.rows, columns=shape.columns, **choice),
        grid=common.ceil_div(shape.rows, choice["rows"]),
        block=(choice["threads"], choice["rows"]),
        args=shape.arguments(),
        reference=shape.reference(),
        flags=common.CUDA_FLAGS,
        language="cuda",
    )


def candidates(shape: Softmax) -> dict[str, list[int]]:
    """Return the values each knob may take for a shape."""
    return {
        "threads": [32, 64, 128, 256, 512, 1024],
        "rows": [r for r in (1, 2, 4, 8, 16) if r < 2 * shape.rows],
        "vec": [v for v in (1, 2, 4) if shape.columns % v == 0],
        "keep": [0, 1],
    }


def violation(shape: Softmax, choice: Mapping[str, int], target: Target) -> str | None:
    """Return why a choice cannot run or is sure to be slow, or None."""
    limits, threads = target.limits, choice["threads"] * choice["rows"]
    sweep = choice["threads"] * choice["vec"]
    kept = common.ceil_div(shape.columns, sweep) * choice["vec"] if choice["keep"] else 8
    rules = [
        (threads > limits.threads_per_block, "too many threads"),
        (kept > MOST_KEPT, "a row too long to keep"),
        ((kept + 24) * threads > limits.registers, "too many registers"),
        (choice["threads"] > 32 and sweep >= 2 * shape.columns, "threads beyond the row"),
    ]
    return common.first_broken(rules)


def default_choice(shape: Softmax, target: Target) -> dict[str, int]:
    """Return a good guess: 16-byte reads, about eight elements a thread, the row kept."""
    vec = common.widest(shape.columns)
    threads = 32
    while threads < 1024 and threads * 2 * vec <= shape.columns // max(8 // vec, 1):
        threads *= 2
    choice = {"threads": threads, "rows": 1, "vec": vec, "keep": 1}
    return choice if violation(shape, choice, target) is None else choice | {"keep": 0}
