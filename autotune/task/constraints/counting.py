"""The valid points of a space, counted exactly one knob after another.

A table of constraints that share many knobs would be too large: that of a convolution has a
hundred million cells. But the constraints depend on the knobs chosen so far only by a few values,
such as products and sums of sizes. Choices that agree in these values form one *state*, whose
weight is their number, as in counting by a decision diagram (Bryant, 1986). A state drops values
on which nothing depends any more: operands of a condition that holds whatever the remaining knobs
are, or of an ``and`` whose other side is false. A state in which a condition is sure to fail is
dropped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from autotune.task.constraints.constraint import Constraint, TracedConstraint, connected, refine
from autotune.task.constraints.elimination import order_of
from autotune.task.constraints.expression import Expression, ExpressionBuilder, Number
from autotune.task.constraints.partial import (
    Fork,
    Key,
    KnobCondition,
    Knobs,
    PartialEvaluation,
    forgotten,
    tree_frontier,
)
from autotune.task.constraints.radix import WEIGHT_LIMIT, IntArray
from autotune.task.constraints.symbols import Symbol
from autotune.task.constraints.trace import Decision, SymbolicChoice, Test, Tree

# States times digits of one knob above which counting is given up: about a second.
MOST = 1 << 22
# Cells that are looked at together: arrays of a few hundred kilobytes.
TOGETHER = 1 << 15
# Conditions have a bit each.
BITS = 62
_MIX = np.uint64(0x9E3779B97F4A7C15)


class Uncountable(Exception):
    """The constraints cannot be counted so, or have too many states."""


class Counter:
    """Counts the points that constraints accept.

    Attributes:
        cells: number of states times digits that the last count examined.

    Raises:
        Uncountable: a constraint has neither symbols nor a table, or may divide by zero.
    """

    def __init__(self, constraints: Sequence[Constraint], dims: Sequence[int]) -> None:
        self._dims = list(dims)
        self._groups = [_Group(group, dims) for group in connected(constraints)]
        self._tied = frozenset[int]().union(*(group.knobs for group in self._groups))
        self.cells = 0

    def count(self, ranges: Sequence[slice] | None = None) -> int:
        """Count the valid points with each digit in its range.

        Raises:
            Uncountable: too many states.
        """
        spans = [slice(0, n) for n in self._dims] if ranges is None else list(ranges)
        total: int = prod(s.stop - s.start for k, s in enumerate(spans) if k not in self._tied)
        self.cells = 0
        for group in self._groups:
            if total:
                total *= group.count(spans)
                self.cells += group.cells
        return total


@dataclass(frozen=True)
class _States:
    """The states that partial choices reduce to, one row each.

    Attributes:
        columns: the values of the chosen knobs on which conditions depend.
        settled: a bit for each condition that is sure to hold.
        weights: the number of choices that each state represents.
    """

    columns: dict[Key, IntArray]
    settled: IntArray
    weights: IntArray

    def part(self, rows: slice) -> _States:
        """Return some of them."""
        columns = {key: column[rows] for key, column in self.columns.items()}
        return _States(columns, self.settled[rows], self.weights[rows])

    @staticmethod
    def joined(parts: Sequence[_States]) -> _States:
        """Return those of all parts, which know the same."""
        return _States(
            {key: np.concatenate([p.columns[key] for p in parts]) for key in parts[0].columns},
            np.concatenate([p.settled for p in parts]),
            np.concatenate([p.weights for p in parts]),
        )


class _Group:
    """Constraints that share knobs.

    Attributes:
        knobs: all knobs that they read.
        cells: number of states times digits that the last count examined.
    """

    def __init__(self, constraints: Sequence[Constraint], dims: Sequence[int]) -> None:
        self.knobs = frozenset(knob for c in constraints for knob in c.knobs)
        if not all(c.knobs for c in constraints):
            raise Uncountable
        if len(constraints) > BITS or prod(dims[knob] for knob in self.knobs) >= WEIGHT_LIMIT:
            raise Uncountable
        builder = ExpressionBuilder()
        self._conditions = [
            KnobCondition(1 << bit, _condition(constraint, builder), frozenset(constraint.knobs))
            for bit, constraint in enumerate(constraints)
        ]
        self._classes: dict[int, IntArray] = {}
        self._members: dict[int, IntArray] = {}
        for knob in self.knobs:
            codes = [
                classes
                for c in constraints
                for at, classes in zip(c.knobs, c.classes, strict=True)
                if at == knob
            ]
            self._classes[knob], self._members[knob] = refine(codes)
        sizes = {knob: len(members) for knob, members in self._members.items()}
        self._order = order_of([condition.knobs for condition in self._conditions], sizes)
        self.cells = 0

    def count(self, spans: Sequence[slice]) -> int:
        """Count the valid choices of these knobs."""
        none, one = np.zeros(1, dtype=np.int64), np.ones(1, dtype=np.int64)
        states, chosen = _States({}, none, one), frozenset[int]()
        self.cells = 0
        for knob in self._order:
            classes = self._classes[knob][spans[knob]]
            sizes = np.bincount(classes, minlength=len(self._members[knob]))
            states = self._with_knob(states, chosen, knob, sizes)
            chosen |= {knob}
        return int(states.weights.sum())

    def _with_knob(self, states: _States, chosen: Knobs, knob: int, sizes: IntArray) -> _States:
        """Choose one more knob in all ways; ``sizes`` are the digits of each of its classes."""
        there = np.flatnonzero(sizes)
        members, times = self._members[knob][there], sizes[there]
        cells = len(states.weights) * len(members)
        self.cells += cells
        if cells > MOST:
            raise Uncountable
        each = max(1, TOGETHER // max(len(members), 1))
        parts = [
            self._some_with_knob(states.part(slice(at, at + each)), chosen, knob, members, times)
            for at in range(0, max(len(states.weights), 1), each)
        ]
        return _merge(_States.joined(parts))

    def _some_with_knob(
        self, states: _States, chosen: Knobs, knob: int, members: IntArray, times: IntArray
    ) -> _States:
        """Do that for so few states that what is computed of them stays in a cache."""
        shape, now = (len(states.weights), len(members)), chosen | {knob}
        values = PartialEvaluation(states.columns, chosen, knob, members)
        alive: Number = np.ones(shape, dtype=np.bool_)
        settled: Number = states.settled[:, None]
        with np.errstate(all="ignore"):  # of values that no condition asks for any more
            for condition in self._conditions:
                if knob in condition.knobs:
                    holds, fails = values.outcomes(condition.tree)
                    alive &= ((states.settled & condition.bit) != 0)[:, None] | holds
                    decided = condition.knobs <= now  # then all that are left agree
                    settled = settled | np.where(False if decided else fails, 0, condition.bit)
            needed = self._needed(values, now, knob, settled)
            columns = {
                key: np.broadcast_to(_known(values, key, where), shape)[alive]
                for key, where in needed.items()
            }
        weights = (states.weights[:, None] * times)[alive]
        return _States(columns, np.broadcast_to(settled, shape)[alive], weights)

    def _needed(
        self, values: PartialEvaluation, now: Knobs, knob: int, settled: IntArray
    ) -> dict[Key, Number]:
        """Return where conditions that are open still need what is known."""
        needed: dict[Key, Number] = {}
        for condition in self._conditions:
            if condition.knobs <= now or not condition.knobs & now:
                continue
            still = (settled & condition.bit) == 0
            if knob in condition.knobs:
                values.mark(condition.tree, still, needed)
            else:
                for key in tree_frontier(condition.tree, now):
                    needed[key] = needed.get(key, False) | still
        return needed


def _known(values: PartialEvaluation, key: Key, where: Number) -> Number:
    """Return what is known of a key where it is needed, and the same everywhere else."""
    return np.where(where, values.key_value(key), forgotten(key))


def _merge(states: _States) -> _States:
    """Join equal states.

    Raises:
        Uncountable: different ones look alike, which happens once in thousands of millions.
    """
    if not len(states.weights):
        return states
    rows = [states.settled, *states.columns.values()]
    mixed = np.zeros(len(states.weights), dtype=np.uint64)
    for row in rows:
        mixed ^= row.view(np.uint64)
        mixed *= _MIX
        mixed ^= mixed >> np.uint64(29)
    order = np.argsort(mixed, kind="stable")
    differs = np.diff(mixed[order]) != 0
    for row in rows:
        if ((np.diff(row[order]) != 0) & ~differs).any():
            raise Uncountable
    starts = np.concatenate([[0], np.flatnonzero(differs) + 1])
    first = order[starts]
    return _States(
        {key: column[first] for key, column in states.columns.items()},
        states.settled[first],
        np.add.reduceat(states.weights[order], starts),
    )


def _condition(constraint: Constraint, builder: ExpressionBuilder) -> Fork | bool:
    if isinstance(constraint, TracedConstraint):
        return _fork(constraint.tree, builder)
    if constraint.table is None:
        raise Uncountable
    stride, parts = 1, list[Expression]()
    for knob, classes, members in reversed(
        list(zip(constraint.knobs, constraint.classes, constraint.members, strict=True))
    ):
        parts.append(builder.leaf(knob, classes * stride))
        stride *= len(members)
    return Fork(builder.looked_up(constraint.table.reshape(-1), parts), (False, True))


def _fork(tree: Tree | None, builder: ExpressionBuilder) -> Fork | bool:
    if not isinstance(tree, Decision):
        return bool(tree)
    branches = tuple(_fork(branch, builder) for branch in tree.branches)
    return Fork(_test(tree.test, builder), branches, type(tree.test) is Symbol)


def _test(test: Test, builder: ExpressionBuilder) -> Expression | float:
    if type(test) is Symbol:
        if test.partial:
            raise Uncountable
        return builder.expression(test)
    assert type(test) is SymbolicChoice
    return builder.leaf(test.knob, test.classes)
