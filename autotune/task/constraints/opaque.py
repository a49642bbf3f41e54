"""Filters that cannot be traced, treated as black boxes."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import numpy as np

from autotune.errors import SpaceError, TargetError
from autotune.task.constraints.constraint import (
    BoolArray,
    Constraint,
    Predicate,
    refine,
)
from autotune.task.constraints.radix import IntArray
from autotune.task.constraints.views import KnobMapping, Unread, view
from autotune.task.kinds import TransformSpace

# Points tried first, so that what a filter reads is known before its table is begun.
PROBES = 64
# Remembered results of a filter without a table; above this the memory starts anew.
MEMO_LIMIT = 1 << 20


class OpaqueConstraint(Constraint):
    """An arbitrary predicate over the mapping name -> entity.

    It is shown only what it asks for (see `views`), so what it reads is known, and its result is
    shared between all points that agree there.
    """

    effort = 1 << 18
    quick = 1 << 12

    def __init__(
        self, predicate: Predicate, spaces: Mapping[str, TransformSpace], origin: str
    ) -> None:
        self.origin = origin
        self._predicate = predicate
        self._spaces = dict(spaces)
        self._names = list(spaces)
        self._reads: dict[str, set[int] | None] = {}
        self._memo: dict[bytes, bool] = {}
        self._views: list[list[object]] = []
        self.knobs, self.classes, self.members = [], [], []
        self.table = None
        self._probe()
        self.tabulate(self.quick)

    def _evaluate(self, digits: IntArray) -> BoolArray:
        while True:
            try:
                return self._remember(digits)
            except Unread as more:
                self._learn(more)

    def _remember(self, digits: IntArray) -> BoolArray:
        columns = [known[digits[:, k]] for k, known in zip(self.knobs, self.classes, strict=True)]
        codes = np.stack(columns, axis=1) if columns else np.zeros((len(digits), 0), np.int64)
        if len(self._memo) > MEMO_LIMIT:
            self._memo.clear()
        results = np.empty(len(codes), dtype=np.bool_)
        for row, code in enumerate(codes):
            key = code.tobytes()
            known = self._memo.get(key)
            if known is None:
                known = self._memo[key] = self._call(self._shown(code.tolist()))
            results[row] = known
        return results

    def _tabulated(self, limit: int) -> BoolArray | None:
        while self.cells <= limit:
            try:
                shape = [len(members) for members in self.members]
                return np.array(self._evaluate_all(), dtype=np.bool_).reshape(shape)
            except Unread as more:
                self._learn(more)
        return None

    def _evaluate_all(self) -> list[bool]:
        names = [self._names[k] for k in self.knobs]
        shown = KnobMapping(self._names)
        results = []
        for choice in itertools.product(*self._views):
            shown.update(zip(names, choice, strict=True))
            results.append(self._call(shown))
        return results

    def _probe(self) -> None:
        """Learn what the filter reads from a few points spread over the space."""
        rng = np.random.default_rng(0)
        dims = [len(space) for space in self._spaces.values()]
        points = [[0] * len(dims), [n - 1 for n in dims]]
        points += [[int(rng.integers(n)) for n in dims] for _ in range(PROBES)]
        self._evaluate(np.array(points, dtype=np.int64))

    def _shown(self, codes: list[int]) -> KnobMapping:
        shown = KnobMapping(self._names)
        for knob, views, code in zip(self.knobs, self._views, codes, strict=True):
            shown[self._names[knob]] = views[code]
        return shown

    def _call(self, shown: KnobMapping) -> bool:
        try:
            return bool(self._predicate(shown))
        except TargetError:  # no fault of the filter, and says itself what is wrong
            raise
        except Exception as error:
            partly = [name for name, read in self._reads.items() if read is not None]
            if partly:  # it may use an entity in a way that only a whole one supports
                raise Unread(partly) from error
            raise SpaceError(f"{self.origin} failed: {type(error).__name__}: {error}") from error

    def _learn(self, more: Unread) -> None:
        """Pass more to the filter from now on, and group the knobs again."""
        for name in more.knobs:
            space = self._spaces[name]
            read = self._reads.setdefault(name, set() if space.has_elements else None)
            if more.position is None:
                self._reads[name] = None
            elif read is not None and more.position >= 0:
                read.add(more.position)
        self._memo.clear()
        self.knobs = sorted(self._names.index(name) for name in self._reads)
        grouped = [self._group(self._names[knob]) for knob in self.knobs]
        self.classes = [classes for classes, _, _ in grouped]
        self.members = [members for _, members, _ in grouped]
        self._views = [views for _, _, views in grouped]

    def _group(self, name: str) -> tuple[IntArray, IntArray, list[object]]:
        """Return the class of every digit, one digit of every class, and what is shown of it."""
        space, read = self._spaces[name], self._reads[name]
        classes = members = np.arange(len(space), dtype=np.int64)
        if read is not None:
            blank = np.zeros(len(space), dtype=np.int64)
            classes, members = refine([blank, *(space.element_codes(i) for i in sorted(read))])
        shown = None if read is None else sorted(read)
        return classes, members, [view(name, space, int(digit), shown) for digit in members]
