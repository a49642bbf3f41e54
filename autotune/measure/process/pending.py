"""A queued piece of work and the future of its result, which another queue may take over."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import CancelledError, Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from autotune.measure.process.worker import StartFailed

Work = TypeVar("Work")
Result = TypeVar("Result")


@dataclass(eq=False)
class Pending(Generic[Work]):
    """One piece of work and the future of its result.

    Attributes:
        work: the work.
        future: gets the result.
        device: number of the only device that may do it; None for any.
    """

    work: Work
    future: Future[Any] = field(default_factory=Future)
    device: int | None = None
    _begun: bool = field(default=False, init=False)
    # One thread may give work up while another begins it.
    _beginning: threading.Lock = field(default_factory=threading.Lock, init=False, repr=False)

    def begin(self) -> bool:
        """Return whether the result is awaited; called again for work that was put back."""
        with self._beginning:
            if self._begun:
                return not self.future.done()
            self._begun = True
            return self.future.set_running_or_notify_cancel()

    def run(self, do: Callable[[Work], object]) -> StartFailed | None:
        """Do it unless it was cancelled; return why a process for it could not be started."""
        if not self.begin():
            return None
        try:
            self.finish(do(self.work))
        except StartFailed as error:
            return error
        except CancelledError:  # the process was ended over it
            self.drop()
        except BaseException as error:  # handed to the waiter of the result
            self.fail(error)
        return None

    def finish(self, result: object) -> None:
        """Let who waits get the result."""
        with suppress(InvalidStateError):  # given up meanwhile
            self.future.set_result(result)

    def fail(self, error: BaseException) -> None:
        """Let who waits get an error."""
        with suppress(InvalidStateError):
            if self.begin():
                self.future.set_exception(error)

    def drop(self) -> None:
        """Cancel it, begun or not: it was not done, and did not fail."""
        if not self.future.cancel():
            self.fail(CancelledError())


def forward(source: Future[Result], target: Future[Result]) -> None:
    """Pass the result of one future to another, unless the other was cancelled.

    Cancelling the other cancels this one if it has not begun.
    """

    def settle(done: Future[Result]) -> None:
        with suppress(InvalidStateError):
            if done.cancelled():
                target.cancel()
            elif (error := done.exception()) is not None:
                target.set_exception(error)
            else:
                target.set_result(done.result())

    source.add_done_callback(settle)
    target.add_done_callback(lambda ended: source.cancel() if ended.cancelled() else None)
