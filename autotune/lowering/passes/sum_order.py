"""The order of the sums of a thread: as instructions number them, however a schedule does."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from math import prod

from autotune.ir.analysis_affine import Affine
from autotune.ir.simplify import Simplifier
from autotune.ir.stmt import Buffer
from autotune.lowering.extents import known


@dataclass(frozen=True)
class _Digit:
    """A loop over sums: its extent, and how far apart its sums were and are now."""

    extent: int
    before: int
    now: int


@dataclass(frozen=True)
class SumOrder:
    """Sums in the order in which instructions number them.

    Attributes:
        buffer: that has them.
        digits: of a number, by loops of which each counts some of the sums.
    """

    buffer: Buffer
    digits: Sequence[_Digit]

    @classmethod
    def of(
        cls,
        given: Buffer,
        found: Sequence[Hashable],
        wanted: Sequence[Hashable],
        extents: Sequence[int],
    ) -> SumOrder | None:
        """Return the order of sums; None if what they are of is not what is wanted.

        Args:
            given: the buffer of sums as a schedule numbers them.
            found: what each of them is of.
            wanted: the same in the order of instructions.
            extents: of the loops that this order has, the outermost first.
        """
        places = {each: number for number, each in enumerate(found)}
        if len(places) != len(found) or places.keys() != set(wanted):
            return None
        before, now, digits = [places[each] for each in wanted], len(wanted), []
        for extent in extents:
            now //= extent
            if extent > 1:
                digits.append(_Digit(extent, before[now], now))
        order = cls(given, () if list(found) == list(wanted) else digits)
        unit = 1
        for digit in sorted(digits, key=lambda digit: digit.before):
            if digit.before != unit:
                return None
            unit *= digit.extent
        if digits and prod(known(given.shape, given.name)) != unit:
            return None
        whole = [sum(n // d.now % d.extent * d.before for d in digits) for n in range(len(before))]
        return order if whole == before else None

    @property
    def is_given(self) -> bool:
        """Whether they were in this order."""
        return not self.digits

    def place(self, simplifier: Simplifier, index: Affine) -> Affine:
        """Return where a sum is that was at ``index``."""
        found = []
        for each in self.digits:
            rest = simplifier.floordiv(index, each.before)
            found.append((simplifier.floormod(rest, each.extent), each.now))
        return simplifier.combine(found)
