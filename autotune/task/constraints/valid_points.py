"""The valid points of a space: counted and drawn without enumerating the product of its knobs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cached_property

import numpy as np

from autotune.errors import SpaceError
from autotune.task.constraints.component import COUNT_LIMIT, JOINT_LIMIT, QUICK_JOINT
from autotune.task.constraints.constraint import BoolArray, Predicate, TracedConstraint
from autotune.task.constraints.counting import Counter, Uncountable
from autotune.task.constraints.filters import constraints_of
from autotune.task.constraints.joint import ROUND, Joint, accepted_by
from autotune.task.constraints.listing import Listing, listed
from autotune.task.constraints.radix import IndexArray, IntArray, Radix
from autotune.task.kinds import TransformSpace

# Up to this many candidates are all looked at: to count, to draw the last few, to prove that
# nothing is left.
EXHAUSTIVE_LIMIT = 1 << 23
# Candidates drawn in all where no check rejects them, before a draw is given up.
EFFORT = 1 << 22
# Candidates looked at for an estimated count.
ESTIMATE = 1 << 16
# When fewer candidates pass the checks, more constraints are joined, whatever the time it takes.
FEW = 0.02


class ValidPoints:
    """The valid points of a product of knobs with constraints.

    Constraints with a truth table are joined into components, from which valid digits are drawn
    directly, each with the same probability. Where others are left, what all of them leave of
    their knobs is listed, if it is little, and drawn in the same way. The rest are asked about
    every candidate drawn from the others. At first only what takes some ten milliseconds is
    tabulated, joined and listed; more is joined where too many candidates would be rejected, and
    all that can be where an exact count is asked for.
    """

    def __init__(
        self, spaces: Mapping[str, TransformSpace], predicates: Sequence[Predicate]
    ) -> None:
        self.radix = Radix([len(space) for space in spaces.values()])
        self._names = list(spaces)
        found = [c for filter in predicates for c in constraints_of(filter, spaces)]
        self.constraints = [c for c in found if c.table is None or not c.table.all()]
        self._count: tuple[int, bool] | None = None
        self._joint = Joint(self.constraints, self.radix, QUICK_JOINT)
        self._unlisted, self._listings = self.constraints, list[Listing]()
        if checks := self._joint.checks:
            self._unlisted, self._listings = listed(self.constraints, checks, self.radix.dims)
        if self._listings:
            self._joint = Joint(self._unlisted, self.radix, QUICK_JOINT, self._listings)
        if self._joint.share() < FEW:
            self._joint = self._join(JOINT_LIMIT)
        self._effort = min([c.effort for c in self._joint.checks], default=EFFORT)
        if not self.candidates:
            raise self._nothing()

    @property
    def candidates(self) -> int:
        """The number of points that the joined constraints leave."""
        return self._joint.candidates

    @cached_property
    def settled(self) -> Joint:
        """All constraints that can be joined: counted from where `_counter` cannot be used."""
        return self._join(COUNT_LIMIT) if self._joint.checks else self._joint

    @cached_property
    def _counter(self) -> tuple[Counter, int] | None:
        """What counts one knob after another, and the count; None where there are no checks."""
        if not self._joint.checks:
            return None
        for constraint in self.constraints:
            if not isinstance(constraint, TracedConstraint):
                constraint.tabulate()
        try:
            counter = Counter(self.constraints, self.radix.dims)
            return counter, counter.count()
        except Uncountable:
            return None

    @property
    def counts_exactly(self) -> bool:
        """Whether `count_below` is exact."""
        return self._counter is not None or not self.settled.checks

    def _join(self, limit: int) -> Joint:
        for constraint in self._unlisted:
            constraint.tabulate()
        return Joint(self._unlisted, self.radix, limit, self._listings)

    def accepts(self, digits: IntArray) -> BoolArray:
        """Return, for each row of digits, whether all constraints accept it."""
        return accepted_by(self.constraints, digits)

    def accepts_index(self, index: int) -> bool:
        """Return whether all constraints accept the point at one index within the range."""
        if not self.constraints:
            return True
        digits = self.radix.digits_of(int(index))
        return bool(self.accepts(np.array([digits]))[0])

    def count(self) -> tuple[int, bool]:
        """Return the number of valid points, and whether it is exact or an estimate."""
        if self._count is None:
            self._count = self._counted()
        return self._count

    def count_below(self, index: int) -> int:
        """Count the valid points with a smaller index; see `counts_exactly`."""
        if self._counter is None:
            return self.settled.count_below(index)
        counter, _ = self._counter
        return sum(counter.count(spans) for spans in self.radix.ranges_below(index))

    def about(self) -> tuple[int, bool]:
        """Return the number of valid points as far as a fraction of a second tells it."""
        if self._count is not None:
            return self._count
        least = self._effort >> 6
        counted = self._joint.count(least)
        if counted is None:
            return self._joint.estimate(min(least, ESTIMATE)), False
        self._count = self._some(counted), True
        return self._count

    def draw(
        self, n: int, rng: np.random.Generator, exclude: Collection[int] | IndexArray | None
    ) -> IndexArray:
        """Draw up to ``n`` distinct valid indices that are not in ``exclude``, uniformly.

        Fewer come only when no more exist, or when nearly everything is rejected by constraints
        too large to be joined.

        Raises:
            SpaceError: none was found although none is excluded.
        """
        excluded = _Excluded(exclude, self.radix)
        few = self.candidates <= min(EXHAUSTIVE_LIMIT, 4 * self._effort)
        wanted = n + len(excluded)
        # Of nearly all valid points the last few would be drawn after most others were many times.
        nearly_all = self._count is not None and self._count[0] < 2 * wanted
        crowded = nearly_all or self.candidates < 4 * wanted
        if few and crowded:
            return self._draw_from_all(n, rng, excluded)
        # To draw the last of some valid points may take longer than to go through all candidates.
        most = self.candidates // 4 if few else max(self._effort, 16 * n)
        found = self._draw_at_random(n, rng, excluded, most)
        if few and len(found) < n:
            found = self._draw_from_all(n, rng, excluded)
        if n > 0 and not len(found) and not len(excluded):
            raise self._nothing(f"; {max(self._effort, 16 * n)} points were tried")
        return found

    def _draw_at_random(
        self, n: int, rng: np.random.Generator, excluded: _Excluded, most: int
    ) -> IndexArray:
        """Draw candidates, at least ``most`` of them before it is given up."""
        found = self.radix.array([])
        spent, fresh_share = 0, 1.0
        while len(found) < n and spent < most:
            tries = min(ROUND, int((n - len(found)) / fresh_share * 1.1) + 16)
            spent += tries
            fresh = excluded.without(self._joint.draw(tries, rng))
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
            ranks = Radix(self._joint.totals).digits(order[start : start + ROUND])
            found.append(excluded.without(self._joint.checked(list(ranks.T))))
            have += len(found[-1])
            if have >= n:
                break
        return np.concatenate([self.radix.array([]), *found])[:n]

    def _counted(self) -> tuple[int, bool]:
        if self._counter is not None:
            return self._some(self._counter[1]), True
        joint = self.settled
        effort = min([check.effort for check in joint.checks], default=EFFORT)
        counted = joint.count(min(EXHAUSTIVE_LIMIT, 4 * effort))
        if counted is None:
            return joint.estimate(ESTIMATE), False
        return self._some(counted), True

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
        given = exclude if isinstance(exclude, np.ndarray) else list(exclude or ())
        self._sorted = np.unique(radix.array(given))

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
