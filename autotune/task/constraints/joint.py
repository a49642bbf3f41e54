"""The valid points of a space: its constraints, merged to one table where that is small."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

import numpy as np

from autotune.task.constraints.component import Component, group_by_knobs
from autotune.task.constraints.constraint import BoolArray, Constraint
from autotune.task.constraints.listing import Listing
from autotune.task.constraints.radix import IndexArray, IntArray, Radix

# Candidates looked at together.
ROUND = 1 << 17
# Candidates from which the share that passes the checks is told, and how many must pass.
SAMPLE, ENOUGH = 1 << 12, 1000


class Joint:
    """A product of independent parts: free knobs, and components of constraints.

    Components are tables, or lists. Candidates are the points that all components accept; each is
    a list of ranks, one a part.
    `checks` are asked about every candidate.

    Args:
        constraints: all of the space.
        radix: the digits of its points.
        limit: most cells of the joint table of a component.
        listings: parts for other constraints, which are in none of `constraints`.

    Attributes:
        checks: constraints that are in no component.
        candidates: number of candidates; valid points unless there are checks.
        totals: number of ranks of every part.
    """

    def __init__(
        self,
        constraints: Sequence[Constraint],
        radix: Radix,
        limit: int,
        listings: Sequence[Listing] = (),
    ) -> None:
        self._radix = radix
        groups, self.checks = group_by_knobs(constraints, radix.dims, limit)
        components = [Component(group, radix.dims) for group in groups]
        self._components: list[Component | Listing] = [*components, *listings]
        bound = {knob for component in self._components for knob in component.knobs}
        self._free = [k for k in range(len(radix.dims)) if k not in bound]
        self.totals = [radix.dims[k] for k in self._free]
        self.totals += [component.total for component in self._components]
        self.candidates = prod(self.totals)

    def draw(self, n: int, rng: np.random.Generator) -> IndexArray:
        """Draw ``n`` candidates, and return the indices of those that pass the checks."""
        return self.checked([rng.integers(total, size=n) for total in self.totals])

    def checked(self, ranks: Sequence[IntArray]) -> IndexArray:
        """Return the indices of the candidates with these ranks that pass the checks."""
        digits = np.empty((len(ranks[0]) if ranks else 1, len(self._radix.dims)), dtype=np.int64)
        for column, knob in enumerate(self._free):
            digits[:, knob] = ranks[column]
        for column, component in enumerate(self._components, start=len(self._free)):
            digits[:, component.knobs] = component.digits(np.asarray(ranks[column]))
        return self._radix.indices(digits[accepted_by(self.checks, digits)])

    def share(self) -> float:
        """Estimate which share of the candidates passes the checks."""
        if not self.checks or not self.candidates:
            return 1.0
        return len(self.draw(SAMPLE, np.random.default_rng(0))) / SAMPLE

    def estimate(self, most: int) -> int:
        """Estimate the number of valid points, from at most ``most`` candidates; at least 1."""
        rng = np.random.default_rng(0)
        drawn = passed = 0
        while passed < ENOUGH and drawn < most:
            passed += len(self.draw(SAMPLE, rng))
            drawn += SAMPLE
        return max(self.candidates * passed // drawn, 1)

    def count_below(self, index: int) -> int:
        """Count the candidates with a smaller index."""
        if index >= self._radix.total:
            return self.candidates
        return sum(self._count_in(spans) for spans in self._radix.ranges_below(index))

    def _count_in(self, spans: Sequence[slice]) -> int:
        free: int = prod(spans[k].stop - spans[k].start for k in self._free)
        tied = prod(c.count([spans[k] for k in c.knobs]) for c in self._components)
        return free * tied

    def count(self, most: int) -> int | None:
        """Count the valid points, unless more than ``most`` candidates would be examined."""
        if not self.checks:
            return self.candidates
        read = {knob for check in self.checks for knob in check.knobs}
        unread = prod(self._radix.dims[k] for k in self._free if k not in read)
        keep = [1 if k not in read else self._radix.dims[k] for k in self._free]
        cells = Radix(keep + self.totals[len(keep) :])
        if cells.total > most:
            return None
        spans = (cells.digits(span) for span in _spans(cells.total))
        return unread * sum(len(self.checked(list(ranks.T))) for ranks in spans)


def accepted_by(constraints: Sequence[Constraint], digits: IntArray) -> BoolArray:
    """Return, for each row of digits, whether all constraints accept it.

    Each is asked only about what the ones before it accepted.
    """
    alive = np.arange(len(digits))
    for constraint in constraints:
        alive = alive[constraint.accepts(digits[alive])]
    accepted = np.zeros(len(digits), dtype=np.bool_)
    accepted[alive] = True
    return accepted


def _spans(total: int) -> Iterator[IntArray]:
    for start in range(0, total, ROUND):
        yield np.arange(start, min(start + ROUND, total))
