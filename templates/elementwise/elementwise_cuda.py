"""Chains of elementwise operations for CUDA, given as an expression: one read and one write.

One kernel is written for the whole chain, as compilers of networks fuse them (Chen et al., "TVM",
2018). Operands that are broadcast are read once for the neighbours that share them.
"""

from __future__ import annotations

from collections.abc import Mapping

from autotune import SourceKernel, Target, call

from .. import common
from ..rows.rows_shape import DTYPES
from .elementwise_shape import Elementwise
from .expression import CUDA


def _load(shape: Elementwise) -> str:
    """Return how the operands at ``at`` are read."""
    extents, strides = shape.plan
    reads = []
    for number in range(len(shape.operands)):
        terms, inner = [], 1
        steps = strides[number] if strides else ()
        for extent, stride in reversed(list(zip(extents, steps, strict=True))):
            last = inner * extent == shape.outputs  # nothing is beyond the first axis
            place = "at" if inner == 1 else f"(at) / {inner}"
            if stride:
                terms.append(f"{place} * {stride}" if last else f"{place} % {extent} * {stride}")
            inner *= extent
        how = "load_each" if steps and steps[-1] == 1 else "load_broadcast"
        reads.append(f"{how}(values[u][{number}], in{number} + {' + '.join(terms) or '0'})")
    return "; ".join(reads)


def kernel(shape: Elementwise, choice: Mapping[str, int]) -> SourceKernel:
    """Return the kernel of a choice of knobs."""
    names = [name for name, _ in shape.operands]
    knobs: dict[str, int | str] = {name.upper(): value for name, value in choice.items()}
    knobs |= common.defines(
        size=shape.outputs, operands=len(names), element=list(DTYPES).index(shape.dtype)
    )
    parameters = [f"const Element* __restrict__ in{i}" for i in range(len(names))]
    knobs |= {
        "PARAMETERS": ", ".join([*parameters, "Element* __restrict__ out"]),
        "LOAD_OPERANDS": _load(shape),
        "EXPRESSION": shape.expression.text_in(CUDA),
    }
    each = choice["threads"] * choice["vec"] * choice["unroll"]
    blocks = common.ceil_div(shape.outputs, each)
    calls = [call("elementwise", [*names, "out"], blocks, choice["threads"])]
    texts = ["maximum.h", "functions.h", "elements.h", "elementwise.cu"]
    return common.cuda_kernel(shape, texts, {**knobs, "FAST_FUNCTIONS": 0}, calls)


def candidates(shape: Elementwise) -> dict[str, list[int]]:
    """Return the values each knob may take for a shape."""
    widest, inner = 16 // shape.element_bytes, (shape.plan[0] or (1,))[-1]
    return {
        "threads": [64, 128, 256, 512, 1024],
        "vec": [v for v in (1, 2, 4, 8) if inner % v == 0 and v <= widest],
        "unroll": [1, 2, 4, 8],
    }


def violation(shape: Elementwise, choice: Mapping[str, int], target: Target) -> str | None:
    """Return why a choice cannot run or is sure to be slow, or None."""
    threads, held = choice["threads"], choice["unroll"] * choice["vec"] * len(shape.operands)
    rules = [
        (threads > target.limits.threads_per_block, "too many threads"),
        (held > 128, "too many loads in flight"),
        ((held + 32) * threads > target.limits.registers, "too many registers"),
        (
            (choice["unroll"] > 1)
            & (threads * choice["vec"] * choice["unroll"] >= 2 * shape.outputs),
            "threads beyond the result",
        ),
    ]
    return common.first_broken(rules)


def default_choice(shape: Elementwise, target: Target) -> dict[str, int]:
    """Return a good guess: 16-byte loads, two of each operand in flight.

    Small arrays are divided among all multiprocessors first, as a thread that computes its
    elements one after another takes longer than a load.
    """
    options, count = candidates(shape), common.multiprocessors(target)
    wide = max(options["vec"])
    works = [(wide, 2), *((vec, 1) for vec in sorted(options["vec"], reverse=True))]
    every = [{"threads": 256, "vec": vec, "unroll": unroll} for vec, unroll in works]
    valid = [one for one in every if violation(shape, one, target) is None]
    filling = (one for one in valid if shape.outputs > 512 * one["vec"] * one["unroll"] * count)
    return next(filling, every[-1])
