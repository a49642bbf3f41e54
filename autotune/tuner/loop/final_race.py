"""The trials of a run that succeeded, and the race between the best of them at its end."""

from __future__ import annotations

import logging

from autotune.errors import MeasureError
from autotune.measure import Session
from autotune.measure.objective import TIME, Objective
from autotune.measure.types import Pair
from autotune.record.best import beaten_by
from autotune.tuner.loop.finalists import (
    finalists,
    measured_default,
    race_finalists,
    tried_default,
    unopposed,
    with_default,
)
from autotune.workload import Candidate, Workload

logger = logging.getLogger("autotvm")

_EMULATED = "there was no final race: how long the emulator takes says little of a GPU"


class FinalRace:
    """Decides by interleaved timing which of the best trials of a run is the fastest.

    Args:
        workload: the workload to be tuned.
        most: the most trials that take part; 0 or 1 for no race.
        objective: what is minimised; only times are raced.

    Attributes:
        trials: the trials that succeeded, in the order in which they were proposed.
    """

    def __init__(self, workload: Workload, most: int, objective: Objective = TIME) -> None:
        self.trials: list[Pair] = []
        self._measured_default: Pair | None = None
        self._workload = workload
        self._most = most
        self._objective = objective
        # Keys that a race has put behind its winner.
        self._decided: set[str] = set()

    def best_candidates(self, most: int) -> list[Candidate]:
        """Return the best candidates so far, the best first."""
        best = sorted(self.trials, key=lambda pair: (self._objective.cost(*pair), pair[0].key))
        return [inp.config for inp, _ in best[:most]]

    def decide(self, winner: Pair) -> None:
        """Record the best trial; where it won a race, those it beat need no other."""
        self._decided = beaten_by(winner[1])

    @property
    def default(self) -> Pair | None:
        """The default configuration and its time, by its trial where there was no race."""
        return self._measured_default or tried_default(self._workload, self.trials)

    @property
    def note(self) -> str:
        """Why there was no race although trials succeeded; empty if there is nothing to report."""
        return _EMULATED if self._most > 1 and self.trials and self._is_emulated else ""

    @property
    def _is_emulated(self) -> bool:
        return self._workload.target is not None and self._workload.target.emulate

    def field(self, session: Session) -> list[Pair]:
        """Return the trials that a race must decide between; none when there is no such need.

        Where something else than time is minimised, this is the best trial, with which the default
        is compared.
        """
        if self._is_emulated:
            return []
        if self._objective is not TIME:
            known = [pair for pair in self.trials if self._objective.knows(*pair)]
            best = sorted(known, key=lambda pair: self._objective.cost(*pair))[:1]
            return best if self._most > 1 and session.runner.can_race else []
        field = finalists(self.trials, self._most)
        decided = self._decided.issuperset(inp.key for inp, _ in field)
        wanted = self._most > 1 and not decided
        return field if wanted and session.runner.can_race else []

    def hold(self, session: Session) -> Pair | None:
        """Let the best trials run side by side; return the winner, None where no race was held.

        A trial to which no other came close wins without running again where the time of the
        default is known, so that the log has that time.
        """
        field = self.field(session)
        if not field:
            return None
        session.prepare(self._workload)
        try:
            self._measured_default = measured_default(self._workload, self.trials, session)
            if self._objective is not TIME:
                return self._default_if_better(field[0])
            field = with_default(field, self._measured_default)
            if len(field) > 1 or _is_doubtful(field[0]):
                winner = race_finalists(field, self.trials, session, self._measured_default)
            elif self._measured_default is not None:
                winner = unopposed(field[0], self._measured_default)
            else:
                return None
        except MeasureError as error:
            logger.warning("the best trials could not be raced, the fastest stays: %s", error)
            return None
        self.decide(winner)
        return winner

    def _default_if_better(self, best: Pair) -> Pair | None:
        """Return the default if it was measured and is better than the best trial."""
        cost, default = self._objective.cost, self._measured_default
        return default if default is not None and cost(*default) < cost(*best) else None


def _is_doubtful(trial: Pair) -> bool:
    """Return whether threads of a trial lost their cores, so that it took longer than it does."""
    evidence = trial[1].evidence
    return bool(evidence.preempted) and evidence.clock != "cpu"
