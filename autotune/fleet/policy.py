"""The decisions of a fleet as pure functions: which worker does which job, and which to trust.

Nothing here has threads, clocks or connections; seconds are passed in. `autotune.fleet.queue` is
the shell that does what is decided here, and a simulation can drive it as well.

- *Placing*: a place with a free slot takes the oldest entry that fits it, one place after the
  other. It takes one that has to wait there only when no other place that fits could begin it.
- *Leases*: an entry that is out has an attempt's number. When its place is lost the entry goes
  back to the front, and what comes of the old attempt later is not asked for. One that lost places
  several times is given to a place alone, later each time, and to blame when that is lost as well.
- *Trust*: a failure is believed when its place succeeds afterwards. One that follows another, the
  last before a pause, and each eighth as a sample, get a second opinion from another worker. Who
  fails what others pass is set aside, for a growing time, with its reason.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from autotune.fleet.groups import Groups
from autotune.fleet.places import Entry, Needs, Place

# Failures in a row of one place that are not believed without another's word.
_ROW = 2
# Each so many failures one is given to another place, though it would be believed.
_SAMPLE = 8
# Verdicts of others by which a place is set aside, and for how long at first and at most.
_STRIKES = 2
ASIDE_S, _MOST_ASIDE_S = 15.0, 960.0
# Entries looked at for one that a place may take.
_LOOK = 32
# Places that left and are remembered, with why they were set aside.
_MOST_LEFT = 256


@dataclass
class _State:
    """The state of one place.

    Attributes:
        out: entries that it has.
        suspects: entries that failed here since it last succeeded, whose failure is not told yet.
        failures: how many failed here in all.
        strikes: how often another passed what failed here, or it could not begin.
        aside_until: when it is tried again; 0 while it takes part.
    """

    place: Place
    out: set[Entry] = field(default_factory=set)
    suspects: list[Entry] = field(default_factory=list)
    failures: int = 0
    strikes: int = 0
    aside_until: float = 0.0
    aside_s: float = ASIDE_S
    reason: str = ""
    here: bool = True

    @property
    def has_room(self) -> bool:
        """Whether it may have one more entry."""
        return len(self.out) < self.place.slots and not any(one.alone for one in self.out)

    @property
    def is_idle(self) -> bool:
        """Whether it could begin one more entry at once."""
        return len(self.out) < self.place.lanes and self.has_room


class Policy:
    """All places and entries of a fleet. Not for several threads at once."""

    def __init__(self) -> None:
        self._states: dict[int, _State] = {}
        self._lines: dict[Needs, deque[Entry]] = {}
        # Places that could begin something, and that have room; who waited longest is first.
        self._idle, self._free = Groups(), Groups()
        # Places that left, by when they did.
        self._left: dict[int, None] = {}
        # Those set aside, and those with failures that are not told yet.
        self._aside: set[int] = set()
        self._doubted: set[int] = set()
        self._changes: list[tuple[str, str]] = []
        # Since when nobody can do what has such needs.
        self._stranded: dict[Needs, float] = {}

    # ---- places

    def join(self, place: Place) -> None:
        """Let a place take part, or take part again."""
        state = self._states.setdefault(place.number, _State(place))
        state.place, state.here = place, True
        self._left.pop(place.number, None)
        self._aside.discard(place.number)
        if state.aside_until:
            self._aside.add(place.number)
        self._note_idle(state)

    def leave(self, number: int, now: float) -> list[Entry]:
        """Go without a place; what it had is waiting again, and returned.

        What failed there without being believed yet is done again, too.
        """
        state = self._states[number]
        state.here = False
        self._not_free(number)
        self._aside.discard(number)
        gone = list(state.out)
        for entry in gone:
            self.lost(number, entry, now)
        suspects, state.suspects = state.suspects, []
        for entry in suspects:
            self.put(entry, first=True)
        self._left[number] = None
        if len(self._left) > _MOST_LEFT:
            self._forget_place(next(iter(self._left)))
        return gone

    def _forget_place(self, number: int) -> None:
        for known in (self._states, self._left):
            known.pop(number, None)
        self._doubted.discard(number)
        for groups in (self._idle, self._free):
            groups.forget(number)

    def set_aside(self, number: int, reason: str, now: float, for_good: bool = False) -> None:
        """Give a place nothing for a while, longer each time."""
        state = self._states[number]
        state.reason = reason
        state.aside_until = float("inf") if for_good else now + state.aside_s
        state.aside_s = min(2 * state.aside_s, _MOST_ASIDE_S)
        self._not_free(number)
        if state.here:
            self._aside.add(number)
        self._changes.append((state.place.name, reason))

    def changes(self) -> list[tuple[str, str]]:
        """Return who was set aside since this was asked last, and why; "" who takes part again."""
        changes, self._changes = self._changes, []
        return changes

    def aside(self, number: int) -> str:
        """Return why a place is set aside; empty where it is not."""
        state = self._states[number]
        return state.reason if state.aside_until else ""

    def able(self, needs: Needs) -> Iterator[Place]:
        """Return the places that can do such work and are not set aside."""
        return (
            state.place
            for state in self._states.values()
            if state.here and not state.aside_until and state.place.suits(needs)
        )

    def here(self) -> Iterator[Place]:
        """Return the places that take part, set aside or not."""
        return (state.place for state in self._states.values() if state.here)

    def out(self, number: int) -> int:
        """Return how many entries a place has."""
        return len(self._states[number].out)

    # ---- entries

    def put(self, entry: Entry, first: bool = False) -> None:
        """Let an entry wait for a place."""
        line = self._lines.setdefault(entry.needs, deque())
        line.appendleft(entry) if first else line.append(entry)

    def forget(self, number: int, entry: Entry) -> None:
        """Take back an entry that nobody wants any more."""
        if number in self._states:
            self._back(self._states[number], entry)

    def drop(self, entry: Entry) -> None:
        """Forget an entry that waits."""
        line = self._lines.get(entry.needs)
        if line is not None and entry in line:
            line.remove(entry)

    @property
    def waiting(self) -> int:
        """The number of entries that wait."""
        return sum(len(line) for line in self._lines.values())

    def next(self, now: float) -> tuple[int, Entry] | None:
        """Return a place and its next work; None where nothing can be started."""
        if not any(self._lines.values()):
            return None
        for needs, line in self._lines.items():
            found = self._placed(needs, line, now) if line else None
            if found is not None:
                self._give(*found)
                return found
        for number in self._aside:
            entry = self.take(number, now)
            if entry is not None:
                return number, entry
        return None

    def _placed(self, needs: Needs, line: deque[Entry], now: float) -> tuple[int, Entry] | None:
        """Return a place with a free slot and the oldest entry of a line that it may have."""
        some_idle = any(True for _ in self._idle.suiting(needs))
        for number in (self._idle if some_idle else self._free).suiting(needs):
            entry = self._fitting(self._states[number], line, now)
            if entry is not None:
                return number, entry
        return None

    def take(self, number: int, now: float) -> Entry | None:
        """Return the next work of a place, if any, and assign it."""
        state = self._states[number]
        if not state.here or not state.has_room:
            return None
        if state.aside_until and (now < state.aside_until or state.out):
            return None  # when its time is over, one entry is a test
        for needs, line in self._lines.items():
            if line and state.place.suits(needs) and not self._others_idle(state, needs):
                entry = self._fitting(state, line, now)
                if entry is not None:
                    self._give(number, entry)
                    return entry
        return None

    def _give(self, number: int, entry: Entry) -> None:
        """Let a place have an entry that waits."""
        state = self._states[number]
        self._lines[entry.needs].remove(entry)
        entry.attempt += 1
        state.out.add(entry)
        self._not_free(number)
        self._note_idle(state)

    def _others_idle(self, state: _State, needs: Needs) -> bool:
        """Whether a place that has work leaves it to one that could begin it."""
        return not state.is_idle and any(True for _ in self._idle.suiting(needs))

    def _fitting(self, state: _State, line: deque[Entry], now: float) -> Entry | None:
        """Return the oldest entry that a place may have."""
        for entry, _ in zip(line, range(_LOOK), strict=False):
            if entry.not_before > now or (entry.alone and state.out):
                continue
            if state.place.agent not in entry.avoid or not self._others(entry):
                return entry
        return None

    def _others(self, entry: Entry) -> bool:
        """Whether somebody can do an entry who is not to be avoided."""
        return any(place.agent not in entry.avoid for place in self.able(entry.needs))

    # ---- what came of them

    def ended(self, number: int, entry: Entry, bad: bool, now: float) -> list[Entry]:
        """Take note of an outcome; return the entries whose outcomes are to be told now.

        Args:
            number: of the place.
            entry: it had this.
            bad: whether it failed, in a way that may be the place's fault.
            now: seconds.
        """
        state = self._states[number]
        self._back(state, entry)
        if not bad:
            told = [*state.suspects, entry]
            state.suspects = []
            self._clear(state)
            self._strike(entry, now)
        elif entry.accused_by is not None:
            told = [entry]  # two say so
        else:
            told = []
            state.failures += 1
            state.suspects.append(entry)
            self._doubted.add(number)
            sample = not state.failures % _SAMPLE
            alone = not self._others_than(number, entry)
            if len(state.suspects) >= _ROW or sample or alone or state.aside_until:
                told = self._ask_others(state)
        return told

    def settle(self) -> list[Entry]:
        """Ask others about what failed at places that do nothing by which their word is proved.

        To be called now and then.

        Returns:
            The entries whose outcomes are to be told now.
        """
        told = []
        for number in list(self._doubted):
            state = self._states[number]
            if not state.suspects:
                self._doubted.discard(number)
            elif not state.out:
                told += self._ask_others(state)
        return told

    def holds(self, number: int, entry: Entry, attempt: int) -> bool:
        """Whether a place still has an entry, in this very attempt."""
        state = self._states.get(number)
        return state is not None and entry.attempt == attempt and entry in state.out

    def _others_than(self, number: int, entry: Entry) -> list[Place]:
        return [place for place in self.able(entry.needs) if place.number != number]

    def _ask_others(self, state: _State) -> list[Entry]:
        """Give what failed at a place to others; return what nobody else can do."""
        suspects, state.suspects = state.suspects, []
        told = []
        for entry in suspects:
            number, agent = state.place.number, state.place.agent
            others = self._others_than(number, entry)
            if not others:
                told.append(entry)
                continue
            entry.accused_by = number
            if any(place.agent != agent for place in others):
                entry.avoid.add(agent)
            self.put(entry, first=True)
        return told

    def _strike(self, entry: Entry, now: float) -> None:
        """Take note that an entry was passed by one place that another failed."""
        if entry.accused_by is None or entry.accused_by not in self._states:
            return
        accuser = self._states[entry.accused_by]
        accuser.strikes += 1
        if accuser.strikes >= _STRIKES:
            reason = f"it failed {accuser.strikes} trials that others passed"
            self.set_aside(entry.accused_by, reason, now)

    def lost(self, number: int, entry: Entry, now: float) -> None:
        """Take note that a place was lost with an entry, which waits again."""
        entry.note_lost(now)
        self._back(self._states[number], entry)
        self.put(entry, first=True)

    def unable(
        self, number: int, entry: Entry, reason: str, now: float, for_good: bool = False
    ) -> None:
        """Take note that a place could not begin with an entry, which waits for another."""
        state = self._states[number]
        self._back(state, entry)
        entry.avoid.add(state.place.agent)
        self.set_aside(number, reason, now, for_good)
        self.put(entry, first=True)

    def _back(self, state: _State, entry: Entry) -> None:
        state.out.discard(entry)
        self._note_idle(state)

    def _clear(self, state: _State) -> None:
        """Take note that a place succeeded."""
        if state.aside_until:
            state.aside_until, state.strikes, state.reason = 0.0, 0, ""
            self._changes.append((state.place.name, ""))
            self._aside.discard(state.place.number)
            self._note_idle(state)

    def _note_idle(self, state: _State) -> None:
        if not state.here or state.aside_until:
            return
        if state.has_room:
            self._free.add(state.place)
        if state.is_idle:
            self._idle.add(state.place)

    def _not_free(self, number: int) -> None:
        self._idle.discard(number)
        self._free.discard(number)

    # ---- nobody

    def stranded(self, now: float) -> dict[Needs, float]:
        """Return for how many seconds there was nobody who can do what waits, by needs."""
        waiting = [needs for needs, line in self._lines.items() if line]
        lacking = [needs for needs in waiting if next(self.able(needs), None) is None]
        self._stranded = {needs: self._stranded.get(needs, now) for needs in lacking}
        return {needs: now - since for needs, since in self._stranded.items()}

    def waiting_for(self, needs: Needs) -> list[Entry]:
        """Take all entries with these needs out of the line and return them."""
        return list(self._lines.pop(needs, ()))

    def why_aside(self, needs: Needs) -> dict[str, str]:
        """Return why places that could do such work do not: by their names."""
        return {
            state.place.name: state.reason
            for state in self._states.values()
            if state.here and state.aside_until and state.place.suits(needs)
        }


__all__ = ["ASIDE_S", "Entry", "Needs", "Place", "Policy"]
