"""The valid points of a space: counted and drawn without enumerating the product of its knobs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from autotune.errors import SpaceError
from autotune.task.component import Component, grouped
from autotune.task.constraint import BoolArray, Constraint, Predicate
from autotune.task.filters import constraints_of
from autotune.task.radix import IndexArray, IntArray, Radix
from autotune.task.transform_space import TransformSpace
from autotune.utils.math import product

# Up to this many candidates are all looked at: to count, to draw the last few, to prove that
# nothing is left.
EXHAUSTIVE_LIMIT = 1 << 23
# Candidates drawn at once, and in all where no check rejects them, before a draw is given up.
ROUND = 1 << 17
EFFORT = 1 << 22
# Largest joint table that is gone through only to count: about a second.
COUNT_LIMIT = 1 << 27
# Sample size of an estimated count.
ESTIMATE = 1 << 16


class ValidPoints:
    """What constraints leave of a product of knobs.

    Constraints with a truth table are joined into components, from which valid digits are drawn
    directly, each with the same probability. The few that are too large for a table (`checks`)
    are asked about every candidate drawn from the others.

    Attributes:
        candidates: number of points that all tables accept; the valid ones unless there are
            `checks`.
    """

    def __init__(
        self, spaces: Mapping[str, TransformSpace], predicates: Sequence[Predicate]
    ) -> None:
        self.radix = Radix([len(space) for space in spaces.values()])
        self._names = list(spaces)
        self.constraints = [c for filter in predicates for c in constraints_of(filter, spaces)]
        groups, self.checks = grouped(self.constraints, self.radix.dims)
        self._components = [Component(group, self.radix.dims) for group in groups]
        bound = {knob for component in self._components for knob in component.knobs}
        self._free = [k for k in range(len(self.radix.dims)) if k not in bound]
        self._totals = [self.radix.dims[k] for k in self._free]
        self._totals += [component.total for component in self._components]
        self.candidates = product(self._totals)
        self._effort = min([check.effort for check in self.checks], default=EFFORT)
        self._count: tuple[int, bool] | None = None
        if not self.candidates:
            raise self._nothing()

    def accepts(self, digits: IntArray) -> BoolArray:
        """Return, for each row of digits, whether all constraints accept it."""
        return self._accepted(self.constraints, digits)

    def accepts_index(self, index: int) -> bool:
        """Return whether all constraints accept the point at one index within the range."""
        digits = self.radix.digits_of(int(index))
        return not self.constraints or bool(self.accepts(np.array([digits]))[0])

    def count(self) -> tuple[int, bool]:
        """Return the number of valid points, and whether it is exact or an estimate."""
        if self._count is None:
            self._count = self._counted()
        return self._count

    def count_below(self, index: int) -> int:
        """Count the candidates with a smaller index."""
        if index >= self.radix.total:
            return self.candidates
        digits = self.radix.digits_of(index) if index > 0 else []
        total = 0
        for position, digit in enumerate(digits):  # agree above `position`, are smaller there
            spans = [slice(0, n) for n in self.radix.dims[:position]]
            spans += [slice(0, digit)] + [slice(d, d + 1) for d in digits[position + 1 :]]
            total += self._count_in(spans)
        return total

    def draw(
        self, n: int, rng: np.random.Generator, exclude: Collection[int] | IndexArray | None
    ) -> IndexArray:
        """Draw up to ``n`` distinct valid indices that are not in ``exclude``, uniformly.

        Fewer come only when no more exist, or when `checks` reject nearly everything.

        Raises:
            SpaceError: none was found although none is excluded.
        """
        excluded = _Excluded(exclude, self.radix)
        few = self.candidates <= min(EXHAUSTIVE_LIMIT, 4 * self._effort)
        crowded = self.candidates < 4 * (n + len(excluded))
        if few and crowded:
            return self._draw_from_all(n, rng, excluded)
        found = self._draw_at_random(n, rng, excluded)
        if few and len(found) < n:
            found = self._draw_from_all(n, rng, excluded)
        if n > 0 and not len(found) and not len(excluded):
            raise self._nothing(f"; {max(self._effort, 16 * n)} points were tried")
        return found

    def _draw_at_random(self, n: int, rng: np.random.Generator, excluded: _Excluded) -> IndexArray:
        found = self.radix.array([])
        spent, fresh_share = 0, 1.0
        while len(found) < n and spent < max(self._effort, 16 * n):
            tries = min(ROUND, int((n - len(found)) / fresh_share * 1.1) + 16)
            spent += tries
            ranks = [rng.integers(total, size=tries) for total in self._totals]
            fresh = excluded.without(self._checked(ranks))
            before = len(found)
            found = _distinct(np.concatenate([found, fresh]))
            fresh_share = max((len(found) - before) / tries, 1e-3)
        return found[:n]

    def _draw_from_all(self, n: int, rng: np.random.Generator, excluded: _Excluded) -> IndexArray:
        """Go through all candidates in random order."""
        order = rng.permutation(self.candidates)
        found: list[IndexArray] = []
        have = 0
        for start in range(0, len(order), ROUND):
            ranks = Radix(self._totals).digits(order[start : start + ROUND])
            found.append(excluded.without(self._checked(list(ranks.T))))
            have += len(found[-1])
            if have >= n:
                break
        return np.concatenate([self.radix.array([]), *found])[:n]

    def _checked(self, ranks: Sequence[IntArray]) -> IndexArray:
        """Return the indices of the candidates with these ranks that pass the checks."""
        digits = np.empty((len(ranks[0]) if ranks else 1, len(self.radix.dims)), dtype=np.int64)
        for column, knob in enumerate(self._free):
            digits[:, knob] = ranks[column]
        for column, component in enumerate(self._components, start=len(self._free)):
            digits[:, component.knobs] = component.digits(np.asarray(ranks[column]))
        return self.radix.indices(digits[self._accepted(self.checks, digits)])

    def _accepted(self, constraints: Sequence[Constraint], digits: IntArray) -> BoolArray:
        """Ask each constraint only about what the ones before it accepted."""
        alive = np.arange(len(digits))
        for constraint in constraints:
            alive = alive[constraint.accepts(digits[alive])]
        accepted = np.zeros(len(digits), dtype=np.bool_)
        accepted[alive] = True
        return accepted

    def _count_in(self, spans: Sequence[slice]) -> int:
        free = product(spans[k].stop - spans[k].start for k in self._free)
        tied = product(c.count([spans[k] for k in c.knobs]) for c in self._components)
        return free * tied

    def _counted(self) -> tuple[int, bool]:
        if not self.checks:
            return self.candidates, True
        groups, left = grouped(self.constraints, self.radix.dims, COUNT_LIMIT)
        if not left:
            components = [Component(group, self.radix.dims) for group in groups]
            bound = {knob for component in components for knob in component.knobs}
            free = product(n for k, n in enumerate(self.radix.dims) if k not in bound)
            return self._some(free * product(c.total for c in components)), True
        read = {knob for check in self.checks for knob in check.knobs}
        unread = product(self.radix.dims[k] for k in self._free if k not in read)
        keep = [1 if k not in read else self.radix.dims[k] for k in self._free]
        cells = Radix(keep + self._totals[len(keep) :])
        if cells.total <= min(EXHAUSTIVE_LIMIT, 4 * self._effort):
            blocks = range(0, cells.total, ROUND)
            spans = (np.arange(i, min(i + ROUND, cells.total)) for i in blocks)
            valid = sum(len(self._checked(list(cells.digits(span).T))) for span in spans)
            return self._some(valid * unread), True
        rng = np.random.default_rng(0)
        drawn = self._checked([rng.integers(t, size=ESTIMATE) for t in self._totals])
        return max(self.candidates * len(drawn) // ESTIMATE, 1), False

    def _some(self, count: int) -> int:
        if not count:
            raise self._nothing()
        return count

    def _nothing(self, how: str = "") -> SpaceError:
        filters = "; ".join(
            dict.fromkeys(
                f"{c.origin} reads {', '.join(self._names[k] for k in c.knobs) or 'no knob'}"
                for c in self.constraints
            )
        )
        return SpaceError(
            f"multi_filter leaves no point of the space ({filters}{how}); relax it, or define "
            f"more values"
        )


class _Excluded:
    """Indices that must not be drawn."""

    def __init__(self, exclude: Collection[int] | IndexArray | None, radix: Radix) -> None:
        values: Any = () if exclude is None else exclude
        if not isinstance(values, np.ndarray):
            values = list(values)
        self._sorted = np.unique(radix.array(values))

    def __len__(self) -> int:
        return len(self._sorted)

    def without(self, indices: IndexArray) -> IndexArray:
        """Return ``indices`` less the excluded ones."""
        if not len(self._sorted):
            return indices
        at = np.searchsorted(self._sorted, indices)
        at[at == len(self._sorted)] = 0
        return indices[np.asarray(self._sorted[at] != indices, dtype=np.bool_)]


def _distinct(indices: IndexArray) -> IndexArray:
    """Drop repetitions, keeping the order of first occurrence."""
    _, first = np.unique(indices, return_index=True)
    return indices[np.sort(first)]
