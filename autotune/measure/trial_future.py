"""The result of a trial that is under way."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from typing import Any

from autotune.measure.outcome import TrialClock
from autotune.measure.types import MeasureInput, MeasureResult

Ended = Callable[[MeasureInput, MeasureResult], None]
_Work = Future[Any]


def nobody(measure_input: MeasureInput, result: MeasureResult) -> None:
    """Do nothing: no callback was given."""


class TrialFuture(Future[MeasureResult]):
    """A future that ends once: by `finish` or `fail`, or when it is cancelled.

    Args:
        measure_input: the trial.
        on_end: called with the input and the result in the thread in which the trial ended, before
            `result` returns anywhere. An exception that it raises becomes the future's.

    Attributes:
        clock: when the trial passed each stage.
    """

    def __init__(self, measure_input: MeasureInput, on_end: Ended = nobody) -> None:
        super().__init__()
        self.measure_input = measure_input
        self.clock = TrialClock()
        self._on_end = on_end
        # What is under way for it, and tells it of its end: its build, then its run.
        self._work: _Work | None = None
        self._built = False

    @property
    def built(self) -> bool:
        """Whether there is something to run; also when that was done."""
        return self._built

    @property
    def on_device(self) -> bool:
        """Whether a device is at work on it now, which ends it before it does anything else."""
        work = self._work if self._built else None
        return work is not None and work.running() and not self.done()

    def builds(self, build: _Work) -> None:
        """Record the future of the build, which is cancelled with the trial unless it runs."""
        self._work = build

    def runs(self, run: Future[MeasureResult]) -> None:
        """Record the future of the run, which is cancelled with the trial unless it runs."""
        self._work = run
        self._built = True
        if self.cancelled():
            run.cancel()

    def cancel(self) -> bool:
        """Give it up, and what was not begun of its work; False where it has ended."""
        if not super().cancel():
            return False
        if (work := self._work) is not None:
            work.cancel()
        return True

    def finish(self, result: MeasureResult) -> None:
        """Call the callbacks, then wake the waiters."""
        if not self.set_running_or_notify_cancel():
            return
        try:
            self._on_end(self.measure_input, result)
        except BaseException as error:  # a log that cannot be written ends the run
            self.set_exception(error)
        else:
            self.set_result(result)
        self._work = None  # else the two would hold each other

    def fail(self, error: BaseException) -> None:
        """Give waiters an error, or nothing where the trial was cut off."""
        if isinstance(error, CancelledError):
            self.cancel()
        elif not self.done() and self.set_running_or_notify_cancel():
            self.set_exception(error)
            self._work = None
