"""Shapes of elementwise expressions, and their numpy reference."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from autotune import arg
from autotune.errors import TemplateError
from autotune.kernel import Argument

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

    def is_whole(self, number: int) -> bool:
        """Return whether an operand lies in memory as the result does."""
        return math.prod(self.operands[number][1]) == self.outputs

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
            return result.reshape(self.shape or (1,)).astype(arrays[0].dtype)

        return elementwise
