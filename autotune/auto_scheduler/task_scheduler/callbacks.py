"""Callbacks of the task scheduler: the table that is printed, the file of the latency."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from autotune.auto_scheduler.task_scheduler.progress import TaskProgress

_LINE = "-" * 113
_TITLE = (
    "|  ID  |                       Task Description                        "
    "| Latency (ms) | Speed (GFLOPS) | Trials |"
)


class Watched(Protocol):
    """The attributes of a `TaskScheduler` that callbacks may read.

    Attributes:
        tic: when it began, in seconds of `time.time`.
    """

    tic: float

    @property
    def progress(self) -> Sequence[TaskProgress]:
        """The progress of each task."""
        ...

    @property
    def ct(self) -> int:
        """Trials that were made."""
        ...

    @property
    def cur_score(self) -> float:
        """Estimated seconds of the network; infinite as long as a task has no kernel."""
        ...


class TaskSchedulerCallback:
    """Base of what watches a `TaskScheduler`."""

    def pre_tune(self, task_scheduler: Watched, task_id: int) -> None:
        """Called before a round, with the number of its task."""

    def post_tune(self, task_scheduler: Watched, task_id: int) -> None:
        """Called after a round, with the number of its task."""

    def finished(self, task_scheduler: Watched) -> None:
        """Called at the end, however it came about."""


class PrintTableInfo(TaskSchedulerCallback):
    """Prints the table of all tasks before each round, in TVM's form, and once at the end."""

    def pre_tune(self, task_scheduler: Watched, task_id: int) -> None:
        """Print the table."""
        print(table(task_scheduler, task_id))

    def finished(self, task_scheduler: Watched) -> None:
        """Print the table."""
        print(table(task_scheduler, None))


class LogEstimatedLatency(TaskSchedulerCallback):
    """Appends a line to a file after each round: seconds, estimated latency, trials.

    Args:
        log_file: columns are separated by tabs, as TVM writes them. What stands there stays.
    """

    def __init__(self, log_file: str | Path = "total_latency.tsv") -> None:
        self.log_file = Path(log_file)

    def post_tune(self, task_scheduler: Watched, task_id: int) -> None:
        """Append a line."""
        score = task_scheduler.cur_score
        latency = f"{score * 1e3:.3f}" if math.isfinite(score) else "N/A"
        elapsed = time.time() - task_scheduler.tic
        self.log_file.parent.mkdir(parents=True, exist_ok=True)
        with self.log_file.open("a", encoding="utf-8") as file:
            file.write(
                f"ElapsedTime(s)\t{elapsed:.0f}\tEstimatedLatency(ms)\t{latency}\t"
                f"Trials\t{task_scheduler.ct}\n"
            )


def table(task_scheduler: Watched, next_id: int | None) -> str:
    """Return the table of all tasks, and a line that sums them up."""
    lines = [_title("Task Scheduler"), _TITLE, _LINE]
    for i, each in enumerate(task_scheduler.progress):
        works = math.isfinite(each.seconds)
        latency = f"{each.seconds * 1e3:.3f}" if works else "-"
        flop = each.task.compute_dag.flop_ct
        speed = f"{flop / each.seconds / 1e9:.2f}" if works else "-"
        lines.append(
            f"| {i:>4} | {each.task.desc[:61]:>61} | {latency:>12} | {speed:>14} | "
            f"{each.trials:>6} |"
        )
    score = task_scheduler.cur_score
    total = f"{score * 1e3:.3f}" if math.isfinite(score) else "-"
    elapsed = time.time() - task_scheduler.tic
    lines += [
        _LINE,
        f"Estimated total latency: {total} ms\tTrials: {task_scheduler.ct}\t"
        f"Used time : {elapsed:.0f} s\tNext ID: {'-' if next_id is None else next_id}\t",
    ]
    return "\n".join(lines)


def _title(text: str) -> str:
    line = "-" * 70
    return f"{line}\n{'-' * 30}  [ {text} ]\n{line}"
