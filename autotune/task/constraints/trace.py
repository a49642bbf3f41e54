"""Symbolic tracing of filters, by calling them with symbols.

Where the filter needs to know whether a comparison holds, or the value of a knob that is no
number, the call takes one outcome, and later calls take the others. The outcome is a decision tree
over expressions, which is evaluated for many points at once and can be taken apart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn

import numpy as np
import numpy.typing as npt

from autotune.task.constraints.radix import IntArray
from autotune.task.constraints.symbols import Opaque, Scope, Symbol, leaf
from autotune.task.kinds import Entity, StandIn, TransformSpace

# A filter with more distinct paths than this is not followed.
MAX_PATHS = 1024


@dataclass(frozen=True, eq=False)
class SymbolicChoice:
    """A value that is not a number, while a filter reads it: one value for each class of digits.

    Attributes:
        knob: position of the knob.
        position: which element of the knob's entity.
        classes: the class of every digit.
        values: the value of every class.
    """

    knob: int
    position: int
    classes: IntArray
    values: tuple[object, ...]


Test = Symbol | SymbolicChoice


@dataclass(eq=False)
class Decision:
    """A test and what follows from each outcome; for a symbol: false, then true.

    False follows from an outcome that no point has which comes here.
    """

    test: Test
    branches: list[Tree | None]


Tree = Decision | bool


class Tracer:
    """Calls a filter once for every path through it.

    Attributes:
        scope: of the filter's symbols.
    """

    def __init__(self, predicate: Callable[..., object], spaces: Mapping[str, TransformSpace]):
        self._predicate = predicate
        self._spaces = spaces
        self._script: list[int] = []
        self._path: list[tuple[Decision, int]] = []
        # Holds the tests too: an id is unique only while its object lives.
        self._taken: dict[object, tuple[Test, int]] = {}
        # Of knobs that were tested alone, the digits that the path is for.
        self._left: dict[int, npt.NDArray[np.bool_]] = {}
        self._root: Tree | None = None
        self.scope = Scope(self.holds)

    def tree(self) -> Tree:
        """Return the filter as a decision tree.

        Raises:
            Opaque: it does something that symbols cannot follow.
        """
        for _ in range(MAX_PATHS):
            self._path, self._taken, self._left = [], {}, {}
            try:
                result = bool(self._predicate(TracedKnobs(self._spaces, self)))
            except Exception as error:  # the path may be one that no point takes
                raise Opaque(f"{type(error).__name__}: {error}") from error
            self._attach(result)
            if not self._next_script():
                assert self._root is not None
                return self._root
        raise Opaque(f"more than {MAX_PATHS} paths")

    def holds(self, symbol: Symbol) -> bool:
        """Decide whether a symbol is true on this path."""
        return bool(self._take(symbol, id(symbol), 2))

    def choose(self, choice: SymbolicChoice) -> object:
        """Decide which value a knob has on this path."""
        if len(choice.values) == 1:
            return choice.values[0]
        key = (choice.knob, choice.position)
        return choice.values[self._take(choice, key, len(choice.values))]

    def _take(self, test: Test, key: object, outcomes: int) -> int:
        """Return the outcome of a test on this path; the same test keeps its outcome."""
        if key in self._taken:  # `0 < x < 9 and ...` tests what `0 < x` returned twice
            return self._taken[key][1]
        possible = self._possible(test, outcomes)
        taken = int(possible[0]) if len(possible) == 1 else self._decide(test, possible, outcomes)
        self._taken[key] = (test, taken)
        if alone := outcomes_of_one(test):
            knob, each = alone
            self._left[knob] = self._left.get(knob, True) & (each == taken)
        return taken

    def _possible(self, test: Test, outcomes: int) -> IntArray:
        """Return the outcomes that some point has for which the path is."""
        alone = outcomes_of_one(test)
        if not alone:
            return np.arange(outcomes)
        knob, each = alone
        return np.unique(each[self._left[knob]] if knob in self._left else each)

    def _decide(self, test: Test, possible: IntArray, outcomes: int) -> int:
        """Return which of several outcomes this call takes; the first at first."""
        depth = len(self._path)
        if depth == len(self._script):
            self._script.append(int(possible[0]))
            branches: list[Tree | None] = [False] * outcomes
            for each in possible.tolist():
                branches[each] = None
            self._attach(Decision(test, branches))
        decision = self._here()
        if not isinstance(decision, Decision) or len(decision.branches) != outcomes:
            raise Opaque("the filter is not deterministic")
        self._path.append((decision, self._script[depth]))
        return self._script[depth]

    def _here(self) -> Tree | None:
        """Return the tree at the end of the path."""
        if not self._path:
            return self._root
        decision, outcome = self._path[-1]
        return decision.branches[outcome]

    def _attach(self, tree: Tree) -> None:
        if self._path:
            decision, outcome = self._path[-1]
            decision.branches[outcome] = tree
        else:
            self._root = tree

    def _next_script(self) -> bool:
        while self._path:
            decision, _ = self._path.pop()
            if None in decision.branches:
                following = decision.branches.index(None)
                self._script = [*(taken for _, taken in self._path), following]
                return True
        return False


def outcomes_of_one(test: Test) -> tuple[int, IntArray] | None:
    """Return the knob on which alone a test depends, and the outcome of each digit."""
    if type(test) is not Symbol:
        assert type(test) is SymbolicChoice
        return test.knob, test.classes
    if test.function is not None:
        return None
    (knob,) = test.knobs
    return knob, (test.table != 0).astype(np.int64)


class TracedKnobs(Mapping[str, object]):
    """The mapping a traced filter is called with."""

    def __init__(self, spaces: Mapping[str, TransformSpace], tracer: Tracer) -> None:
        self._spaces = spaces
        self._tracer = tracer
        self._positions = {name: i for i, name in enumerate(spaces)}

    def __getitem__(self, name: str) -> object:
        return self._spaces[name].traced(AskedKnob(self._positions[name], self._tracer))

    def __iter__(self) -> Iterator[str]:
        return iter(self._spaces)

    def __len__(self) -> int:
        return len(self._spaces)


class AskedKnob:
    """The answers of one knob's kind: symbols, and choices on this path."""

    __slots__ = ("_knob", "_tracer")

    def __init__(self, knob: int, tracer: Tracer) -> None:
        self._knob = knob
        self._tracer = tracer

    def entity(self, kind: type[Entity], value: Callable[[], object]) -> StandIn:
        """Return the stand-in for an entity."""
        return StandIn(kind, value, _refuse)

    def number(self, table: npt.NDArray[np.generic]) -> object:
        """Return a symbol, or the number where it is the same in all entities."""
        if len(table) == 1:
            return table[0].item()
        return leaf(self._knob, table, self._tracer.scope)

    def one_of(
        self, values: Sequence[object], position: int = 0, classes: IntArray | None = None
    ) -> object:
        """Return the value on this path.

        Raises:
            Opaque: there are too many.
        """
        if len(values) > MAX_PATHS:
            raise Opaque("a knob with too many values")
        each = np.arange(len(values), dtype=np.int64) if classes is None else classes
        return self._tracer.choose(SymbolicChoice(self._knob, position, each, tuple(values)))


def _refuse() -> NoReturn:
    raise Opaque("an entity is used as a whole")
