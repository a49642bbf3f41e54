"""Callbacks of scripts, and of a verbose search, in the form that the loop of a tuner calls."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from autotune.auto_scheduler.measuring.measure_input import MeasureInput
from autotune.auto_scheduler.measuring.measure_options import MeasureCallback
from autotune.auto_scheduler.measuring.verbose import loops_text, trial_text
from autotune.auto_scheduler.problem.search_problem import SearchProblem
from autotune.auto_scheduler.records.file import RecordToFile, as_input
from autotune.measure import MeasureInput as TrialInput
from autotune.measure import MeasureResult


class AdaptedCallback:
    """A measure callback of a script, as the loop of a tuner calls it.

    Args:
        policy: what the script's callback gets first.
        callback: of the script.
    """

    def __init__(self, policy: object, callback: MeasureCallback) -> None:
        self._policy = policy
        self._callback = getattr(callback, "callback", callback)
        self._given = callback
        self.at_once = isinstance(callback, RecordToFile)
        if isinstance(callback, RecordToFile):
            self.path = Path(callback.filename)  # the summary of a run names the log
        for name in ("raced", "tuned"):
            if hasattr(callback, name):
                setattr(self, name, getattr(callback, name))

    def __call__(
        self, tuner: object, inputs: Sequence[TrialInput], results: Sequence[MeasureResult]
    ) -> None:
        """Call the script's callback with the policy in place of the tuner."""
        del tuner
        named: list[MeasureInput] = [as_input(inp) for inp in inputs]
        self._callback(self._policy, named, list(results))


class EachTrial:
    """Shows every trial of a run with its loops."""

    def __init__(self, task: SearchProblem) -> None:
        self._task = task
        self._count = 0
        self._best = 0.0

    def __call__(
        self, tuner: object, inputs: Sequence[TrialInput], results: Sequence[MeasureResult]
    ) -> None:
        """Print each trial, its rate and the best so far, and its loops."""
        del tuner
        for inp, result in zip(inputs, results, strict=True):
            self._count += 1
            rate = self._task.flop / result.seconds / 1e9 if result.ok else 0.0
            self._best = max(self._best, rate)
            loops = loops_text(self._task.compute_dag, as_input(inp).state)
            print(trial_text(self._count, rate, self._best, result, loops))
