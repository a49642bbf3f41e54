"""Filters over several knobs, as tables over the classes of values that they distinguish."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from autotune.errors import SpaceError
from autotune.task.constraints.cases import parts_of
from autotune.task.constraints.radix import IntArray, Radix
from autotune.task.constraints.symbols import Symbol
from autotune.task.constraints.trace import Decision, SymbolicChoice, Test, Tree

Predicate = Callable[[Mapping[str, Any]], bool]
BoolArray = npt.NDArray[np.bool_]

# Largest truth table: 1 MB.
TABLE_LIMIT = 1 << 20
# Cells evaluated together.
CHUNK = 1 << 16
# Cells times expressions that are evaluated without being asked to: some milliseconds.
QUICK_WORK = 1 << 21
# Several codes of a digit are joined to one integer of 64 bits.
LARGEST_CODE = 1 << 62


class Constraint(ABC):
    """A condition on some knobs.

    Digits of a knob that the condition cannot distinguish form a class. If there are few
    combinations of classes, the condition is evaluated for all of them and stored in `table`:
    immediately if there are very few, otherwise when `tabulate` is called.

    Attributes:
        origin: where the filter is written, for messages.
        knobs: positions of the knobs that it reads, ascending.
        classes: for each of `knobs`, the class of every digit.
        members: for each of `knobs`, one digit of every class.
        table: whether the condition holds, by class, one axis per knob; None while not evaluated.
    """

    # Points worth looking at in one draw before giving up: one to three seconds.
    effort: ClassVar[int]
    # Cells that are evaluated without being asked to: some ten milliseconds.
    quick: ClassVar[int]
    origin: str
    knobs: list[int]
    classes: list[IntArray]
    members: list[IntArray]
    table: BoolArray | None

    @property
    def cells(self) -> int:
        """Number of combinations of classes."""
        return prod(len(m) for m in self.members)

    def tabulate(self, limit: int = TABLE_LIMIT) -> None:
        """Make the table, unless it is there or would have more cells than ``limit``."""
        if self.table is None and self.cells <= limit:
            self.table = self._tabulated(limit)

    def accepts(self, digits: IntArray) -> BoolArray:
        """Return, for each row of digits of all knobs, whether the condition holds."""
        if self.table is None:
            return self._evaluate(digits)
        columns = [known[digits[:, k]] for k, known in zip(self.knobs, self.classes, strict=True)]
        rows: BoolArray = self.table[tuple(columns)]
        return np.broadcast_to(rows, len(digits))

    @abstractmethod
    def _evaluate(self, digits: IntArray) -> BoolArray:
        """Evaluate the condition for rows of digits."""

    @abstractmethod
    def _tabulated(self, limit: int) -> BoolArray | None:
        """Evaluate the condition for all combinations of classes.

        None where that tells more of them apart than was known, and they exceed ``limit``.
        """


class TracedConstraint(Constraint):
    """A condition known as a decision tree.

    Args:
        tree: the decisions.
        dims: number of digits of every knob.
        origin: where the filter is written.
    """

    effort = 1 << 24
    quick = 1 << 17

    def __init__(self, tree: Decision, dims: Sequence[int], origin: str) -> None:
        self.origin = origin
        self.tree = tree
        symbols, local = _local_codes(_tests(tree))
        self.knobs = sorted(local)
        refined = [refine(local[knob]) for knob in self.knobs]
        self.classes = [classes for classes, _ in refined]
        self.members = [members for _, members in refined]
        self.table, self._width = None, len(dims)
        self.tabulate(min(self.quick, QUICK_WORK // symbols))

    def _tabulated(self, limit: int) -> BoolArray:
        members, width = self.members, self._width
        cells = Radix([len(m) for m in reversed(members)])  # the last knob varies fastest
        flat = np.empty(cells.total, dtype=np.bool_)
        for start in range(0, cells.total, CHUNK):
            stop = min(start + CHUNK, cells.total)
            codes = cells.digits(np.arange(start, stop))[:, ::-1]
            digits = np.zeros((stop - start, width), dtype=np.int64)
            for column, knob in enumerate(self.knobs):
                digits[:, knob] = members[column][codes[:, column]]
            flat[start:stop] = self._evaluate(digits)
        return flat.reshape([len(m) for m in members])

    def _evaluate(self, digits: IntArray) -> BoolArray:
        accepted = np.zeros(len(digits), dtype=np.bool_)
        try:
            _decide(self.tree, digits, np.arange(len(digits)), accepted)
        except FloatingPointError as error:
            raise SpaceError(f"{self.origin} failed: it divides by zero") from error
        return accepted


def may_divide_by_zero(tree: Tree) -> bool:
    """Return whether a test divides by what may be zero; what comes before may prevent it."""
    return any(type(test) is Symbol and test.partial for test in _tests(tree))


def conjuncts(tree: Tree) -> list[Tree]:
    """Take a tree apart into trees that must all be true.

    A decision of which all outcomes but one are false is a condition of its own. A tree that may
    divide by zero is left whole.
    """
    if may_divide_by_zero(tree):
        return [tree]
    parts: list[Tree] = []
    while isinstance(tree, Decision):
        open_branches = [i for i, branch in enumerate(tree.branches) if branch is not False]
        if len(open_branches) != 1:
            break
        kept = open_branches[0]
        parts += _alone(tree.test, kept, len(tree.branches))
        rest = tree.branches[kept]
        assert rest is not None
        tree = rest
    return parts if tree is True else [*parts, tree]


def _alone(test: Test, outcome: int, outcomes: int) -> list[Tree]:
    """Return trees that are all true where a test has an outcome."""
    if type(test) is not Symbol:
        return [Decision(test, [i == outcome for i in range(outcomes)])]
    every = parts_of(test, bool(outcome))
    return [Decision(part, [not truth, truth]) for part, truth in every]


def refine(codes: Sequence[IntArray]) -> tuple[IntArray, IntArray]:
    """Return the coarsest classes that keep all of ``codes`` apart, and one member of each."""
    joined, most = np.zeros(len(codes[0]), dtype=np.int64), 1
    for each in codes:
        plain, own = _from_zero(each)
        if most * own >= LARGEST_CODE:
            joined, most = _from_zero(np.unique(joined, return_inverse=True)[1])
        joined, most = joined * own + plain, most * own
    _, members, classes = np.unique(joined, return_index=True, return_inverse=True)
    return classes.reshape(-1).astype(np.int64), members.astype(np.int64)


def connected(constraints: Sequence[Constraint]) -> list[list[Constraint]]:
    """Return constraints in groups that share no knobs."""
    groups: list[tuple[set[int], list[Constraint]]] = []
    for constraint in constraints:
        knobs, members = set(constraint.knobs), [constraint]
        apart = []
        for group in groups:
            if group[0] & knobs:
                knobs |= group[0]
                members += group[1]
            else:
                apart.append(group)
        groups = [*apart, (knobs, members)]
    return [members for _, members in groups]


def _from_zero(codes: IntArray) -> tuple[IntArray, int]:
    """Return codes, in the same order, that are 0 or more, and a number that they are below."""
    codes = codes - codes.min()
    most = int(codes.max()) + 1
    if most <= LARGEST_CODE >> 31:
        return codes, most
    codes = np.unique(codes, return_inverse=True)[1].astype(np.int64)
    return codes, int(codes.max()) + 1


def _decide(tree: Tree | None, digits: IntArray, rows: IntArray, accepted: BoolArray) -> None:
    """Mark the rows that the tree accepts."""
    if not isinstance(tree, Decision):
        accepted[rows] = bool(tree)
        return
    outcomes = _outcomes(tree.test, digits, rows)
    for outcome, branch in enumerate(tree.branches):
        chosen = rows[outcomes == outcome]
        if branch is not False and len(chosen):
            _decide(branch, digits, chosen, accepted)


def _outcomes(test: Test, digits: IntArray, rows: IntArray) -> IntArray:
    if type(test) is not Symbol:
        assert type(test) is SymbolicChoice
        return np.asarray(test.classes[digits[rows, test.knob]])
    assert type(test) is Symbol
    values = test.evaluate({knob: digits[rows, knob] for knob in test.knobs}, {})
    return np.asarray((values != 0).astype(np.int64))


def _tests(tree: Tree | None) -> list[Test]:
    if not isinstance(tree, Decision):
        return []
    return [tree.test, *(test for branch in tree.branches for test in _tests(branch))]


def _local_codes(tests: Sequence[Test]) -> tuple[int, dict[int, list[IntArray]]]:
    """Return the number of expressions that tests consist of, and by which they see each knob.

    A knob is seen by functions of it alone.
    """
    codes: dict[int, list[IntArray]] = {}
    seen: set[int] = set()
    left: list[object] = list(tests)
    while left:
        test = left.pop()
        if id(test) in seen:
            continue
        seen.add(id(test))
        if type(test) is SymbolicChoice:
            codes.setdefault(test.knob, []).append(test.classes)
        elif type(test) is Symbol and test.function is not None:
            left += test.args
        elif type(test) is Symbol:
            (knob,) = test.knobs
            _, inverse = np.unique(test.table, return_inverse=True)
            codes.setdefault(knob, []).append(inverse.reshape(-1).astype(np.int64))
    return len(seen), codes
