"""Products of few rows of 8-bit integers by rows of weights, with their requantisation.

They are bound by loading the weights, as those of floats are (`matvec_cuda`); `matvec_int8.cu`
says how. Shapes, arguments and reference are those of `conv2d_int8`, whose images have one pixel.
"""

from __future__ import annotations

from collections.abc import Mapping

from autotune import SourceKernel, Target, call

from .. import common
from ..convolutions.conv2d_int8 import IntegerConv2dNhwc
from . import l2_resident

ENTRY = "matvec_int8"
# Rows up to which a thread keeps sums of all, and bytes that it loads at a time.
MOST_ROWS, VECTOR = 8, 16
# What a choice has of a log that is older than a knob.
ADDED = l2_resident.ADDED


def suits(shape: IntegerConv2dNhwc) -> bool:
    """Return whether a shape is a product of few rows of whole vectors."""
    return shape.rows and shape.m <= MOST_ROWS and shape.k % VECTOR == 0


def candidates(shape: IntegerConv2dNhwc) -> dict[str, list[int]]:
    """Return the values each knob may take for a shape."""
    return {
        "lanes": [4, 8, 16, 32],
        "threads": [64, 128, 256],
        l2_resident.KNOB: l2_resident.values(shape.n * shape.k),
    }


def violation(shape: IntegerConv2dNhwc, choice: Mapping[str, int], target: Target) -> str | None:
    """Return why a choice cannot run or is sure to be slow, or None."""
    return common.first_broken([
        (choice["lanes"] * VECTOR >= 2 * max(shape.k, 4 * VECTOR), "threads without terms"),
        (choice["threads"] > target.limits.threads_per_block, "too many threads"),
    ])  # fmt: skip


def default_choice(shape: IntegerConv2dNhwc, target: Target) -> dict[str, int]:
    """Return a warp for each column, or as many threads of it as have terms."""
    fits = [n for n in candidates(shape)["lanes"] if n * VECTOR <= max(shape.k, 4 * VECTOR)]
    resident = l2_resident.untuned(shape.n * shape.k, target)
    return {"lanes": max(fits), "threads": 128, l2_resident.KNOB: resident}


def kernel(shape: IntegerConv2dNhwc, choice: Mapping[str, int]) -> SourceKernel:
    """Return the kernel of a choice of knobs."""
    names = [each.name for each in shape.arguments()]
    blocks = common.ceil_div(shape.n * choice["lanes"], choice["threads"])
    knobs = l2_resident.in_256ths(shape.n * shape.k, choice)
    sizes = common.defines(m=shape.m, n=shape.n, k=shape.k, terms=shape.k, **knobs)
    return SourceKernel(
        ENTRY,
        common.text("device.h", "requantise.h", l2_resident.TEXT, f"{ENTRY}.cu"),
        defines={**sizes, **shape.end.defines()},
        args=shape.arguments(),
        calls=[call(ENTRY, names, blocks, choice["threads"])],
        reference=shape.reference(),
        flags=common.CUDA_FLAGS,
        language="cuda",
    )
