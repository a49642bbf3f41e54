"""Checks of the arguments of the task scheduler."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from autotune.auto_scheduler.errors import TuningOptionError
from autotune.auto_scheduler.measuring.measure_options import TuningOptions
from autotune.auto_scheduler.search_task import SearchTask
from autotune.auto_scheduler.task_scheduler.allocation import Objective
from autotune.utils.check import Check

_STRATEGIES = ("gradient", "round-robin")


def checked_tasks(tasks: Sequence[SearchTask]) -> list[SearchTask]:
    """Return the tasks as a list.

    Raises:
        TuningOptionError: it is empty, or something else stands among them.
    """
    found = list(Check(TuningOptionError, "TaskScheduler").sequence("tasks", tasks, "a list"))
    if not found or not all(isinstance(task, SearchTask) for task in found):
        raise TuningOptionError(
            f"TaskScheduler: expected a list of one SearchTask or more, got {tasks!r}"
        )
    return found


def checked_weights(tasks: list[SearchTask], weights: Sequence[float] | None) -> list[float]:
    """Return a positive weight for each task, 1 by default.

    Raises:
        TuningOptionError: there is another number of them, or one is none.
    """
    check = Check(TuningOptionError, "TaskScheduler")
    given: object = [1.0] * len(tasks) if weights is None else weights
    if not isinstance(given, str) and isinstance(given, Iterable):
        given = list(given)  # numpy's arrays too
    found = [
        check.number("task_weights", each)
        for each in check.sequence("task_weights", given, "a list of numbers")
    ]
    if len(found) != len(tasks) or not all(0 < weight < math.inf for weight in found):
        raise TuningOptionError(
            f"TaskScheduler: expected a positive weight for each of {len(tasks)} tasks, got "
            f"{weights!r}"
        )
    return found


def checked_strategy(strategy: str) -> str:
    """Return the name of a way to divide rounds among tasks.

    Raises:
        TuningOptionError: there is none of that name.
    """
    if strategy not in _STRATEGIES:
        raise TuningOptionError(
            f"TaskScheduler: strategy must be one of {', '.join(_STRATEGIES)}, got {strategy!r}"
        )
    return strategy


def checked_objective(function: Objective) -> Objective:
    """Return an objective that refuses to return what is no number.

    Raises:
        TuningOptionError: it is no function.
    """
    Check(TuningOptionError, "TaskScheduler").function("objective_func", function, "seconds")

    def seconds_of(costs: list[float]) -> float:
        found: object = function(costs)
        try:
            seconds = float(found)  # type: ignore[arg-type]
        except (TypeError, ValueError):
            seconds = math.nan
        if math.isnan(seconds):
            raise TuningOptionError(f"TaskScheduler: objective_func returned no number: {found!r}")
        return seconds

    return seconds_of


def trials_per_round(options: TuningOptions, tasks: int) -> int:
    """Return how many trials a round has, such that each task gets one round at least.

    Raises:
        TuningOptionError: there are fewer trials than tasks.
    """
    count = min(options.num_measures_per_round, options.num_measure_trials // tasks)
    if count < 1:
        raise TuningOptionError(
            "num_measure_trials is too small. Please set it to a higher value. "
            f"It should be at least {tasks} for this model."
        )
    return count
