"""Chains of elementwise operations for CUDA, given as an expression: one read and one write.

One kernel is written for the whole chain, as compilers of networks fuse them (Chen et al., "TVM",
2018). Operands that are broadcast are read once for the neighbours that share them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from autotune import SourceKernel, Target, arg, call
from autotune.errors import TemplateError
from autotune.kernel import Argument

from .. import common
from ..common import Array
from ..rows.rows_shape import DTYPES
from .expression import Expression


@dataclass(frozen=True)
class Elementwise:
    """An expression of arrays that are broadcast to one shape, as in numpy."""

    text: str
    operands: tuple[tuple[str, tuple[int, ...]], ...]
    dtype: str = "float32"

    def __post_init__(self) -> None:
        if self.dtype not in DTYPES:
            raise TemplateError(
                f"elementwise: dtype must be one of {', '.join(DTYPES)}, got {self.dtype!r}"
            )
        names = [name for name, _ in self.operands]
        fine = all(name.isidentifier() and name.isascii() for name in names)
        if not names or not fine or len(set(names)) < len(names) or "out" in names:
            raise TemplateError(
                "elementwise: operands must be (name, shape), with different names, none of them "
                f"'out', got {self.operands!r}"
            )
        if any(extent < 1 for _, shape in self.operands for extent in shape):
            raise TemplateError(f"elementwise: extents must be at least 1, got {self.operands!r}")
        _ = self.shape, self.expression  # which refuse what cannot be

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """Extents of the result."""
        try:
            return np.broadcast_shapes(*(shape for _, shape in self.operands))
        except ValueError as error:
            raise TemplateError(f"elementwise: {self.operands!r}: {error}") from None

    @cached_property
    def expression(self) -> Expression:
        """The checked expression."""
        return Expression(self.text, [name for name, _ in self.operands])

    @property
    def element_bytes(self) -> int:
        """Bytes of an element."""
        return DTYPES[self.dtype]

    @property
    def outputs(self) -> int:
        """Elements of the result."""
        return math.prod(self.shape)

    @property
    def flop(self) -> int:
        """Operations, a function counted as one."""
        return self.outputs * self.expression.flop

    @property
    def bytes(self) -> int:
        """Bytes that must move at least once."""
        read = sum(math.prod(shape) for _, shape in self.operands)
        return self.element_bytes * (read + self.outputs)

    @cached_property
    def plan(self) -> tuple[tuple[int, ...], tuple[tuple[int, ...], ...]]:
        """Fewest extents of the result, and each operand's strides along them."""
        rank = len(self.shape)
        padded = [(1,) * (rank - len(shape)) + shape for _, shape in self.operands]
        extents: list[int] = []
        strides: list[list[int]] = []
        for axis in (a for a in range(rank) if self.shape[a] > 1):
            step = [0 if p[axis] == 1 else math.prod(p[axis + 1 :]) for p in padded]
            # An axis joins the one before where all operands go on as they did.
            if extents and all(
                before == each * self.shape[axis]
                for before, each in zip(strides[-1], step, strict=True)
            ):
                extents[-1] *= self.shape[axis]
                strides[-1] = step
            else:
                extents.append(self.shape[axis])
                strides.append(step)
        return tuple(extents), tuple(tuple(each) for each in zip(*strides, strict=True))

    def arguments(self) -> list[Argument]:
        """Return the operands and out."""
        inputs = [arg(name, shape or (1,), self.dtype) for name, shape in self.operands]
        return [*inputs, arg("out", self.shape or (1,), self.dtype, role="out")]

    def reference(self) -> Callable[..., Array]:
        """Return numpy in, numpy out."""

        def elementwise(*arrays: Array) -> Array:
            values = {
                name: each.reshape(shape)
                for (name, shape), each in zip(self.operands, arrays, strict=True)
            }
            result = np.broadcast_to(self.expression.numpy(values), self.shape)
            return np.array(result.reshape(self.shape or (1,)), dtype=arrays[0].dtype)

        return elementwise


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
        "EXPRESSION": shape.expression.cuda,
    }
    each = choice["threads"] * choice["vec"] * choice["unroll"]
    blocks = common.ceil_div(shape.outputs, each)
    calls = [call("elementwise", [*names, "out"], blocks, choice["threads"])]
    return common.cuda_kernel(shape, ["elements.h", "elementwise.cu"], knobs, calls)


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
    """Return a good guess: 16-byte loads, two of each operand in flight."""
    options = candidates(shape)
    choice = {"threads": 256, "vec": max(options["vec"]), "unroll": 2}
    return choice if violation(shape, choice, target) is None else choice | {"unroll": 1}
