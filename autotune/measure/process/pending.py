"""A queued piece of work and the future of its result, which another queue may take over."""

from __future__ import annotations

from concurrent.futures import CancelledError, Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

Work = TypeVar("Work")
Result = TypeVar("Result")


@dataclass(frozen=True, eq=False)
class Pending(Generic[Work]):
    """One piece of work and the future of its result.

    Attributes:
        work: the work.
        future: gets the result.
        device: number of the only device that may do it; None for any.
    """

    work: Work
    future: Future[Any]
    device: int | None = None

    def begin(self) -> bool:
        """Return whether the work was not cancelled; called again for work that was put back."""
        return self.future.running() or self.future.set_running_or_notify_cancel()

    def fail(self, error: BaseException) -> None:
        """Let who waits get an error."""
        if self.begin():
            self.future.set_exception(error)

    def drop(self) -> None:
        """Cancel it, begun or not: it was not done, and did not fail."""
        if not self.future.cancel():
            self.future.set_exception(CancelledError())


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
