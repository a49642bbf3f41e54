"""Steps of a program that may run concurrently, as they share no memory that is written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

# Branches under way at once; a step beyond that waits for one of them.
MOST = 8


@dataclass(frozen=True)
class Touched:
    """The memory that a step reads, and that which it writes: spans (first byte, end)."""

    read: tuple[tuple[int, int], ...]
    written: tuple[tuple[int, int], ...]

    def must_follow(self, earlier: Touched) -> bool:
        """Return whether one of the two writes what the other reads or writes."""
        return (
            _meet(self.read, earlier.written)
            or _meet(self.written, earlier.written)
            or _meet(self.written, earlier.read)
        )


def _meet(one: Sequence[tuple[int, int]], two: Sequence[tuple[int, int]]) -> bool:
    return any(a < d and c < b for a, b in one for c, d in two)


@dataclass(frozen=True)
class Placed:
    """The branch of a step, and the steps that it waits for.

    Attributes:
        branch: number of its branch; steps of one run one after another.
        after: numbers of the steps of other branches that it waits for.
    """

    branch: int
    after: tuple[int, ...]


def place(steps: Sequence[Touched], most: int = MOST) -> list[Placed]:
    """Assign steps to branches that run concurrently, such that dependences are respected.

    A step continues the branch that ends with the last step on which it depends; otherwise one for
    whose end it must wait anyway; otherwise it starts a branch. It waits for another branch only
    if no step for which it waits has done so already.

    Args:
        steps: the steps, in an order that is valid without branches.
        most: the largest number of branches.
    """
    before: list[frozenset[int]] = []  # all that must have ended, through others too
    needed: list[list[int]] = []  # the same without what others imply, latest first
    for number, step in enumerate(steps):
        direct: list[int] = []
        implied: frozenset[int] = frozenset()
        for earlier in range(number - 1, -1, -1):
            if earlier not in implied and step.must_follow(steps[earlier]):
                direct.append(earlier)
                implied |= before[earlier] | {earlier}
        needed.append(direct)
        before.append(implied)
    return _branches(needed, before, most)


def _branches(
    needed: Sequence[Sequence[int]], before: Sequence[frozenset[int]], most: int
) -> list[Placed]:
    ends: list[int] = []  # of each branch, its last step
    placed: list[Placed] = []
    for number, direct in enumerate(needed):
        ended = [end for end in ends if end in before[number]]
        if ended:
            # The latest: it is what the step goes on with.
            branch = ends.index(max(ended))
        elif len(ends) < most:
            branch = len(ends)
            ends.append(number)
        else:
            branch = ends.index(min(ends))
        after = tuple(each for each in direct if placed[each].branch != branch)
        ends[branch] = number
        placed.append(Placed(branch, after))
    return placed
