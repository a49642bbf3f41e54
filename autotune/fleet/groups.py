"""Places of workers grouped by capability: decisions scale with groups, not with places."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from autotune.fleet.places import Needs, Place


class PlaceGroups:
    """A set of places in which those that suit some needs are found without looking at all.

    A fleet may have thousands of places, but only a few kinds: all of one kind can do the same.
    """

    def __init__(self) -> None:
        self._groups: dict[Place, dict[int, None]] = {}
        # Each place with the group of its kind, also while the place is not in it.
        self._known: dict[int, tuple[Place, dict[int, None]]] = {}
        # The groups that suit some needs; computed again when there is a new kind.
        self._suiting: dict[Needs, tuple[dict[int, None], ...]] = {}

    def add(self, place: Place) -> None:
        """Add a place behind those of its kind."""
        known = self._known.get(place.number)
        if known is None or known[0] is not place:
            self.discard(place.number)
            known = self._known[place.number] = place, self._group_of(place)
        known[1][place.number] = None

    def _group_of(self, place: Place) -> dict[int, None]:
        kind = replace(place, number=-1, agent="", name="", slots=0, lanes=0)
        if kind not in self._groups:
            self._groups[kind] = {}
            self._suiting.clear()
        return self._groups[kind]

    def discard(self, number: int) -> None:
        """Remove a place, which may be added again."""
        known = self._known.get(number)
        if known is not None:
            known[1].pop(number, None)

    def forget(self, number: int) -> None:
        """Remove a place for good."""
        self.discard(number)
        self._known.pop(number, None)

    def suiting(self, needs: Needs) -> Iterator[int]:
        """Yield the places that suit; within each kind in the order in which they were added.

        No place may be added or removed during the iteration.
        """
        wanted, only = needs, needs.only
        if only is not None:
            wanted = replace(needs, only=None)
        if wanted not in self._suiting:
            kinds = [group for kind, group in self._groups.items() if kind.suits(wanted)]
            self._suiting[wanted] = tuple(kinds)
        for group in self._suiting[wanted]:
            if only is None:
                yield from group
            elif only in group:
                yield only
