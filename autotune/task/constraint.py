"""One filter over several knobs, tabulated over what it reads."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from autotune.errors import SpaceError
from autotune.task.radix import IntArray
from autotune.task.transform_space import TransformSpace
from autotune.task.views import Shown, Unread, view
from autotune.utils.math import product

Predicate = Callable[[Mapping[str, Any]], bool]
BoolArray = npt.NDArray[np.bool_]

# Largest truth table: about half a second of Python calls and 1 MB.
TABLE_LIMIT = 1 << 20
# Points tried first, so that what a filter reads is known before its table is begun.
PROBES = 64
# Remembered results of a filter without a table; above this the memory starts anew.
MEMO_LIMIT = 1 << 20


class Constraint:
    """A predicate over the mapping name -> entity.

    Knobs are grouped into classes that the predicate cannot tell apart. When there are few enough
    combinations of classes, all are evaluated once into `table`; otherwise each combination is
    evaluated when it is first met.

    Attributes:
        knobs: positions of the knobs it reads, ascending.
        classes: for each of `knobs`, the class of every digit.
        table: truth by class, one axis per knob; None when it would be too large.
    """

    def __init__(self, predicate: Predicate, spaces: Mapping[str, TransformSpace]) -> None:
        self._predicate = predicate
        self._spaces = dict(spaces)
        self._names = list(spaces)
        self._reads: dict[str, set[int] | None] = {}
        self._memo: dict[bytes, bool] = {}
        self.knobs: list[int] = []
        self.classes: list[IntArray] = []
        self._members: list[IntArray] = []
        self._probe()
        self.table: BoolArray | None = self._tabulate()

    @property
    def origin(self) -> str:
        """Where the filter is written, for messages."""
        code = getattr(self._predicate, "__code__", None)
        if code is None:
            return repr(self._predicate)
        return f"the filter at {code.co_filename}:{code.co_firstlineno}"

    @property
    def read_names(self) -> list[str]:
        """Names of the knobs it reads."""
        return [self._names[k] for k in self.knobs]

    def accepts(self, digits: IntArray) -> BoolArray:
        """Return, for each row of digits of all knobs, whether the filter accepts it."""
        if self.table is not None:
            return np.asarray(self.table[tuple(self._codes(digits).T)], dtype=np.bool_).reshape(
                len(digits)
            )
        while True:
            try:
                return self._remembered(digits)
            except Unread as more:
                self._learn(more)

    def _codes(self, digits: IntArray) -> IntArray:
        columns = [known[digits[:, k]] for k, known in zip(self.knobs, self.classes, strict=True)]
        shape = (len(digits), len(self.knobs))
        return np.stack(columns, axis=1) if columns else np.zeros(shape, dtype=np.int64)

    def _remembered(self, digits: IntArray) -> BoolArray:
        unique, inverse = np.unique(self._codes(digits), axis=0, return_inverse=True)
        if len(self._memo) > MEMO_LIMIT:
            self._memo.clear()
        results = np.empty(len(unique), dtype=np.bool_)
        for row, codes in enumerate(unique):
            key = codes.tobytes()
            if key not in self._memo:
                members = [int(m[c]) for m, c in zip(self._members, codes, strict=True)]
                self._memo[key] = self._call(self._show(members))
            results[row] = self._memo[key]
        return results[inverse.reshape(-1)]

    def _tabulate(self) -> BoolArray | None:
        while True:
            shape = tuple(len(members) for members in self._members)
            if product(shape) > TABLE_LIMIT:
                return None
            try:
                return np.array(self._evaluate_all(), dtype=np.bool_).reshape(shape)
            except Unread as more:
                self._learn(more)

    def _evaluate_all(self) -> list[bool]:
        names = self.read_names
        views = [
            [view(name, self._spaces[name], int(digit), self._shown_of(name)) for digit in members]
            for name, members in zip(names, self._members, strict=True)
        ]
        shown = Shown(self._names)
        results = []
        for choice in itertools.product(*views):
            shown.update(zip(names, choice, strict=True))
            results.append(self._call(shown))
        return results

    def _probe(self) -> None:
        """Learn what the filter reads from a few points spread over the space."""
        rng = np.random.default_rng(0)
        dims = [len(space) for space in self._spaces.values()]
        points = [[0] * len(dims), [n - 1 for n in dims]]
        points += [[int(rng.integers(n)) for n in dims] for _ in range(PROBES)]
        for point in points:
            while True:
                try:
                    self._call(self._show([point[k] for k in self.knobs]))
                    break
                except Unread as more:
                    self._learn(more)

    def _show(self, digits: list[int]) -> Shown:
        shown = Shown(self._names)
        for name, digit in zip(self.read_names, digits, strict=True):
            shown[name] = view(name, self._spaces[name], digit, self._shown_of(name))
        return shown

    def _shown_of(self, name: str) -> list[int] | None:
        read = self._reads[name]
        return None if read is None else sorted(read)

    def _call(self, shown: Shown) -> bool:
        try:
            return bool(self._predicate(shown))
        except Exception as error:
            partly = [name for name, read in self._reads.items() if read is not None]
            if partly:  # it may use an entity in a way that only a whole one supports
                raise Unread(partly) from error
            raise SpaceError(f"{self.origin} failed: {type(error).__name__}: {error}") from error

    def _learn(self, more: Unread) -> None:
        """Show more to the filter from now on, and group the knobs anew."""
        for name in more.knobs:
            space = self._spaces[name]
            read = self._reads.setdefault(name, set() if space.sequence_attribute else None)
            if more.position is None:
                self._reads[name] = None
            elif read is not None and more.position >= 0:
                read.add(more.position)
        self._memo.clear()
        self.knobs = sorted(self._names.index(name) for name in self._reads)
        grouped = [_group(self._spaces[name], self._shown_of(name)) for name in self.read_names]
        self.classes = [classes for classes, _ in grouped]
        self._members = [members for _, members in grouped]


def _group(space: TransformSpace, shown: list[int] | None) -> tuple[IntArray, IntArray]:
    """Return the class of every digit, and one digit of every class."""
    if shown is None:
        whole = np.arange(len(space), dtype=np.int64)
        return whole, whole
    if not shown:
        return np.zeros(len(space), dtype=np.int64), np.zeros(1, dtype=np.int64)
    return refine([space.element_codes(position) for position in shown])


def refine(codes: list[IntArray]) -> tuple[IntArray, IntArray]:
    """Return the coarsest classes that keep all of ``codes`` apart, and one member of each."""
    table = np.stack(codes, axis=1)
    _, members, classes = np.unique(table, axis=0, return_index=True, return_inverse=True)
    return classes.reshape(-1).astype(np.int64), members.astype(np.int64)
