"""Decision trees as cases: for each path that ends in true, what holds of its points.

A filter that first asks of which kind a point is, and then what that kind needs, has a case for
each kind. No two cases have a point in common.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from autotune.task.constraints.symbols import Symbol, is_truth
from autotune.task.constraints.trace import Decision, Test, Tree, outcomes_of_one

# Whether digits of a knob are allowed.
Allowed = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Case:
    """Points of which some conditions hold.

    Attributes:
        allowed: for knobs that conditions read alone, which of their digits.
        conditions: on several knobs: a symbol, and whether it is true; each once, by identity.
    """

    allowed: dict[int, Allowed] = field(default_factory=dict)
    conditions: dict[tuple[int, bool], tuple[Symbol, bool]] = field(default_factory=dict)

    def with_outcome(self, test: Test, outcome: int) -> Case:
        """Return those of its points that have an outcome of a test."""
        if alone := outcomes_of_one(test):
            knob, each = alone
            return self.with_allowed(knob, each == outcome)
        assert type(test) is Symbol
        case, found = self, dict(self.conditions)
        for part, truth in parts_of(test, bool(outcome)):
            if part.function is None:
                case = case.with_outcome(part, truth)
            else:
                found[id(part), truth] = part, truth
        return Case(case.allowed, found)

    def with_allowed(self, knob: int, digits: Allowed) -> Case:
        """Return those of its points whose digit of a knob is one of some."""
        left = self.allowed[knob] & digits if knob in self.allowed else digits
        return Case({**self.allowed, knob: left}, self.conditions)

    def also(self, other: Case) -> Case:
        """Return the points that are of another case too."""
        case = Case(self.allowed, self.conditions | other.conditions)
        for knob, digits in other.allowed.items():
            case = case.with_allowed(knob, digits)
        return case

    @property
    def is_empty(self) -> bool:
        """Whether a knob has no digit that is allowed."""
        return not all(digits.any() for digits in self.allowed.values())


def cases_of(tree: Tree | None, before: Case | None = None) -> Iterator[Case]:
    """Yield the cases of a tree."""
    case = before or Case()
    if not isinstance(tree, Decision):
        if tree:
            yield case
        return
    for outcome, branch in enumerate(tree.branches):
        if branch is not False:
            within = case.with_outcome(tree.test, outcome)
            if not within.is_empty:
                yield from cases_of(branch, within)


def parts_of(symbol: Symbol, truth: bool) -> Iterator[tuple[Symbol, bool]]:
    """Yield symbols that all must be true, or false, where one must: those of ``&`` and ``|``."""
    sides = [side for side in symbol.args if type(side) is Symbol]
    joined = operator.and_ if truth else operator.or_
    # Bits of other numbers than 0 and 1 may be in common, or not.
    bits = truth and not all(is_truth(side.span) for side in sides)
    if symbol.function is not joined or len(sides) < 2 or bits:
        yield symbol, truth
        return
    for side in sides:
        yield from parts_of(side, truth)
