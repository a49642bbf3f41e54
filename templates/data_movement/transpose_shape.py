"""Permutations of axes, reduced by merging axes that stay together."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from autotune import arg
from autotune.errors import TemplateError
from autotune.kernel import Argument

from ..common import Array

ELEMENT_BYTES = {
    "float32": 4, "float16": 2, "bfloat16": 2, "float64": 8, "int8": 1, "uint8": 1, "bool": 1,
    "int16": 2, "int32": 4, "int64": 8,
}  # fmt: skip


def strides_of(extents: Sequence[int]) -> list[int]:
    """Return the strides of an array."""
    return [math.prod(extents[i + 1 :]) for i in range(len(extents))]


def merged(shape: Sequence[int], axes: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the same permutation of fewer axes: no extent of 1, no two that stay side by side."""
    runs: list[list[int]] = []
    for axis in (a for a in axes if shape[a] > 1):
        between = range(runs[-1][-1] + 1, axis) if runs else ()
        if runs and axis > runs[-1][-1] and all(shape[a] == 1 for a in between):
            runs[-1].append(axis)
        else:
            runs.append([axis])
    order = sorted(range(len(runs)), key=lambda i: runs[i][0])
    extents = tuple(math.prod(shape[a] for a in runs[i]) for i in order)
    return extents or (1,), tuple(order.index(i) for i in range(len(runs))) or (0,)


@dataclass(frozen=True)
class Transpose:
    """An array whose axis ``i`` of the result is axis ``axes[i]`` of the data."""

    shape: tuple[int, ...]
    axes: tuple[int, ...]
    dtype: str = "float32"

    def __post_init__(self) -> None:
        if self.dtype not in ELEMENT_BYTES:
            raise TemplateError(
                f"transpose: dtype must be one of {', '.join(ELEMENT_BYTES)}, got {self.dtype!r}"
            )
        if not self.shape or min(self.shape) < 1:
            raise TemplateError(f"transpose: extents must be at least 1, got {self.shape}")
        if sorted(self.axes) != list(range(len(self.shape))):
            raise TemplateError(
                f"transpose: axes must name each of {len(self.shape)} axes once, got {self.axes}"
            )

    @property
    def element_bytes(self) -> int:
        """Bytes of an element."""
        return ELEMENT_BYTES[self.dtype]

    @property
    def elements(self) -> int:
        """Elements of the array."""
        return math.prod(self.shape)

    @property
    def flop(self) -> int:
        """Elements moved: there is no arithmetic."""
        return self.elements

    @property
    def bytes(self) -> int:
        """Bytes that must move: one read and one write."""
        return 2 * self.elements * self.element_bytes

    @cached_property
    def least(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Extents and axes once those that stay together are one."""
        return merged(self.shape, self.axes)

    @property
    def moved(self) -> bool:
        """Whether another axis becomes the last."""
        shape, axes = self.least
        return axes[-1] != len(shape) - 1

    def arguments(self) -> list[Argument]:
        """Return data and out."""
        result = tuple(self.shape[a] for a in self.axes)
        return [
            arg("data", self.shape, self.dtype),
            arg("out", result, self.dtype, role="out"),
        ]

    def reference(self) -> Callable[..., Array]:
        """Return numpy in, numpy out."""

        def transpose(data: Array) -> Array:
            moved: Array = data.transpose(self.axes)
            return moved

        return transpose
