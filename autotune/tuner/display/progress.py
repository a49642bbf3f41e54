"""The progress bar: one line that is kept up to date, or a line now and then."""

from __future__ import annotations

import importlib.util
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol, TextIO

from autotune.errors import TunerError
from autotune.measure import MeasureInput, MeasureResult
from autotune.tuner.display.progress_state import RunState
from autotune.tuner.loop.result import TuneResult
from autotune.tuner.tuner import Tuner
from autotune.utils.check import Check
from autotune.utils.quantities import energy_text, flops_rate, microseconds
from autotune.utils.si import scale

Watcher = Callable[[Tuner, Sequence[MeasureInput], Sequence[MeasureResult]], None]

# Where lines stay, one is written for each tenth of the trials, or after so long.
_TENTHS, _LINE_S = 10, 10.0
# A line in place is drawn anew this often at most: drawing takes time on a host that measures.
_DRAW_S = 0.25
# Below it two decimals of a rate show nothing.
_LEAST_RATE = 0.01


class View(Protocol):
    """A display of a run's state."""

    def show(self, state: RunState) -> None:
        """Show a state; not every one need be seen."""

    def end(self, state: RunState, summary: str) -> None:
        """Show the final state and the summary of the run, and end the line."""


class PlainProgress:
    """Plain lines, for files, pipes and log collectors."""

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream
        self._tenth, self._at = -1, 0.0

    def show(self, state: RunState) -> None:
        """Write a line if enough has happened since the last one."""
        tenth = state.done * _TENTHS // state.total
        now = time.monotonic()
        if tenth != self._tenth or now - self._at > _LINE_S:
            self._tenth, self._at = tenth, now
            self._write(str(state))

    def end(self, state: RunState, summary: str) -> None:
        """Write the last line, unless it was written, and the summary."""
        if state.done * _TENTHS // state.total != self._tenth:
            self._write(str(state))
        if summary:
            self._write(summary)

    def _write(self, text: str) -> None:
        stream = self._stream or sys.stdout
        stream.write(f"{text}\n")
        stream.flush()


class ProgressBar:
    """A callback that shows how far a run is; see `autotune.tuner.callback.progress_bar`."""

    def __init__(self, state: RunState, si_prefix: str, view: View) -> None:
        self._state, self._si_prefix, self._view = state, si_prefix, view
        self._total = state.total
        self._started = time.monotonic()
        self._ended = False

    def tuning(self, tuner: Tuner) -> None:
        """Show that a run begins."""
        self._started, self._ended = time.monotonic(), False
        self._state = RunState(self._state.prefix, self._total)
        self._update(tuner)

    def __call__(
        self, tuner: Tuner, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]
    ) -> None:
        """Record results."""
        state = self._state
        failed = state.failed + sum(not result.ok for result in results)
        # What an earlier run made is known only when this one has begun.
        done = max(state.done, tuner.resumed) + len(results)
        self._state = replace(state, done=done, failed=failed)
        self._update(tuner)

    def raced(self, tuner: Tuner, measure_input: MeasureInput, result: MeasureResult) -> None:
        """Show the time of the winner."""
        self._update(tuner)

    def tuned(self, tuner: Tuner, result: TuneResult) -> None:
        """Show the summary and end the line, however the run ended."""
        if not self._ended:
            self._ended = True
            self._view.end(self._now(tuner), str(result))

    def _update(self, tuner: Tuner) -> None:
        self._view.show(self._now(tuner))

    def _now(self, tuner: Tuner) -> RunState:
        self._state = replace(
            self._state,
            total=min(self._total, tuner.most_trials or self._total),
            done=max(self._state.done, tuner.resumed),
            resumed=tuner.resumed,
            best=self._best(tuner),
            elapsed_s=time.monotonic() - self._started,
            to_come=tuner.ttl,
            limit_s=tuner.time_left_s,
        )
        return self._state

    def _best(self, tuner: Tuner) -> str:
        best = tuner.best_measure_pair
        if best is None:
            return ""
        text = microseconds(best[1].seconds)
        if best[1].joules is not None:
            text += f", {energy_text(best[1].joules)}"
        if not tuner.task.flop:
            return text
        rate = scale(tuner.best_flops, self._si_prefix)
        asked = f"{rate:.2f} {self._si_prefix.strip()}FLOPS"
        # A kernel so slow that the unit shows nothing has that of the summary.
        return f"{text} ({asked if rate >= _LEAST_RATE else flops_rate(tuner.best_flops)})"


def progress_bar(
    total: int, prefix: str = "", si_prefix: str = "G", stream: TextIO | None = None
) -> Watcher:
    """Show the progress of a run, and a summary at its end.

    The line has the best time so far in microseconds (and its energy, if that is measured, and its
    rate, if the task declares its operations), trials per second, failures and the remaining time,
    which is that to the end by ``early_stopping`` or ``timeout_s`` where this comes first.
    On a terminal one line is redrawn, in a notebook a widget (if ``ipywidgets`` is installed);
    elsewhere a plain line is written from time to time.

    Args:
        total: the number of trials, at least 1. Fewer are shown where the run cannot make as many,
            as its ``n_trial`` or the space is smaller.
        prefix: text at the beginning of the line.
        si_prefix: unit of the rates.
        stream: where to write; standard output by default.

    Raises:
        TunerError: the unit is unknown, or ``total`` is not a positive number.
    """
    try:
        scale(1.0, si_prefix)
    except ValueError as error:
        raise TunerError(f"progress_bar: {error}") from error
    Check(TunerError, "progress_bar").whole("total", total, least=1)
    check = Check(TunerError, "progress_bar")
    check.kind("prefix", prefix, str, "a text")
    if stream is not None and not callable(getattr(stream, "write", None)):
        check.refuse("stream", "an open text file", stream)
    return ProgressBar(RunState(prefix, int(total)), si_prefix, _view(stream))


def _view(stream: TextIO | None) -> View:
    """Return the view that suits a stream. What draws in place is loaded only where it can."""
    given = stream or sys.stdout
    if stream is None and _in_notebook():
        return _drawn(None) if importlib.util.find_spec("ipywidgets") else PlainProgress(None)
    return _drawn(stream) if getattr(given, "isatty", bool)() else PlainProgress(stream)


def _drawn(stream: TextIO | None) -> View:
    from autotune.tuner.display.progress_drawn import Drawn

    return Drawn(stream, _DRAW_S)


def _in_notebook() -> bool:
    """Whether this runs in the kernel of a notebook, not in IPython on a terminal."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    kind = type(shell)
    return kind.__name__ == "ZMQInteractiveShell" or kind.__module__.startswith("google.colab")
