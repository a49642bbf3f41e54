"""Progress of the search of one task among several."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from autotune.auto_scheduler.problem.search_problem import SearchProblem
from autotune.auto_scheduler.search_policy import SearchPolicy
from autotune.measure.types import Pair
from autotune.tuner.loop.failures import Failures

# Rounds without a kernel that works, after which a task gets no more.
_HOPELESS = 2


@dataclass(eq=False)
class TaskProgress:
    """One task: its policy, and all that is known of its trials.

    Attributes:
        policy: proposes states of the task.
        weight: how often the network runs the task.
        trials: trials that were made, those of a loaded log included.
        best_by_round: seconds of the best trial after each round; infinite before a success.
        spent_s: time that its rounds took.
        best_trial: trials that were made when the best was found.
        finished: why the task gets no more trials; empty while it may.
        good: trials that succeeded.
        failures: what went wrong in the others.
    """

    policy: SearchPolicy
    weight: float
    trials: int = 0
    best_by_round: list[float] = field(default_factory=list)
    spent_s: float = 0.0
    best_trial: int = 0
    finished: str = ""
    good: list[Pair] = field(default_factory=list)
    failures: Failures = field(default_factory=Failures)
    _best_s: float = math.inf

    @property
    def task(self) -> SearchProblem:
        """The task that is searched."""
        return self.policy.task

    @property
    def seconds(self) -> float:
        """Seconds of one run of the best kernel; infinite where none works yet."""
        return self._best_s

    @property
    def rounds(self) -> int:
        """Rounds that have ended, those of a loaded log included."""
        return len(self.best_by_round)

    @property
    def round_s(self) -> float:
        """Seconds that a round takes, as far as that is known; else 0."""
        return self.spent_s / self.rounds if self.rounds else 0.0

    def recall(self, seconds: Iterable[float], per_round: int) -> None:
        """Record the trials of a log, as whole rounds; `math.inf` stands for a failure."""
        known = list(seconds)
        self.trials = len(known)
        self._best_s = min(known, default=math.inf)
        self.best_by_round = [self._best_s] * round(len(known) / per_round)

    def add(self, pairs: Sequence[Pair], spent_s: float) -> None:
        """Record a round that has ended."""
        for inp, result in pairs:
            self.trials += 1
            self.failures.add(result)
            if not result.ok:
                continue
            self.good.append((inp, result))
            if result.seconds < self._best_s:
                self._best_s, self.best_trial = result.seconds, self.trials
        self.spent_s += spent_s
        self.best_by_round.append(self._best_s)
        if self.rounds >= _HOPELESS and math.isinf(self._best_s):
            self.finish(f"no kernel worked in {self.trials} trials")

    def settle(self, seconds: float) -> None:
        """Take the time that the winner had in its final race."""
        self._best_s = seconds

    def finish(self, why: str) -> None:
        """Give the task no more trials."""
        self.finished = self.finished or why
