"""Places by what they can do, so that a decision looks at kinds of places and not at each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from autotune.fleet.places import Needs, Place


class Groups:
    """Some places, of which those that suit are found without asking all.

    A fleet has thousands of places, and a handful of kinds of them: equal but for who they are.
    """

    def __init__(self) -> None:
        self._groups: dict[Place, dict[int, None]] = {}
        # Each place with the group of its kind, whether or not it is in it now.
        self._known: dict[int, tuple[Place, dict[int, None]]] = {}
        # Which kinds suit; asked for anew when there is another kind.
        self._suiting: dict[Needs, tuple[dict[int, None], ...]] = {}

    def add(self, place: Place) -> None:
        """Take a place in, behind those of its kind that are there."""
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
        """Go without a place."""
        known = self._known.get(number)
        if known is not None:
            known[1].pop(number, None)

    def forget(self, number: int) -> None:
        """Go without a place that will not be here again."""
        self.discard(number)
        self._known.pop(number, None)

    def suiting(self, needs: Needs) -> Iterator[int]:
        """Return the places that suit, of each kind those first that were added first.

        None may be added or taken out while this goes on.
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
