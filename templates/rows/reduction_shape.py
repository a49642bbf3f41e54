"""Shapes of reductions, and their numpy references."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from autotune import arg
from autotune.errors import TemplateError
from autotune.kernel import Argument

from ..common import Array
from . import number_types
from .number_types import BYTES, WHOLE
from .rows_shape import LONGEST, MOST_ROWS, check_extents

# Names in templates, and of the structs of the kernels.
REDUCERS = {
    "sum": "Sum",
    "mean": "Mean",
    "prod": "Product",
    "max": "Maximum",
    "min": "Minimum",
    "argmax": "Argmax",
    "argmin": "Argmin",
}
Extents = int | Sequence[int]


@dataclass(frozen=True)
class Reduction:
    """An array ``[outer, depth, inner]`` reduced along its middle by one of `REDUCERS`.

    Attributes:
        apart: extents that alternate in the array, each kept one with the reduced one behind it,
            whose products are ``outer`` and ``depth``; empty where reduced axes are neighbours.
    """

    operation: str
    outer: int
    depth: int
    inner: int = 1
    dtype: str = "float32"
    apart: tuple[tuple[int, int], ...] = ()

    @classmethod
    def of(
        cls, operation: str, outer: Extents, depth: Extents, inner: int, dtype: str
    ) -> Reduction:
        """Return the reduction of an array whose kept and reduced extents may alternate."""
        if isinstance(outer, int) and isinstance(depth, int):
            return cls(operation, outer, depth, inner, dtype)
        if isinstance(outer, int) or isinstance(depth, int) or len(outer) != len(depth):
            raise TemplateError(
                "reduce: outer and depth must be two numbers, or as many extents each, of axes "
                f"that alternate, got {outer} and {depth}"
            )
        apart = tuple(zip(outer, depth, strict=True))
        kept, reduced = math.prod(outer), math.prod(depth)
        return cls(operation, kept, reduced, inner, dtype, apart if len(apart) > 1 else ())

    def __post_init__(self) -> None:
        if self.operation not in REDUCERS:
            raise TemplateError(
                f"reduce: operation must be one of {', '.join(REDUCERS)}, got {self.operation!r}"
            )
        extents = (*[each for pair in self.apart for each in pair], self.outer, self.depth)
        check_extents("reduce", self.dtype, *extents, self.inner, dtypes=BYTES)
        if self.operation == "mean" and self.dtype in WHOLE:
            raise TemplateError(
                f"reduce: the mean of {self.dtype} is no whole number; take the sum, or floats"
            )
        if self.outer * self.inner > MOST_ROWS or self.depth > LONGEST:
            raise TemplateError(f"reduce: kernels index outputs by 32 bits, got {self}")

    @property
    def extents(self) -> tuple[int, ...]:
        """The extents of the data: kept and reduced ones alternate."""
        pairs = self.apart or ((self.outer, self.depth),)
        return (*[each for pair in pairs for each in pair], self.inner)

    @property
    def run(self) -> int:
        """Neighbours along the last reduced axis."""
        return self.extents[-2]

    @property
    def outputs(self) -> int:
        """Elements of the output."""
        return self.outer * self.inner

    @property
    def place(self) -> bool:
        """Whether results are indices, int32, rather than elements."""
        return self.operation.startswith("arg")

    @property
    def result(self) -> str:
        """Return the type of results: int32 of places, and of sums of narrow whole numbers."""
        summed = self.dtype in WHOLE and self.operation in ("sum", "prod")
        return "int32" if self.place or (summed and self.dtype != "int64") else self.dtype

    @property
    def state_words(self) -> int:
        """32-bit words of a state; a place beside a number of 64 bits has as many."""
        return number_types.value_bytes(self.dtype) // 4 * (2 if self.place else 1)

    @property
    def element_bytes(self) -> int:
        """Bytes of an element."""
        return BYTES[self.dtype]

    @property
    def flop(self) -> int:
        """Additions or comparisons."""
        return self.outputs * self.depth

    @property
    def bytes(self) -> int:
        """Bytes that must move at least once."""
        return self.outputs * (self.depth * self.element_bytes + BYTES[self.result])

    def arguments(self) -> list[Argument]:
        """Return data and out."""
        return [
            arg("data", self.extents, self.dtype),
            arg("out", (self.outer, self.inner), self.result, role="out"),
        ]

    def defines(self) -> dict[str, int | str]:
        """Return the parameters of the kernels that follow from a shape."""
        kind = number_types.defines(self.dtype)
        kind |= {"OUTER": self.outer, "DEPTH": self.depth, "INNER": self.inner}
        return kind | {"REDUCER": REDUCERS[self.operation], "AS_INT": int(self.result == "int32")}

    @property
    def texts(self) -> list[str]:
        """Files of the kernels folder for elements, states and results."""
        return [number_types.elements_text(self.dtype), "reducers.h", "reduced.h"]

    def reference(self) -> Callable[..., Array]:
        """Return numpy in, numpy out."""
        reduce = getattr(np, self.operation)

        def reduced(data: Array) -> Array:
            out: Array = reduce(self._together(data), axis=1)
            return out.astype(np.int32) if self.result == "int32" else out

        return reduced

    def _together(self, data: Array) -> Array:
        """Return data with the reduced axes as neighbours."""
        if not self.apart:
            return data
        inner = 2 * len(self.apart)
        turned = data.transpose(*range(0, inner, 2), *range(1, inner, 2), inner)
        together: Array = turned.reshape(self.outer, self.depth, self.inner)
        return together
