"""A progress bar that is drawn in place: on a terminal, or as a widget of a notebook."""

from __future__ import annotations

import time
from typing import Any, TextIO

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from autotune.tuner.display.progress_state import RunState
from autotune.utils.quantities import duration


class _Console(Console):
    """A console that keeps its cursor: a program that is killed cannot show it again."""

    def show_cursor(self, show: bool = True) -> bool:
        """Do nothing."""
        return False


class Drawn:
    """A line that is redrawn when there is news, at most every ``pause_s``.

    It has no thread of its own, which would disturb measurements on this host.
    """

    def __init__(self, stream: TextIO | None, pause_s: float) -> None:
        self._console = _Console(file=stream, highlight=False)
        self._pause_s = pause_s
        self._drawn_at = 0.0
        self._progress: Progress | None = None

    def show(self, state: RunState) -> None:
        """Draw a state if the last one is old enough."""
        now = time.monotonic()
        if self._progress is not None and now - self._drawn_at < self._pause_s:
            return
        self._drawn_at = now
        self._draw(state)

    def end(self, state: RunState, summary: str) -> None:
        """Draw the last state, leave it there, and write the summary below it."""
        self._draw(state)
        if self._progress is not None:
            self._progress.stop()
            self._progress = None
        if summary:
            self._console.print(summary, markup=False, soft_wrap=True)

    def _draw(self, state: RunState) -> None:
        if self._progress is None:
            self._progress = _progress(self._console)
            self._progress.start()
            self._progress.add_task("", total=state.total, **_fields(state))
        (task,) = self._progress.task_ids
        self._progress.update(task, total=state.total, completed=state.done, **_fields(state))
        self._progress.refresh()


def _progress(console: Console) -> Progress:
    columns = ("prefix", "count", "best", "rate", "failed", "left")
    first, *others = (TextColumn("{task.fields[" + name + "]}", markup=False) for name in columns)
    return Progress(first, BarColumn(bar_width=20), *others, console=console, auto_refresh=False)


def _fields(state: RunState) -> dict[str, Any]:
    left = state.left_s
    return {
        "prefix": state.prefix,
        "count": f"{state.done}/{state.total}",
        "best": f"best {state.best or 'none yet'}",
        "rate": f"{state.rate:.1f} trials/s",
        "failed": f"{state.failed} failed",
        "left": "" if left is None else f"{duration(left)} left",
    }
