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
from ..elementwise.expression import CUDA, Expression
from . import number_types
from .number_types import BYTES, WHOLE
from .rows_shape import DTYPES, LONGEST, MOST_ROWS, check_extents

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
# Types of results that are not those of elements, in C.
_RESULTS = {"float32": "float", "int32": "int"}


@dataclass(frozen=True)
class Reduction:
    """An array ``[outer, depth, inner]`` reduced along its middle by one of `REDUCERS`.

    Attributes:
        apart: extents that alternate in the array, each kept one with the reduced one behind it,
            whose products are ``outer`` and ``depth``; empty where reduced axes are neighbours.
        before, after: expressions of ``a``, which each element and each result is replaced by;
            empty for none.
        to: type of the results, where it is not that which follows: ``"float32"`` or ``"int32"``.
    """

    operation: str
    outer: int
    depth: int
    inner: int = 1
    dtype: str = "float32"
    apart: tuple[tuple[int, int], ...] = ()
    before: str = ""
    after: str = ""
    to: str = ""

    @classmethod
    def of(
        cls, operation: str, outer: Extents, depth: Extents, inner: int, dtype: str,
        before: str = "", after: str = "", to: str = "",
    ) -> Reduction:  # fmt: skip
        """Return the reduction of an array whose kept and reduced extents may alternate."""
        if isinstance(outer, int) and isinstance(depth, int):
            return cls(operation, outer, depth, inner, dtype, (), before, after, to)
        if isinstance(outer, int) or isinstance(depth, int) or len(outer) != len(depth):
            raise TemplateError(
                "reduce: outer and depth must be two numbers, or as many extents each, of axes "
                f"that alternate, got {outer} and {depth}"
            )
        apart = tuple(zip(outer, depth, strict=True))
        kept, reduced = math.prod(outer), math.prod(depth)
        pairs = apart if len(apart) > 1 else ()
        return cls(operation, kept, reduced, inner, dtype, pairs, before, after, to)

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
        self._check_functions()

    def _check_functions(self) -> None:
        """Refuse functions of what is not computed in float32, and those of indices."""
        if (self.before or self.after or self.to) and self.dtype not in DTYPES:
            raise TemplateError(
                f"reduce: before, after and to are for {', '.join(DTYPES)}, got {self.dtype!r}"
            )
        if self.place and (self.after or self.to):
            raise TemplateError(
                f"reduce: {self.operation} gives indices, for which there is no after and no to; "
                f"got after={self.after!r}, to={self.to!r}"
            )
        if self.to not in ("", *_RESULTS):
            raise TemplateError(
                f"reduce: to must be one of {', '.join(_RESULTS)}, or empty for the type of the "
                f"elements, got {self.to!r}"
            )
        for text in filter(None, (self.before, self.after)):
            Expression(text, ["a"])

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
        if self.to:
            return self.to
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
        """Additions or comparisons, and what is done with each element before."""
        return self.outputs * self.depth * (1 + self.work)

    @property
    def work(self) -> int:
        """Operations on each element before it is reduced, a function counted as one."""
        return Expression(self.before, ["a"]).flop if self.before else 0

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
        kind |= {"REDUCER": REDUCERS[self.operation], "AS_INT": int(self.result == "int32")}
        if self._converts:
            kind["RESULT"] = _RESULTS[self.to]
        if not self._maps:
            return kind
        kind["REDUCER"] = f"Mapped<{REDUCERS[self.operation]}>"
        kind |= {
            "FAST_FUNCTIONS": 0,
            "BEFORE": Expression(self.before or "a", ["a"]).text_in(CUDA),
        }
        return kind | ({"AFTER": self._after.text_in(CUDA)} if self._after else {})

    @property
    def texts(self) -> list[str]:
        """Files of the kernels folder for elements, functions, states and results."""
        elements, maps = number_types.elements_text(self.dtype), self._maps
        functions = ["maximum.h", "functions.h"] if maps else []
        results = "reduced_as.h" if self._converts else "reduced.h"
        return [*functions, elements, "reducers.h", *(["mapped.h"] if maps else []), results]

    @property
    def _maps(self) -> bool:
        return bool(self.before or self.after)

    @property
    def _converts(self) -> bool:
        return self.to not in ("", self.dtype)

    @property
    def _after(self) -> Expression | None:
        return Expression(self.after, ["a"]) if self.after else None

    def reference(self) -> Callable[..., Array]:
        """Return numpy in, numpy out."""
        reduce, after = getattr(np, self.operation), self._after
        before = Expression(self.before, ["a"]) if self.before else None

        def reduced(data: Array) -> Array:
            each = before.numpy({"a": data}) if before else data
            out: Array = reduce(self._together(each), axis=1)
            out = after.numpy({"a": out}) if after else out
            return out.astype(self.result) if self.to or self.result == "int32" else out

        return reduced

    def _together(self, data: Array) -> Array:
        """Return data with the reduced axes as neighbours."""
        if not self.apart:
            return data
        inner = 2 * len(self.apart)
        turned = data.transpose(*range(0, inner, 2), *range(1, inner, 2), inner)
        together: Array = turned.reshape(self.outer, self.depth, self.inner)
        return together
