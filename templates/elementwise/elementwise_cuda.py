"""Chains of elementwise operations for CUDA, given as an expression: one read and one write.

One kernel is written for the whole chain, as compilers of networks fuse them (Chen et al., "TVM",
2018). Operands that are broadcast are read once for the neighbours that share them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from autotune import SourceKernel, Target, call

from .. import common
from ..rows.rows_shape import DTYPES
from .elementwise_shape import Elementwise
from .expression import CUDA

# Untuned: bytes from which on vectors that divide rows are wide enough.
_WIDE_BYTES = 8


def _load(shape: Elementwise, vec: int) -> str:
    """Return how the operands at ``at`` are read.

    One as large as the result is read in vectors, which may reach across its rows. Of another one
    elements are read singly where vectors do not divide rows.
    """
    extents, strides = shape.plan
    reads = []
    for number in range(len(shape.operands)):
        steps = strides[number] if strides else ()
        if shape.is_whole(number):
            reads.append(f"load_whole(values[u][{number}], in{number} + at, at)")
        elif not any(steps) or extents[-1] % vec == 0:
            how = "load_each" if steps and steps[-1] == 1 else "load_broadcast"
            reads.append(f"{how}(values[u][{number}], in{number} + {_offset(shape, steps, 'at')})")
        else:
            offset = f"[](Index at) {{ return {_offset(shape, steps, 'at')}; }}"
            reads.append(f"load_places(values[u][{number}], in{number}, at, {offset})")
    return "; ".join(reads)


def _offset(shape: Elementwise, steps: Sequence[int], at: str) -> str:
    """Return the offset of an operand of these strides at an element of the result."""
    terms, inner = [], 1
    for extent, stride in reversed(list(zip(shape.plan[0], steps, strict=True))):
        last = inner * extent == shape.outputs  # nothing is beyond the first axis
        place = at if inner == 1 else f"{at} / {inner}"
        if stride:
            terms.append(f"{place} * {stride}" if last else f"{place} % {extent} * {stride}")
        inner *= extent
    return " + ".join(terms) or "0"


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
        "LOAD_OPERANDS": _load(shape, choice["vec"]),
        "EXPRESSION": shape.expression.text_in(CUDA),
    }
    each = choice["threads"] * choice["vec"] * choice["unroll"]
    blocks = common.ceil_div(shape.outputs, each)
    calls = [call("elementwise", [*names, "out"], blocks, choice["threads"])]
    texts = ["maximum.h", "functions.h", "elements.h", "elementwise.cu"]
    return common.cuda_kernel(shape, texts, {**knobs, "FAST_FUNCTIONS": 0}, calls)


def candidates(shape: Elementwise) -> dict[str, list[int]]:
    """Return the values each knob may take for a shape."""
    widest = min(16 // shape.element_bytes, shape.outputs)
    return {
        "threads": [64, 128, 256, 512, 1024],
        "vec": [v for v in (1, 2, 4, 8) if v <= widest],
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
    """Return a good guess: 16-byte loads.

    Vectors divide rows where such ones are wide, so that operands that are broadcast are read in
    vectors too.
    Small arrays are divided among all multiprocessors first, as a thread that computes its
    elements one after another takes longer than a load.
    """
    options, count = candidates(shape), common.multiprocessors(target)
    inner = (shape.plan[0] or (1,))[-1]
    even = max(v for v in options["vec"] if inner % v == 0)
    wide = even if even * shape.element_bytes >= _WIDE_BYTES else max(options["vec"])
    vectors = [wide, *sorted(options["vec"], reverse=True)]
    every = [{"threads": 256, "vec": vec, "unroll": 1} for vec in vectors]
    valid = [one for one in every if violation(shape, one, target) is None]
    filling = (one for one in valid if shape.outputs > 512 * one["vec"] * one["unroll"] * count)
    return next(filling, every[-1])
