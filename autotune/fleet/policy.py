"""The decisions of a fleet: which worker does which job, and which to trust.

Nothing here has threads, clocks or connections; seconds are passed in. `autotune.fleet.queue` does
what is decided here, and a simulation can drive it as well. The places are in a `Roster`.

- *Placing*: a place with a free slot takes the oldest entry that fits it, one place after the
  other. It takes one that has to wait there only when no other place that fits could begin it.
- *Leases*: each start of an entry has an attempt number. When its place is lost, the entry returns
  to the front of the queue, and a late outcome of the old attempt is ignored. An entry that lost
  several places is given a place for itself, later each time; if these are lost too, the entry is
  to blame.
- *Trust*: a failure is believed if its place succeeds afterwards. Failures in a row, the last one
  before a pause, and every eighth as a sample are confirmed by another worker. A place that fails
  what others pass is set aside, each time for longer, and the reason is logged. What is believed
  of failures is decided by `autotune.fleet.trust`.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Iterator
from typing import Generic

from autotune.fleet.places import ASIDE_S, Entry, Needs, Place, PlaceState, QueuedJob
from autotune.fleet.roster import Roster
from autotune.fleet.trust import STRIKES, Ruling, Trust

# At most so many entries of a queue are looked at for one that a place may take.
_LOOK = 32


class Policy(Generic[Entry]):
    """Gives entries of one kind of `QueuedJob` to the places of a fleet. Not thread-safe.

    Args:
        confirm_s: seconds that a failure waits for places that are away and may confirm it.

    Attributes:
        roster: the places.
    """

    def __init__(self, confirm_s: float = 0.0) -> None:
        self.roster: Roster[Entry] = Roster()
        self._trust: Trust[Entry] = Trust(self.roster.states, self._works, confirm_s)
        self._lines: dict[Needs, deque[Entry]] = {}
        # The time since which no place can run entries with these needs.
        self._stranded: dict[Needs, float] = {}

    # ---- places

    def join(self, place: Place) -> None:
        """Let a place take part, or take part again."""
        if self.roster.join(place):
            for entry in self._entries():
                entry.note_back(place.number)

    def _entries(self) -> Iterator[Entry]:
        """Return all entries that wait or are under way."""
        yield from itertools.chain(*self._lines.values())
        for state in self.roster.states.values():
            yield from state.out

    def leave(self, number: int, now: float) -> list[Entry]:
        """Remove a place; return the entries that it held, which wait again.

        Entries whose failure there is not confirmed are repeated elsewhere as well.
        """
        gone = self.roster.leave(number, now)
        for entry in gone:
            self.lost(number, entry, now)
        for entry in self._trust.withdraw(number):
            self.put(entry, first=True)
        return gone

    # ---- entries

    def put(self, entry: Entry, first: bool = False) -> None:
        """Add an entry to the queue, at its end or as the first."""
        line = self._lines.setdefault(entry.needs, deque())
        line.appendleft(entry) if first else line.append(entry)

    def forget(self, number: int, entry: Entry) -> None:
        """Remove an entry from the place that holds it, as it is no longer wanted."""
        state = self.roster.states.get(number)
        if state is not None:
            self.roster.take_back(state, entry)

    def drop(self, entry: Entry) -> None:
        """Remove an entry from the queue."""
        line = self._lines.get(entry.needs)
        if line is not None and entry in line:
            line.remove(entry)

    @property
    def waiting(self) -> int:
        """The number of entries that wait."""
        return sum(len(line) for line in self._lines.values())

    def next(self, now: float) -> tuple[int, Entry] | None:
        """Return a place and its next work; None where nothing can be started."""
        waiting = [(needs, line) for needs, line in self._lines.items() if line]
        if not waiting:
            return None
        for needs, line in waiting:
            for state in self.roster.with_room(needs):
                if (fitting := self._fitting(state, line, now)) is not None:
                    self._give(state, fitting)
                    return state.place.number, fitting
        for number in self.roster.set_aside_now:
            if (entry := self.take(number, now)) is not None:
                return number, entry
        return None

    def take(self, number: int, now: float) -> Entry | None:
        """Return the next work of a place, if any, and assign it."""
        state = self.roster.states[number]
        if not state.here or not state.has_room:
            return None
        if state.aside_until and (now < state.aside_until or state.out):
            return None  # afterwards it gets one entry as a test
        for needs, line in self._lines.items():
            if line and state.place.suits(needs) and not self._others_idle(state, needs):
                entry = self._fitting(state, line, now)
                if entry is not None:
                    self._give(state, entry)
                    return entry
        return None

    def _give(self, state: PlaceState[Entry], entry: Entry) -> None:
        """Move an entry from the queue to a place."""
        self._lines[entry.needs].remove(entry)
        entry.attempt += 1
        self.roster.give(state, entry)

    def _others_idle(self, state: PlaceState[Entry], needs: Needs) -> bool:
        """Whether a busy place leaves an entry to another that could start it at once."""
        return not state.is_idle and self.roster.some_idle(needs)

    def _fitting(self, state: PlaceState[Entry], line: deque[Entry], now: float) -> Entry | None:
        """Return the oldest entry that a place may take."""
        for entry, _ in zip(line, range(_LOOK), strict=False):
            if entry.not_before > now or (entry.alone and state.out):
                continue
            if state.place.number in entry.verdicts:
                continue
            if state.place.agent not in entry.avoid or not self._others(entry):
                return entry
        return None

    def _others(self, entry: Entry) -> bool:
        """Whether some place can run an entry other than those to be avoided."""
        return any(place.agent not in entry.avoid for place in self.roster.able(entry.needs))

    # ---- outcomes

    def ended(self, number: int, entry: Entry, failure: int, now: float) -> list[Entry]:
        """Record an outcome; return the entries whose outcomes are final now.

        Args:
            number: number of the place.
            entry: the entry that ended there, with its outcome.
            failure: number of the error, if it failed in a way for which the place may be to
                blame; 0 otherwise.
            now: the time in seconds.
        """
        state = self.roster.states[number]
        self.roster.take_back(state, entry)
        if failure:
            return self._carry_out(self._trust.failed(number, entry, failure, now))
        believed = self._trust.passed(number)
        self.roster.readmit(state)
        self._strike(entry, now)
        return [*believed, entry]

    def settle(self, now: float) -> list[Entry]:
        """Decide about failures that no other outcome of their places will explain.

        To be called regularly.

        Returns:
            The entries whose outcomes are final now.
        """
        for line in self._lines.values():
            for entry in [one for one in line if one.verdicts]:
                if not self._trust.has_witness(entry, now):  # those who could repeat it have left
                    line.remove(entry)
                    self._trust.hold(entry)
        return self._carry_out(self._trust.settle(now))

    def _carry_out(self, ruling: Ruling[Entry]) -> list[Entry]:
        for entry in ruling.again:
            self.put(entry, first=True)
        return ruling.final

    def _works(self, state: PlaceState[Entry]) -> bool:
        """Whether a place runs entries, or will get some of those that wait."""
        lines = self._lines.items()
        return bool(state.out) or any(line and state.place.suits(needs) for needs, line in lines)

    def holds(self, number: int, entry: Entry, attempt: int) -> bool:
        """Whether a place still holds an entry in this attempt."""
        state = self.roster.states.get(number)
        return state is not None and entry.attempt == attempt and entry in state.out

    def _strike(self, entry: Entry, now: float) -> None:
        """Record that an entry passed at one place after it had failed at others.

        What a place had failed before it was set aside is no reason to set it aside for longer.
        """
        for number in entry.verdicts:
            accuser = self.roster.states.get(number)
            if accuser is None or accuser.aside_until > now:
                continue
            accuser.strikes += 1
            if accuser.strikes >= STRIKES:
                reason = f"it failed {accuser.strikes} trials that others passed"
                self.roster.set_aside(number, reason, now)

    def lost(self, number: int, entry: Entry, now: float) -> None:
        """Record that a place was lost with an entry, which waits again."""
        entry.note_lost(number, now)
        self.roster.take_back(self.roster.states[number], entry)
        self.put(entry, first=True)

    def unable(
        self, number: int, entry: Entry, reason: str, now: float, for_good: bool = False
    ) -> None:
        """Record that a place could not start an entry, which waits for another place."""
        state = self.roster.states[number]
        self.roster.take_back(state, entry)
        entry.avoid.add(state.place.agent)
        self.roster.set_aside(number, reason, now, for_good)
        self.put(entry, first=True)

    # ---- work that no place can do

    def stranded(self, now: float) -> dict[Needs, float]:
        """Return for how many seconds no place could run the waiting entries, by their needs."""
        waiting = [needs for needs, line in self._lines.items() if line]
        lacking = [needs for needs in waiting if next(self.roster.able(needs), None) is None]
        self._stranded = {needs: self._stranded.get(needs, now) for needs in lacking}
        return {needs: now - since for needs, since in self._stranded.items()}

    def waiting_for(self, needs: Needs) -> list[Entry]:
        """Remove all waiting entries with these needs and return them."""
        return list(self._lines.pop(needs, ()))


__all__ = ["ASIDE_S", "Needs", "Place", "Policy", "QueuedJob"]
