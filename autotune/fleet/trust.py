"""Which failures of a fleet are believed: the trial may be to blame, or the place where it failed.

A failure is the trial's own if its place succeeds afterwards, or if a second place reports the
same failure. Places that report different failures confirm nothing: a broken device fails whatever
it is given, also what has another fault. A place that is away for a moment is waited for, as the
only one left may be the broken one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Generic

from autotune.fleet.places import Entry, PlaceState, Verdict

# So many failures in a row at one place must be confirmed by another.
_ROW = 2
# One in so many failures is repeated at another place as a sample.
_SAMPLE = 8
# A place is set aside after so many of its failures passed elsewhere.
STRIKES = 2


@dataclass
class Ruling(Generic[Entry]):
    """What is decided about failures.

    Attributes:
        final: entries whose outcomes are final.
        again: entries that another place has to repeat.
    """

    final: list[Entry] = field(default_factory=list)
    again: list[Entry] = field(default_factory=list)


class Trust(Generic[Entry]):
    """The entries that failed and whose failures are not yet believed.

    Args:
        states: all places, which the policy changes.
        works: whether a place runs entries, or will get some of those that wait.
        confirm_s: seconds that a failure waits for places that are away and may confirm it.
    """

    def __init__(
        self,
        states: Mapping[int, PlaceState[Entry]],
        works: Callable[[PlaceState[Entry]], bool],
        confirm_s: float,
    ) -> None:
        self._states, self._works, self._confirm_s = states, works, confirm_s
        self._held: dict[Entry, None] = {}

    def passed(self, number: int) -> list[Entry]:
        """Record that a place succeeded; return the entries whose failures there are believed."""
        state = self._states[number]
        state.passes += 1
        return [self._final(entry, number) for entry in list(state.suspects)]

    def failed(self, number: int, entry: Entry, failure: int, now: float) -> Ruling[Entry]:
        """Record a failure, whose outcome the entry has, and decide what is known by it."""
        state = self._states[number]
        state.failures += 1
        entry.verdicts[number] = Verdict(failure, entry.outcome, state.passes)
        same = [one for one, verdict in entry.verdicts.items() if verdict.failure == failure]
        if len(same) > 1:
            return Ruling([self._final(entry, self._most_trusted(same))])
        self.hold(entry)
        sample = not state.failures % _SAMPLE
        doubted = len(state.suspects) >= _ROW or sample or bool(state.aside_until)
        if doubted or len(entry.verdicts) > 1 or not self.has_witness(entry, now):
            return self._rule(state.suspects, now)
        return Ruling()

    def hold(self, entry: Entry) -> None:
        """Keep an entry that failed until more is known of its failure."""
        self._held[entry] = None
        for state in self._accusers(entry):
            if entry not in state.suspects:
                state.suspects.append(entry)

    def withdraw(self, number: int) -> list[Entry]:
        """Drop what a place that left said last; return entries that no other place has failed."""
        state = self._states[number]
        again = []
        for entry in list(state.suspects):
            del entry.verdicts[number]
            if not entry.verdicts:
                self._let_go(entry)
                again.append(entry)
        state.suspects = []
        return again

    def settle(self, now: float) -> Ruling[Entry]:
        """Decide about entries whose places have nothing left to prove themselves by.

        To be called regularly.
        """
        return self._rule([entry for entry in self._held if self._is_due(entry)], now)

    def _is_due(self, entry: Entry) -> bool:
        """Whether an entry waits for more than the next outcome of its place."""
        if entry.waited or len(entry.verdicts) > 1:
            return True
        accusers = self._accusers(entry)
        return not accusers or not all(state.out for state in accusers)

    def _rule(self, entries: Iterable[Entry], now: float) -> Ruling[Entry]:
        ruling: Ruling[Entry] = Ruling()
        for entry in list(entries):
            if self.has_witness(entry, now):
                self._let_go(entry)
                self._note_accusers(entry)
                ruling.again.append(entry)
            elif (proven := self._proven(entry)) is not None:
                ruling.final.append(self._final(entry, proven))
            elif self._is_awaited(entry, now):
                entry.waited = True
            elif not self._may_be_proven(entry):
                ruling.final.append(self._unconfirmed(entry))
        return ruling

    def has_witness(self, entry: Entry, now: float) -> bool:
        """Whether another place can repeat an entry that failed."""
        return any(self._can_confirm(state, now) for state in self._others(entry))

    @staticmethod
    def _can_confirm(state: PlaceState[Entry], now: float) -> bool:
        """Whether a place may repeat what others failed; one that is tried again now may."""
        if not state.here or not state.aside_until:
            return state.here
        return state.strikes < STRIKES and state.aside_until <= now

    def _is_awaited(self, entry: Entry, now: float) -> bool:
        """Whether another place that could repeat an entry may be there again soon."""
        for state in self._others(entry):
            if state.aside_until and state.strikes >= STRIKES:
                continue
            if not state.here and now - state.left_s < self._confirm_s:
                return True
            if state.here and 0 < state.aside_until - now <= self._confirm_s:
                return True
        return False

    def _may_be_proven(self, entry: Entry) -> bool:
        """Whether one of several places, which failed an entry differently, has work to pass."""
        return len(entry.verdicts) > 1 and any(
            state.here and not state.aside_until and self._works(state)
            for state in self._accusers(entry)
        )

    def _proven(self, entry: Entry) -> int | None:
        """Return a place that failed an entry and has passed another since."""
        for state in self._accusers(entry):
            if state.passes > entry.verdicts[state.place.number].passes:
                return state.place.number
        return None

    def _unconfirmed(self, entry: Entry) -> Entry:
        """Make the failure of an entry final of which it is not known who is to blame."""
        names = " and ".join(state.place.name for state in self._accusers(entry))
        names = names or "a worker that has left"
        if len(entry.verdicts) > 1:
            entry.unconfirmed = (
                f"{names} failed it in different ways and passed nothing afterwards"
            )
        elif entry.waited:
            entry.unconfirmed = (
                f"{names} passed nothing afterwards, and no other worker was there to repeat it"
            )
        return self._final(entry, self._most_trusted(entry.verdicts))

    def _most_trusted(self, numbers: Iterable[int]) -> int:
        """Return the place of several that is believed most, the first of equal ones."""

        def distrust(number: int) -> tuple[bool, int, int]:
            state = self._states.get(number)
            return (True, 0, 0) if state is None else _distrust(state)

        return min(numbers, key=distrust)

    def _final(self, entry: Entry, number: int) -> Entry:
        """Give an entry the outcome that it had at a place."""
        self._let_go(entry)
        entry.outcome = entry.verdicts[number].outcome
        return entry

    def _let_go(self, entry: Entry) -> None:
        self._held.pop(entry, None)
        for state in self._accusers(entry):
            if entry in state.suspects:
                state.suspects.remove(entry)

    def _note_accusers(self, entry: Entry) -> None:
        """Let an entry go to other hosts than those on which it failed, if there are any."""
        entry.avoid.update(state.place.agent for state in self._accusers(entry))

    def _accusers(self, entry: Entry) -> list[PlaceState[Entry]]:
        """Return the places that failed an entry, but for those that are forgotten."""
        return [self._states[one] for one in entry.verdicts if one in self._states]

    def _others(self, entry: Entry) -> Iterable[PlaceState[Entry]]:
        """Return the other places that suit an entry, here or away."""
        return (
            state
            for number, state in self._states.items()
            if number not in entry.verdicts and state.place.suits(entry.needs)
        )


def _distrust(state: PlaceState[Entry]) -> tuple[bool, int, int]:
    return bool(state.aside_until), state.strikes, -state.passes
