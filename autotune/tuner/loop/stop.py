"""Conditions for the end of a run."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from autotune.errors import TunerError
from autotune.utils.check import is_whole
from autotune.workload import Workload


@dataclass(frozen=True)
class RunProgress:
    """The progress of a run, as far as its end depends on it.

    Attributes:
        measured: trials that ended.
        best_iter: how many came before the best.
        elapsed_s: seconds since the run began.
        fraction: of the device's ceiling that the best reaches; 0 where that is unknown.
        alike: trials from the first on that all failed with one message.
    """

    measured: int
    best_iter: int = 0
    elapsed_s: float = 0.0
    fraction: float = 0.0
    alike: int = 0


@dataclass(frozen=True)
class Stop:
    """The conditions for a run's end, and its last steps; fields are arguments of `Tuner.tune`.

    Attributes:
        n_trial: most trials in all, those of an earlier run included.
        early_stopping: trials without a better one; None for never.
        stop_at: fraction of the device's ceiling that is enough, up to 1; None for none.
        timeout_s: seconds after which nothing more is proposed; None for never.
        fail_fast: trials that all fail with one message, from the first on; 0 or None for never.
        finalists: most trials that race at the end; 0 or 1 for no race.
        count_invalid: whether a candidate that cannot run is a failed trial.

    Raises:
        TunerError: a field makes no sense.
    """

    n_trial: int
    early_stopping: int | None = None
    stop_at: float | None = None
    timeout_s: float | None = None
    fail_fast: int | None = 32
    finalists: int = 5
    count_invalid: bool = False

    def __post_init__(self) -> None:
        _check_count("n_trial", self.n_trial, 1)
        if self.early_stopping is not None:
            _check_count("early_stopping", self.early_stopping, 0)
        _check_count("finalists", self.finalists, 0)
        if self.fail_fast is not None:
            _check_count("fail_fast", self.fail_fast, 0)
        if self.timeout_s is not None:
            _check_range("timeout_s", self.timeout_s, 0, math.inf)
        if self.stop_at is not None:
            _check_range("stop_at", self.stop_at, 0.01, 1)
        if not isinstance(self.count_invalid, bool):
            raise TunerError(
                f"tune(count_invalid=...): expected True or False, got {self.count_invalid!r}"
            )

    def check_for(self, workload: Workload) -> None:
        """Refuse a limit that is not defined for a workload.

        Raises:
            TunerError: `stop_at` needs the workload's operations and bytes.
        """
        if self.stop_at is not None and not (workload.flop and workload.bytes):
            raise TunerError(
                f"tune(stop_at=...): the ceiling of {workload.name} is not known; its template "
                "must declare what it computes and moves with cfg.add_flop and cfg.add_bytes"
            )

    @property
    def all_made(self) -> str:
        """Why a run ends that nothing stopped, in words."""
        return (
            "the one trial was made"
            if self.n_trial == 1
            else f"all {self.n_trial} trials were made"
        )

    def reason(self, state: RunProgress) -> str:
        """Return why no other trial is made, in words; empty where one is, or all were made."""
        if self.early_stopping and state.measured >= self.last_trial(state.best_iter):
            return f"early stopping: the best is trial {state.best_iter + 1}"
        if self.timeout_s is not None and state.elapsed_s >= self.timeout_s:
            return f"the time of {self.timeout_s:g} s is used up"
        if self.stop_at is not None and state.fraction >= self.stop_at:
            return f"the best reaches {state.fraction:.0%} of the device's ceiling"
        if self.fail_fast and state.alike >= self.fail_fast:
            return f"the first {state.alike} trials all failed with the same message"
        return ""

    def last_trial(self, best_iter: int) -> int:
        """Return after how many trials the run ends, if none is better than number ``best_iter``.

        0 trials of `early_stopping` mean never, as in AutoTVM.
        """
        return min(self.n_trial, best_iter + (self.early_stopping or self.n_trial))


def _check_count(name: str, value: object, least: int) -> None:
    if not is_whole(value, least):
        raise TunerError(
            f"tune({name}=...): expected a whole number of at least {least}, got {value!r}"
        )


def _check_range(name: str, value: object, least: float, most: float) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float, np.number)):
        raise TunerError(f"tune({name}=...): expected a number, got {value!r}")
    if not least <= float(value) <= most:
        bounds = f"at least {least:g}" if math.isinf(most) else f"from {least:g} to {most:g}"
        raise TunerError(f"tune({name}=...): expected a number {bounds}, got {value!r}")
