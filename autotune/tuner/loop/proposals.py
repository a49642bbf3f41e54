"""The queue of proposals: left from an earlier run, suggested by the user, and new ones."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from autotune.measure import MeasureInput, Pipeline
from autotune.measure.interfaces import target_of
from autotune.tuner.loop.scoreboard import Scoreboard
from autotune.tuner.loop.screening import Screening
from autotune.tuner.loop.strategy import Strategy
from autotune.workload import Candidate


class Proposals:
    """Candidates on their way to become trials, the next one first.

    Those that wait are the scoreboard's `cut_off`, so what a run does not come to is there for the
    next run of the same strategy.

    Args:
        strategy: proposes where nothing waits.
        scoreboard: of the run.
        screened: whether proposals that cannot run are left out, see `Screening`.

    Attributes:
        screening: what is known of those that cannot run.
    """

    def __init__(self, strategy: Strategy, scoreboard: Scoreboard, screened: bool) -> None:
        self._strategy = strategy
        self._workload = scoreboard.workload
        self._waiting = scoreboard.cut_off
        self._tried: set[str] = set()
        self._suggested: set[str] = set()
        self.screening = Screening(strategy, scoreboard, active=screened)

    @property
    def exhausted(self) -> bool:
        """Whether nothing waits, and the strategy has nothing left to propose."""
        return not self._waiting and self._strategy.exhausted

    def count_left(self, most: int) -> int:
        """Return how many proposals are still to come, up to ``most``, as far as is known."""
        count = getattr(self._strategy, "count_left", lambda most: None)(most)
        return most if count is None else min(most, len(self._waiting) + count)

    def suggest(self, candidates: Iterable[Candidate]) -> None:
        """Let candidates be tried before the strategy proposes; those tried are left out."""
        known = {one.key for one in self._waiting} | self._tried
        for one in candidates:
            if one.key not in known:
                known.add(one.key)
                self._suggested.add(one.key)
                self._waiting.append(one)

    def give_back(self, candidates: Iterable[Candidate]) -> None:
        """Let candidates whose trials were cut off be tried again."""
        self._waiting += candidates

    def drop(self, keys: Collection[str]) -> None:
        """Let none of these be tried that wait."""
        self._waiting[:] = [one for one in self._waiting if one.key not in keys]

    def note_tried(self, key: str) -> None:
        """Record that a candidate was measured."""
        self._tried.add(key)

    def first(self, line: Pipeline, most: int) -> MeasureInput | None:
        """Return the next proposal, which stays so until it is screened; None if none is left.

        Args:
            line: what measures; the strategy learns and proposes in its `host_work`.
            most: how many the strategy is asked for where nothing waits.
        """
        if not self._waiting and not self._propose(line, most):
            return None
        return MeasureInput(target_of(self._workload), self._workload, self._waiting[0])

    def passes(self, line: Pipeline, first: MeasureInput) -> bool:
        """Return whether the next proposal may become a trial; either way it waits no more."""
        passes = self.screening.passes(line, first)
        del self._waiting[0]
        return passes

    def _propose(self, line: Pipeline, most: int) -> bool:
        """Let the strategy propose; say whether it did."""
        self.screening.teach(line)
        if self.screening.hopeless or self._strategy.exhausted:
            return False
        with line.host_work():
            # A strategy learns of what was suggested when that was measured, and not before.
            while not self._waiting and (asked := self._strategy.ask(most)):
                on_the_way = self._suggested - self._tried
                self._waiting += [one for one in asked if one.key not in on_the_way]
        return bool(self._waiting)
