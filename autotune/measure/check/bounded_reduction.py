"""The state of a reduction while its terms come one after another, with what bounds its error.

The arrays hold a block of elements; ``j`` is the element in it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from autotune.ir import Reduce, is_float
from autotune.measure.check.bounded_expr import Bounded, BoundedWriter
from autotune.measure.check.bounded_text import C_TYPES
from autotune.measure.check.rounding import growth, growth_of_sizes

# Up to so many terms the sum of their sizes bounds the error of a sum as well as anything.
_FEW = 8
# From so many on it never does.
_MANY = 64


def state_of(reduce: Reduce, terms: int, sums: str | None = None) -> ReductionState:
    """Return the state of a reduction with a number of terms, whose sums have some dtype."""
    if reduce.combiner.name == "sum" and is_float(reduce.sources[0].dtype):
        return _Sum(reduce, terms, sums or reduce.sources[0].dtype)
    return _Combined(reduce, terms)


class ReductionState(ABC):
    """The arrays of a reduction, and the statements that begin, continue and end it.

    Attributes:
        arrays: names and C types.
    """

    arrays: Sequence[tuple[str, str]]

    def __init__(self, reduce: Reduce, terms: int) -> None:
        self.reduce = reduce
        self.terms = terms
        self.init = reduce.init or reduce.combiner.identity

    @abstractmethod
    def begin(self, writer: BoundedWriter) -> None:
        """Set one element to the initial value."""

    @abstractmethod
    def combine(self, writer: BoundedWriter, values: list[Bounded], doubt: str) -> None:
        """Take one more term; ``doubt`` is positive where it may not belong to the reduction."""

    @abstractmethod
    def end(self, writer: BoundedWriter) -> list[Bounded]:
        """Return the values of one element."""

    def add(self, writer: BoundedWriter) -> None:
        """Take one more term where the condition of the reduction holds."""
        condition = writer.value(self.reduce.condition)
        with writer.block(f"if ({condition.text})" if condition.text != TRUE else ""):
            values = [writer.value(e) for e in self.reduce.sources]
            self.combine(writer, values, condition.error)
        if condition.error:
            with writer.block(f"else if ({condition.error} > 0)"):
                values = [writer.value(e) for e in self.reduce.sources]
                self.missed(writer, values)

    @abstractmethod
    def missed(self, writer: BoundedWriter, values: list[Bounded]) -> None:
        """Leave out a term that may belong to the reduction."""


TRUE = "((int64_t)1ll)"


class _Sum(ReductionState):
    """A sum: its value ``s``, the errors of its terms ``e``, the sum of their sizes ``a``, that of
    their squares ``q``, and the largest partial sum ``m``."""

    def __init__(self, reduce: Reduce, terms: int, kept: str) -> None:
        super().__init__(reduce, terms)
        self.kept = kept

    arrays = [(name, "double") for name in "seaqm"]  # noqa: RUF012 - as the base class says

    def begin(self, writer: BoundedWriter) -> None:
        (start,) = (writer.value(e) for e in self.init)
        writer.lines.append(f"s[j] = {start.text}, e[j] = {start.bound};")
        writer.lines.append("a[j] = m[j] = fabs(s[j]), q[j] = s[j] * s[j];")

    def combine(self, writer: BoundedWriter, values: list[Bounded], doubt: str) -> None:
        term = writer.fresh("const double", values[0].text)
        lines = [f"s[j] += {term};"]
        if values[0].error:
            lines.append(f"e[j] += {values[0].error};")
        if doubt:
            lines.append(f"if ({doubt} > 0) e[j] += fabs({term});")
        if self.terms < _MANY:
            lines.append(f"a[j] += fabs({term});")
        if self.terms > _FEW:
            lines.append(f"q[j] += {term} * {term};")
            lines.append("m[j] = fabs(s[j]) > m[j] ? fabs(s[j]) : m[j];")
        writer.lines.extend(lines)

    def missed(self, writer: BoundedWriter, values: list[Bounded]) -> None:
        writer.lines.append(f"e[j] += fabs({values[0].text}) + {values[0].bound};")

    def end(self, writer: BoundedWriter) -> list[Bounded]:
        dtype = self.reduce.sources[0].dtype
        few = f"{growth_of_sizes(self.terms, self.kept)!r} * (a[j] + e[j])"
        many = f"{growth(self.terms, self.kept)!r} * (m[j] + sqrt(q[j]))"
        if self.terms <= _FEW:
            rounded = few
        else:
            rounded = many if self.terms >= _MANY else f"fmin({few}, {many})"
        return [Bounded("s[j]", dtype, writer.fresh("double", f"known(e[j] + {rounded})"))]


class _Combined(ReductionState):
    """Any other reduction: what its combiner says, and the errors that follow."""

    def __init__(self, reduce: Reduce, terms: int) -> None:
        super().__init__(reduce, terms)
        kinds = [C_TYPES[e.dtype] for e in reduce.sources]
        values = [(f"s{n}", kind) for n, kind in enumerate(kinds)]
        self.arrays = [*values, *((f"e{n}", "double") for n in range(len(kinds)))]

    def begin(self, writer: BoundedWriter) -> None:
        self._set(writer, [writer.value(e) for e in self.init])

    def combine(self, writer: BoundedWriter, values: list[Bounded], doubt: str) -> None:
        combiner = self.reduce.combiner
        for number, (left, right) in enumerate(zip(combiner.lhs, combiner.rhs, strict=True)):
            writer.bind(left, Bounded(f"s{number}[j]", left.dtype, f"e{number}[j]"))
            writer.bind(right, values[number])
        self._set(writer, [writer.value(e) for e in combiner.result])
        if doubt:
            self._doubt(writer, doubt)

    def missed(self, writer: BoundedWriter, values: list[Bounded]) -> None:
        self._doubt(writer, "1")

    def _doubt(self, writer: BoundedWriter, doubt: str) -> None:
        for number in range(len(self.reduce.sources)):
            writer.lines.append(f"if ({doubt} > 0) e{number}[j] = INFINITY;")

    def _set(self, writer: BoundedWriter, values: list[Bounded]) -> None:
        names = [
            (writer.fresh(C_TYPES[v.dtype], v.text), writer.fresh("double", v.bound))
            for v in values
        ]
        for number, (value, error) in enumerate(names):
            writer.lines.append(f"s{number}[j] = {value}, e{number}[j] = {error};")

    def end(self, writer: BoundedWriter) -> list[Bounded]:
        return [
            Bounded(f"s{n}[j]", e.dtype, f"e{n}[j]") for n, e in enumerate(self.reduce.sources)
        ]
