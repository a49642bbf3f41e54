"""The best trials of one workload, and the number of all trials."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar, overload

from autotune.measure import MeasureInput, MeasureResult
from autotune.measure.objective import TIME, Objective
from autotune.measure.types import Pair
from autotune.tuner.loop.result import TuneResult
from autotune.utils.si import scale
from autotune.workload import Candidate, Workload

Value = TypeVar("Value")


@dataclass
class Scoreboard:
    """Kept by a `Run`, from one run of a strategy to the next.

    Attributes:
        workload: what is tuned.
        objective: what is minimised.
        best: the best trial by that, the fastest by the final race where one was held; None before
            a success.
        best_config: its candidate.
        best_flops: its operations per second; 1 / seconds where the workload declares none.
        best_iter: how many trials came before it.
        resumed: trials that were taken from an earlier run.
        filtered: proposals of this run that were no trials, because they cannot run.
        cut_off: proposals whose trials were under way when the last run ended; they are measured
            first by the next.
        ttl: trials left until the run gives up, if none is better than the best.
        most_trials: trials that there will be at most, those of an earlier run included.
        time_left_s: seconds that the run has left; None where they are not limited.
        result: what the last run found, however it ended; None before.
    """

    workload: Workload
    objective: Objective = TIME
    best: Pair | None = None
    best_config: Candidate | None = None
    best_flops: float = 0.0
    best_iter: int = 0
    resumed: int = 0
    filtered: int = 0
    cut_off: list[Candidate] = field(default_factory=list)
    ttl: int | None = None
    most_trials: int | None = None
    time_left_s: float | None = None
    result: TuneResult | None = None

    @property
    def work(self) -> float:
        """Operations of one run of a kernel; 1 where the workload does not declare them."""
        return self.workload.flop or 1.0

    def flops(self, result: MeasureResult) -> float:
        """Return the operations per second of a result; 0 when it failed."""
        return self.work / result.seconds if result.ok and result.seconds > 0 else 0.0

    def note(self, position: int, measure_input: MeasureInput, result: MeasureResult) -> None:
        """Keep a trial if it is the best so far."""
        cost = self.objective.cost(measure_input, result)
        if cost < (math.inf if self.best is None else self.objective.cost(*self.best)):
            self.set_winner(measure_input, result)
            self.best_iter = position

    def set_winner(self, measure_input: MeasureInput, result: MeasureResult) -> None:
        """Take the winner of a race for the best, whatever the trials said."""
        self.best, self.best_config = (measure_input, result), measure_input.config
        self.best_flops = self.flops(result)

    def line(self, measure_input: MeasureInput, result: MeasureResult, si_prefix: str) -> str:
        """Return a trial and the best rate so far in one line, as AutoTVM writes it."""
        rate, best = scale(self.flops(result), si_prefix), scale(self.best_flops, si_prefix)
        return f"{si_prefix}FLOPS: {rate:.2f}/{best:.2f}\tresult: {result}\t{measure_input.config}"

    def reset(self) -> None:
        """Forget the best, and what was cut off."""
        self.best, self.best_config = None, None
        self.best_flops, self.best_iter = 0.0, 0
        self.ttl, self.most_trials, self.time_left_s = None, None, None
        self.cut_off = []


class Scored(Protocol):
    """An object with a scoreboard."""

    scoreboard: Scoreboard


class ScoreboardAttribute(Generic[Value]):
    """An attribute that shows one of the owner's ``scoreboard``; scripts may set it too."""

    def __init__(self, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, owner: None, kind: type) -> ScoreboardAttribute[Value]: ...
    @overload
    def __get__(self, owner: Scored, kind: type) -> Value: ...
    def __get__(self, owner: Scored | None, kind: type) -> ScoreboardAttribute[Value] | Value:
        if owner is None:
            return self
        value: Value = getattr(owner.scoreboard, self._name)
        return value

    def __set__(self, owner: Scored, value: Value) -> None:
        setattr(owner.scoreboard, self._name, value)
