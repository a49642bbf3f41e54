"""What shapes of kernels have in common that map one array to another of its shape and type."""

from __future__ import annotations

from abc import ABC, abstractmethod
from math import prod

from autotune import arg
from autotune.kernel import Argument

from .number_types import BYTES


class ArrayMap(ABC):
    """A map of an array to one of the same shape and type, with one read and one write."""

    dtype: str

    @property
    @abstractmethod
    def extents(self) -> tuple[int, ...]:
        """The shape of both arrays."""

    @property
    def element_bytes(self) -> int:
        """Bytes of an element."""
        return BYTES[self.dtype]

    @property
    def bytes(self) -> int:
        """Bytes that must move at least once: one read and one write."""
        return 2 * self.element_bytes * prod(self.extents)

    def arguments(self) -> list[Argument]:
        """Return data and out."""
        return [
            arg("data", self.extents, self.dtype),
            arg("out", self.extents, self.dtype, role="out"),
        ]


class ColumnsMap(ArrayMap):
    """A map of columns of planes: of an array ``[outer, depth, inner]`` along its middle axis."""

    outer: int
    depth: int
    inner: int

    @property
    def columns(self) -> int:
        """Number of columns, of all planes."""
        return self.outer * self.inner

    @property
    def extents(self) -> tuple[int, ...]:
        """The shape of both arrays."""
        return (self.outer, self.depth, self.inner)
