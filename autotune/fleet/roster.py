"""The places of a fleet: which take part, which have room, and which are set aside."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic

from autotune.fleet.groups import PlaceGroups
from autotune.fleet.places import Entry, Needs, Place, PlaceState

# How long a place is set aside at most.
_MOST_ASIDE_S = 960.0
# The number of places that left and are remembered, with the reason why they were set aside.
_MOST_LEFT = 256


class Roster(Generic[Entry]):
    """All places of a fleet, with the entries that each of them holds. Not thread-safe.

    Attributes:
        states: the state of each place by number, also of the last ones that left.
        set_aside_now: the numbers of the places that take part and are set aside.
    """

    def __init__(self) -> None:
        self.states: dict[int, PlaceState[Entry]] = {}
        self.set_aside_now: set[int] = set()
        # Places that could start an entry at once, and those that could hold one more; the one
        # that waited longest is first.
        self._idle, self._free = PlaceGroups(), PlaceGroups()
        # Places that left, in the order in which they did.
        self._left: dict[int, None] = {}
        self._changes: list[tuple[str, str]] = []

    def join(self, place: Place) -> bool:
        """Add a place, or one that left; return whether it comes back."""
        is_back = place.number in self._left
        state = self.states.setdefault(place.number, PlaceState(place))
        state.place, state.here = place, True
        self._left.pop(place.number, None)
        self.set_aside_now.discard(place.number)
        if state.aside_until:
            self.set_aside_now.add(place.number)
        self._note_room(state)
        return is_back

    def leave(self, number: int, now: float) -> list[Entry]:
        """Remove a place; return the entries that it holds."""
        state = self.states[number]
        state.here, state.left_s = False, now
        self._note_no_room(number)
        self.set_aside_now.discard(number)
        self._left[number] = None
        if len(self._left) > _MOST_LEFT:
            self._forget(next(iter(self._left)))
        return list(state.out)

    def _forget(self, number: int) -> None:
        for known in (self.states, self._left):
            known.pop(number, None)
        for groups in (self._idle, self._free):
            groups.forget(number)

    def here(self) -> Iterator[Place]:
        """Return the places that take part, set aside or not."""
        return (state.place for state in self.states.values() if state.here)

    def able(self, needs: Needs) -> Iterator[Place]:
        """Return the places that can do such work and are not set aside."""
        return (
            state.place
            for state in self.states.values()
            if state.here and not state.aside_until and state.place.suits(needs)
        )

    # ---- room

    def some_idle(self, needs: Needs) -> bool:
        """Whether a place could start such work at once."""
        return any(True for _ in self._idle.suiting(needs))

    def with_room(self, needs: Needs) -> Iterator[PlaceState[Entry]]:
        """Yield the places for such work: those that could start it, or else could hold it."""
        groups = self._idle if self.some_idle(needs) else self._free
        return (self.states[number] for number in groups.suiting(needs))

    def give(self, state: PlaceState[Entry], entry: Entry) -> None:
        """Let a place hold an entry."""
        state.out.add(entry)
        self._note_no_room(state.place.number)
        self._note_room(state)

    def take_back(self, state: PlaceState[Entry], entry: Entry) -> None:
        """Let a place hold an entry no more."""
        state.out.discard(entry)
        self._note_room(state)

    def _note_room(self, state: PlaceState[Entry]) -> None:
        if not state.here or state.aside_until:
            return
        if state.has_room:
            self._free.add(state.place)
        if state.is_idle:
            self._idle.add(state.place)

    def _note_no_room(self, number: int) -> None:
        self._idle.discard(number)
        self._free.discard(number)

    # ---- places that are set aside

    def set_aside(self, number: int, reason: str, now: float, for_good: bool = False) -> None:
        """Give a place nothing for a while, longer each time."""
        state = self.states[number]
        state.reason = reason
        state.aside_until = float("inf") if for_good else now + state.aside_s
        state.aside_s = min(2 * state.aside_s, _MOST_ASIDE_S)
        self._note_no_room(number)
        if state.here:
            self.set_aside_now.add(number)
        self._changes.append((state.place.name, reason))

    def readmit(self, state: PlaceState[Entry]) -> None:
        """Let a place that was set aside take part again, as it succeeded."""
        if state.aside_until:
            state.aside_until, state.strikes, state.reason = 0.0, 0, ""
            self._changes.append((state.place.name, ""))
            self.set_aside_now.discard(state.place.number)
            self._note_room(state)

    def changes(self) -> list[tuple[str, str]]:
        """Return the changes since the last call: names of places, and why each was set aside.

        The reason is empty for a place that takes part again.
        """
        changes, self._changes = self._changes, []
        return changes

    def why_aside(self, number: int) -> str:
        """Return why a place is set aside; empty where it is not."""
        state = self.states[number]
        return state.reason if state.aside_until else ""

    def aside_for(self, needs: Needs) -> dict[str, str]:
        """Return why places that could do such work are set aside, by name of the place."""
        return {
            state.place.name: state.reason
            for state in self.states.values()
            if state.here and state.aside_until and state.place.suits(needs)
        }
