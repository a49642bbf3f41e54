"""The trials of a run that succeeded, and the race between the best of them at its end."""

from __future__ import annotations

import logging

from autotune.errors import MeasureError
from autotune.measure import Session
from autotune.measure.types import Pair
from autotune.record.best import beaten_by
from autotune.tuner.finalists import finalists, measured_default, run_off, with_default
from autotune.workload import Candidate, Workload

logger = logging.getLogger("autotvm")


class FinalRace:
    """Lets the best trials of one run decide side by side which of them is the fastest.

    Args:
        workload: what is tuned.
        most: trials that race at most; 0 or 1 for no race.

    Attributes:
        trials: those that succeeded, in the order in which they were proposed.
        default: the default configuration and what it took; None where nobody measured it.
    """

    def __init__(self, workload: Workload, most: int) -> None:
        self.trials: list[Pair] = []
        self.default: Pair | None = None
        self._workload = workload
        self._most = most
        # Keys that a race has put behind its winner.
        self._decided: set[str] = set()

    def best_candidates(self, most: int) -> list[Candidate]:
        """Return the fastest candidates so far, the best first."""
        best = sorted(self.trials, key=lambda pair: (pair[1].seconds, pair[0].key))
        return [inp.config for inp, _ in best[:most]]

    def decide(self, winner: Pair) -> None:
        """Take note of the best trial; where it won a race, those it beat need no other."""
        self._decided = beaten_by(winner[1])

    def field(self, session: Session) -> list[Pair]:
        """Return the trials that a race must decide between; none when there is no such need."""
        field = finalists(self.trials, self._most)
        decided = self._decided.issuperset(inp.key for inp, _ in field)
        wanted = self._most > 1 and not decided
        return field if wanted and session.runner.can_race else []

    def hold(self, session: Session) -> Pair | None:
        """Let the best trials run side by side; return the winner, None where no race was held."""
        field = self.field(session)
        if not field:
            return None
        session.prepare(self._workload)
        try:
            self.default = measured_default(self._workload, self.trials, session)
            field = with_default(field, self.default)
            if len(field) < 2:
                return None
            winner = run_off(field, self.trials, session, self.default)
        except MeasureError as error:
            logger.warning("the best trials could not be raced, the fastest stays: %s", error)
            return None
        self.decide(winner)
        return winner
