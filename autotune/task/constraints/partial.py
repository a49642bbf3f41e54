"""Evaluation of conditions with some knobs chosen: values of parts, and bounds of the whole."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from autotune.task.constraints.expression import (
    Bounds,
    Chain,
    Expression,
    Leaf,
    Number,
    Operand,
    Operation,
    bounds_of,
    computed,
    least_of,
    span_of,
)
from autotune.task.constraints.radix import IntArray

Knobs = frozenset[int]
# An expression of which all knobs are chosen, or some parts of a chain.
Key = tuple[Expression, frozenset[Expression] | None]


@dataclass(frozen=True, eq=False)
class Fork:
    """A test of a decision tree: the branch of each outcome.

    Attributes:
        value: what is tested.
        branches: a fork, or whether the condition holds.
        truth: whether outcomes are false and true; else they are the values 0, 1, 2, ...
    """

    value: Operand
    branches: tuple[Fork | bool, ...]
    truth: bool = True


@dataclass(frozen=True, eq=False)
class KnobCondition:
    """A condition on some knobs, with the bit that says in a state that it is sure to hold."""

    bit: int
    tree: Fork | bool
    knobs: Knobs


def frontier(value: Operand, chosen: Knobs) -> Iterator[Key]:
    """Yield what of an expression can be computed when some knobs are chosen."""
    if not isinstance(value, Expression) or not value.knobs & chosen:
        return
    if value.knobs <= chosen:
        yield value, None
    elif isinstance(value, Chain):
        known = frozenset(part for part in value.parts if part.knobs <= chosen)
        if known:
            yield _parts_key(value, known)
        for part in value.parts:
            if part not in known:
                yield from frontier(part, chosen)
    elif isinstance(value, Operation):
        yield from frontier(value.left, chosen)
        yield from frontier(value.right, chosen)


def tree_frontier(tree: Fork | bool, chosen: Knobs) -> Iterator[Key]:
    """Yield what of all tests of a tree can be computed when some knobs are chosen."""
    if isinstance(tree, Fork):
        yield from frontier(tree.value, chosen)
        for branch in tree.branches:
            yield from tree_frontier(branch, chosen)


def _parts_key(chain: Chain, known: frozenset[Expression]) -> Key:
    if len(known) == 1:
        return next(iter(known)), None
    return chain, known


def forgotten(key: Key) -> int | float:
    """Return a substitute for a value on which no condition depends any more.

    As expressions are still computed with it, it lies within the bounds of that value: no divisor
    becomes zero, and factors of zero stay finite.
    """
    expression, known = key
    if known is not None:
        assert isinstance(expression, Chain)
        return least_of(expression.function, known)
    return int(expression.span[0]) if expression.whole else expression.span[0]


class PartialEvaluation:
    """The values and bounds of expressions once one more knob is chosen.

    Values have a row for each state and a column for each digit of that knob.

    Args:
        columns: what was known before, by state.
        before: knobs chosen before.
        knob: the one chosen now.
        digits: of it.
    """

    def __init__(
        self, columns: Mapping[Key, IntArray], before: Knobs, knob: int, digits: IntArray
    ) -> None:
        self._columns, self._before = columns, before
        self._now, self._digits = before | {knob}, digits
        self._values: dict[Key, Number] = {}
        self._bounds: dict[Expression, Bounds] = {}

    def key_value(self, key: Key) -> Number:
        """Return the value of what `frontier` yields."""
        expression, known = key
        if key not in self._values:
            if key in self._columns:
                self._values[key] = self._columns[key][:, None]
            elif known is None:
                self._values[key] = self._compute(expression)
            else:
                assert isinstance(expression, Chain)
                self._values[key] = self._of_parts(expression, known)
        return self._values[key]

    def _compute(self, value: Expression) -> Number:
        if isinstance(value, Leaf):
            return value.table[self._digits][None, :]
        if isinstance(value, Chain):
            parts = self._of_parts(value, frozenset(value.parts))
            return computed(value.function, parts, value.constant)
        assert isinstance(value, Operation)
        return computed(value.function, self._value(value.left), self._value(value.right))

    def _value(self, value: Operand) -> Number:
        return self.key_value((value, None)) if isinstance(value, Expression) else value

    def _of_parts(self, chain: Chain, known: frozenset[Expression]) -> Number:
        """Return the sum or product of some parts, from what was known of it before."""
        earlier = frozenset(part for part in known if part.knobs <= self._before)
        found = [self.key_value(_parts_key(chain, earlier))] if earlier else []
        found += [self._value(part) for part in known - earlier]
        result = found[0]
        for other in found[1:]:
            result = computed(chain.function, result, other)
        return result

    def bounds(self, value: Operand) -> Bounds:
        """Return bounds of a value, whatever the knobs to come are."""
        if not isinstance(value, Expression) or not value.knobs & self._now:
            return span_of(value)
        if value not in self._bounds:
            self._bounds[value] = self._new_bounds(value)
        return self._bounds[value]

    def _new_bounds(self, value: Expression) -> Bounds:
        if value.knobs <= self._now:
            exact = self._value(value)
            return exact, exact
        if isinstance(value, Chain):
            return self._chain_bounds(value)
        assert isinstance(value, Operation)
        if not value.followed:
            return value.span
        return bounds_of(value.function, self.bounds(value.left), self.bounds(value.right))

    def _chain_bounds(self, chain: Chain) -> Bounds:
        known = frozenset(part for part in chain.parts if part.knobs <= self._now)
        bounds: Bounds = (chain.constant, chain.constant)
        # Numbers first, arrays last.
        others = sorted(
            (part for part in chain.parts if part not in known),
            key=lambda part: bool(part.knobs & self._now),
        )
        for part in others:
            bounds = self._join(chain, bounds, self.bounds(part))
        if known:
            exact = self.key_value(_parts_key(chain, known))
            bounds = self._join(chain, bounds, (exact, exact))
        return bounds

    @staticmethod
    def _join(chain: Chain, one: Bounds, other: Bounds) -> Bounds:
        product = chain.function is operator.mul
        if product and chain.constant >= 0 and all(part.span[0] >= 0 for part in chain.parts):
            return one[0] * other[0], one[1] * other[1]
        return bounds_of(chain.function, one, other)

    def outcomes(self, tree: Fork | bool) -> tuple[Number, Number]:
        """Return whether a condition may hold, and whether it may fail."""
        if not isinstance(tree, Fork):
            return tree, not tree
        holds: Number = False
        fails: Number = False
        for branch, possible in zip(tree.branches, self._possible(tree), strict=True):
            may_hold, may_fail = self.outcomes(branch)
            holds = holds | (possible & may_hold)
            fails = fails | (possible & may_fail)
        return holds, fails

    def _possible(self, fork: Fork) -> list[Number]:
        """Return, for each outcome, whether it is possible."""
        if not isinstance(fork.value, Expression) or fork.value.knobs <= self._now:
            value = self._value(fork.value)
            if fork.truth:
                return [np.equal(value, 0), np.not_equal(value, 0)]
            return [value == outcome for outcome in range(len(fork.branches))]
        if fork.truth:
            low, high = self.bounds(fork.value)
            nonzero = np.logical_not(np.equal(low, 0) & np.equal(high, 0))
            return [np.less_equal(low, 0) & np.greater_equal(high, 0), nonzero]
        return [True] * len(fork.branches)

    def mark(self, tree: Fork | bool, where: Number, needed: dict[Key, Number]) -> None:
        """Add to ``needed`` in which states a tree needs what, if it is reached ``where``."""
        if isinstance(tree, Fork):
            self._mark(tree.value, where, needed)
            for branch, possible in zip(tree.branches, self._possible(tree), strict=True):
                self.mark(branch, where & possible, needed)

    def _mark(self, value: Operand, where: Number, needed: dict[Key, Number]) -> None:
        if not isinstance(value, Expression) or not value.knobs & self._now:
            return
        if value.knobs <= self._now:
            needed[value, None] = needed.get((value, None), False) | where
        elif isinstance(value, Chain):
            self._mark_parts(value, where, needed)
        elif isinstance(value, Operation):
            for own, other in ((value.left, value.right), (value.right, value.left)):
                self._mark(own, where & self._matters(value, other), needed)

    def _mark_parts(self, chain: Chain, where: Number, needed: dict[Key, Number]) -> None:
        known = frozenset(part for part in chain.parts if part.knobs <= self._now)
        matters = where
        if known:
            key = _parts_key(chain, known)
            needed[key] = needed.get(key, False) | where
            if chain.function is operator.mul:
                matters = where & (self.key_value(key) != 0)
        for part in chain.parts:
            if part not in known:
                self._mark(part, matters, needed)

    def _matters(self, operation: Operation, other: Operand) -> Number:
        """Return whether one side of an operation matters, given the other."""
        if not isinstance(other, Expression) or not other.knobs <= self._now:
            return True
        if operation.function is operator.and_ and operation.followed:
            return self._value(other) != 0
        if operation.function is operator.or_ and operation.followed:
            return self._value(other) == 0
        return True
