"""The operations of a softmax and the product that it weights, in parts of rows.

`autotune.te.online` says what they compute.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from autotune.ir import (
    Expr,
    IntImm,
    IterVar,
    ProducerLoad,
    Reduce,
    Var,
    cast,
    substitute,
)
from autotune.ir.analysis_ranges import relaxed
from autotune.ir.simplify import Simplifier
from autotune.te import math as te_math
from autotune.te.base_two import factor_of, in_base_two
from autotune.te.declare import compute
from autotune.te.intrinsics import larger, min_value, needed, select
from autotune.te.joined_parts import JOINED, JOINED_IN_BASE_TWO, JOINS_PARTS, power_of_e
from autotune.te.masked import unmasked
from autotune.te.read_rewriters import ReadInstead, Swap
from autotune.te.reduction import max as max_of
from autotune.te.reduction import reduce_axis
from autotune.te.reduction import sum as sum_of
from autotune.te.relation import extent_of
from autotune.te.tensor import ComputeOp, Tensor
from autotune.te.weighted_rows import FLOAT, WeightedRows

# Neighbouring columns that are scaled together, if there are: those of a thread on tensor cores.
_RUN = 8


@dataclass(frozen=True)
class SplitRows:
    """A product whose rows are computed in parts: each method makes one tensor of `RowParts`.

    Attributes:
        found: the product and its weights.
        length: of a part.
        apart: how far apart columns are that are joined together.
    """

    found: WeightedRows
    length: int
    apart: int

    @cached_property
    def scaled(self) -> Expr | None:
        """What is raised, times log2(e); None where it is multiplied after the subtraction."""
        return in_base_two(self.found.value)

    @cached_property
    def factored(self) -> tuple[float, Expr]:
        """That value, or what is scaled later, as a constant factor and the rest."""
        return factor_of(self.found.value if self.scaled is None else self.scaled)

    @property
    def name(self) -> str:
        """The name of the product."""
        return self.found.op.name

    @property
    def parts(self) -> int:
        """How many parts a row has."""
        return self.found.length // self.length

    @property
    def extents(self) -> list[Expr | int]:
        """How many parts there are, and rows along each axis."""
        return [self.parts, *(axis.extent for axis in self.found.axes[:-1])]

    @property
    def row_places(self) -> list[int]:
        """Which axes of the product are those of rows."""
        own: list[Expr] = [axis.var for axis in self.found.op.axis]
        return [own.index(var) for var in self.found.weights.indices[:-1]]

    @property
    def columns_last(self) -> bool:
        """Whether the last dimension of the product is columns."""
        return len(self.found.op.axis) - 1 not in self.row_places

    @property
    def columns_together(self) -> int:
        """How many columns are joined together."""
        columns = extent_of(self.found.op.axis[-1]) or 1
        if self.apart > 1:
            return columns // self.apart
        return _RUN if columns % _RUN == 0 and self.columns_last else 1

    def scores(self) -> Tensor:
        """Return what the softmax reads, by parts."""

        def score(part: Expr, *at: Expr) -> Expr:
            *row, step = at
            return _again(self.found.scores, (*row, self._along(part, step)))

        return _computed((*self.extents, self.length), score, f"{self.found.scores.name}.part")

    def highest(self, scores: Tensor) -> Tensor:
        """Return the maximum of each part, without a constant factor."""
        t = self._steps()
        return _computed(
            self.extents,
            lambda p, *row: max_of(self._value(scores, p, row, t.var), axis=t),
            f"{self.name}.highest",
        )

    def exact(self, scores: Tensor, highest: Tensor) -> Tensor:
        """Return the weights before they are divided by their sums."""

        def power(p: Expr, *at: Expr) -> Expr:
            *row, step = at
            # Of a part that is masked everywhere the maximum is minus infinity, its powers zero.
            most = larger(self._times(highest(p, *row)), min_value(FLOAT))
            return self._power(self._times(self._value(scores, p, row, step)) - most)

        return _computed((*self.extents, self.length), power, f"{self.name}.exact")

    def powers(self, exact: Tensor) -> Tensor:
        """Return weights as the product reads them."""
        if exact.dtype == self.found.dtype:
            return exact
        shape = (*self.extents, self.length)
        return _computed(
            shape, lambda *at: cast(exact(*at), self.found.dtype), f"{self.name}.powers"
        )

    def totals(self, exact: Tensor) -> Tensor:
        """Return the sum of powers of each part."""
        t = self._steps()
        return _computed(
            self.extents,
            lambda p, *row: sum_of(exact(p, *row, t.var), axis=t),
            f"{self.name}.totals",
        )

    def products(self, powers: Tensor) -> Tensor:
        """Return the product of each part; what is apart has dimensions of its own."""
        op, split = self.found.op, self.apart > 1
        body = op.body[0]
        assert isinstance(body, Reduce)
        (old,) = body.axes

        def product(part: Expr, *at: Expr) -> Expr:
            step = self._steps()
            at = (*at[:-2], at[-2] * self.apart + at[-1]) if split else at
            load = ProducerLoad(
                powers, (part, *(at[place] for place in self.row_places), step.var)
            )
            value = Swap(self.found.weights, load).rewrite(body.sources[0])
            renamed: dict[Var, Expr] = {
                axis.var: each for axis, each in zip(op.axis, at, strict=True)
            }
            renamed[old.var] = self._along(part, step.var)
            total: Expr = sum_of(substitute(value, renamed), axis=step)
            return total

        *outer, columns = [axis.extent for axis in op.axis]
        inner = (self.columns_together, self.apart) if split else (columns,)
        return _computed((self.parts, *outer, *inner), product, f"{self.name}.part")

    def joined(self, highest: Tensor, totals: Tensor, products: Tensor) -> Sequence[Tensor]:
        """Return the maximum, the sum of powers and several columns of whole rows."""
        p = reduce_axis((0, self.parts), "part")
        where, run = self.needed(), self.columns_together

        def column(at: Expr, i: int) -> tuple[Expr | int, ...]:
            return (i, at) if self.apart > 1 else (at * run + i,)

        def join(*at: Expr) -> Any:
            row = [at[place] for place in self.row_places]
            columns = [products(p.var, *at[:-1], *column(at[-1], i)) for i in range(run)]
            several = (self._times(highest(p.var, *row)), totals(p.var, *row), *columns)
            joined = JOINED if self.scaled is None else JOINED_IN_BASE_TWO
            return joined(several, axis=p, where=where and needed(where(p.var, row)))

        *outer, columns = [axis.extent for axis in self.found.op.axis]
        shape, name = (*outer, columns // run), f"{self.name}.joined"
        joined: Sequence[Tensor] = compute(shape, join, name, attrs={JOINS_PARTS: True})
        return joined

    def needed(self) -> Callable[[Expr, Sequence[Expr]], Expr] | None:
        """Return of which rows a part can have weights other than zero; None: of all."""
        condition = unmasked(self.found)
        if condition is None:
            return None
        *rows, last = self.found.axes
        p, t = Var("p", "int32"), Var("t", "int32")
        known = {axis.var: (0, extent - 1) for axis in rows if (extent := extent_of(axis))}
        simplifier = Simplifier({**known, p: (0, self.parts - 1), t: (0, self.length - 1)})
        seen = substitute(condition, {last.var: self._along(p, t)})
        found = relaxed(simplifier, seen, {t})
        if isinstance(found, IntImm):
            return None
        return lambda part, row: substitute(
            found, {p: part, **dict(zip([axis.var for axis in rows], row, strict=True))}
        )

    def quotient(self, total: Tensor, sums: Sequence[Tensor]) -> Tensor:
        """Return what stands in place of the product."""

        def quotient(*at: Expr) -> Any:
            *outer, column = at
            if self.apart > 1:
                which, inner = column // self.apart, column % self.apart
            else:
                which, inner = column % len(sums), column // len(sums)
            place = (*outer, inner)
            value = sums[-1](*place)
            for i, each in reversed(list(enumerate(sums[:-1]))):
                value = select(which == i, each(*place), value)
            # One reciprocal is for all columns of a row.
            return value * (1.0 / total(*place))

        extents = [axis.extent for axis in self.found.results.axis]
        return _computed(extents, quotient, self.name)

    def _along(self, part: Expr, step: Expr) -> Expr:
        """Return the place in a row of a step of a part."""
        return part * self.length + step

    def _steps(self) -> IterVar:
        return reduce_axis((0, self.length), self.found.axes[-1].name)

    def _value(self, scores: Tensor, part: Expr, row: Sequence[Expr], step: Expr) -> Expr:
        """Return what is raised to a power, without a constant factor."""
        read = ReadInstead(self.found.scores, scores, (part, *row, step))
        pairs = zip(self.found.axes, (*row, self._along(part, step)), strict=True)
        places: dict[Var, Expr] = {axis.var: each for axis, each in pairs}
        return substitute(read.rewrite(self.factored[1]), places)

    def _times(self, value: Expr) -> Expr:
        factor, _ = self.factored
        return value if factor == 1 else value * factor

    def _power(self, x: Expr) -> Expr:
        return power_of_e(x) if self.scaled is None else te_math.exp2_flushed(x)


def _computed(extents: Sequence[object], value: Callable[..., object], name: str) -> Tensor:
    """Do as `compute`, for one value at each place."""
    made: Tensor = compute(extents, value, name)
    return made


def _again(op: ComputeOp, at: Sequence[Expr]) -> Expr:
    """Return what an operation reduces, at other places, over axes of its own."""
    body = op.body[0]
    assert isinstance(body, Reduce)
    axes = [reduce_axis((0, axis.extent), axis.name) for axis in body.axes]
    pairs = zip((*op.axis, *body.axes), (*at, *(axis.var for axis in axes)), strict=True)
    places: dict[Var, Expr] = {axis.var: each for axis, each in pairs}
    total: Expr = sum_of(substitute(body.sources[0], places), axis=axes)
    return total
