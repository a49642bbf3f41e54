"""The client's queue: threads that give work to the places of a fleet, as its policy decides."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from autotune.errors import FleetError
from autotune.fleet.policy import Needs, Place, Policy, QueuedJob
from autotune.measure.process.pending import Pending

logger = logging.getLogger("autotvm")

# One thread waits for each job that a worker has.
_MOST_THREADS = 4096
# The part of the client's patience for which a failure waits for workers that may confirm it.
_CONFIRM = 0.5


class PlaceLost(Exception):
    """The place is gone, or does not answer; its work is given to another place."""


class PlaceUnable(Exception):
    """The place could not start the work, for a reason of its own.

    Attributes:
        for_good: whether the place can never do such work.
    """

    def __init__(self, reason: str, for_good: bool = False) -> None:
        super().__init__(reason)
        self.for_good = for_good


@dataclass(frozen=True)
class Work:
    """A job in the queue.

    Attributes:
        do: runs the job at the place with this number, and returns the outcome.
        failure: returns the number of an outcome's error, if it is one for which the place may be
            to blame; 0 otherwise.
        hopeless: returns the outcome of a job, over which several places were lost, from a reason.
        unconfirmed: returns a failure with the reason why it may be the place's.
    """

    do: Callable[[int], object]
    failure: Callable[[object], int]
    hopeless: Callable[[str], object]
    unconfirmed: Callable[[object, str], object]


@dataclass(eq=False, kw_only=True)
class _QueuedWork(QueuedJob):
    """An entry with its work and the future of the outcome."""

    pending: Pending[Work]

    def finish(self) -> None:
        """Hand the final outcome to the waiter of the result."""
        outcome = self.outcome
        if self.unconfirmed:
            outcome = self.pending.work.unconfirmed(outcome, self.unconfirmed)
        self.pending.finish(outcome)


def with_doubt(message: str, why: str) -> str:
    """Return the message of a failure with the reason why it may not be the trial's own."""
    return f"{message}\n(not confirmed by a second worker: {why})"


def _loss(entry: QueuedJob, why: str) -> str:
    if entry.cut <= len(entry.lost_alone):
        return f"{entry.lost} workers were lost over it: {why}"
    return (
        f"{entry.lost} times a worker was lost while it ran, and most of them came back: the "
        f"network may be to blame ({why})"
    )


class FleetQueue:
    """Work for all places of a fleet.

    Args:
        patience_s: seconds that work waits for a worker that can do it.
        clock: returns monotonic time in seconds.
    """

    def __init__(self, patience_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.patience_s = patience_s
        self._clock = clock
        self._lock = threading.RLock()
        self._policy: Policy[_QueuedWork] = Policy(patience_s * _CONFIRM)
        self._threads = ThreadPoolExecutor(_MOST_THREADS, "autotune-fleet")
        self._entries: set[_QueuedWork] = set()
        self._over: FleetError | None = None
        self._closed = False

    def put(self, needs: Needs, work: Work) -> Future[Any]:
        """Queue work for any worker that can do it."""
        entry = _QueuedWork(needs, pending=Pending(work))
        with self._lock:
            over = self._over
            if over is None:
                self._entries.add(entry)
                self._policy.put(entry)
        entry.pending.future.add_done_callback(lambda _: self._forget(entry))
        if over is not None:
            entry.pending.fail(over)
        self._begin()
        return entry.pending.future

    def _forget(self, entry: _QueuedWork) -> None:
        with self._lock:
            self._entries.discard(entry)

    def _begin(self) -> None:
        """Start all work for which a place is free."""
        with self._lock:
            while not self._closed and (found := self._policy.next(self._clock())) is not None:
                number, entry = found
                self._threads.submit(self._do, number, entry, entry.attempt)

    def _do(self, number: int, entry: _QueuedWork, attempt: int) -> None:
        finished: Iterable[_QueuedWork] = ()
        try:
            if not entry.pending.begin():
                with self._lock:
                    self._policy.forget(number, entry)
                return
            outcome = entry.pending.work.do(number)
            finished = self._ended(number, entry, attempt, outcome)
        except PlaceLost as error:
            self._lost(number, entry, attempt, str(error))
        except PlaceUnable as error:
            self._unable(number, entry, attempt, error)
        except CancelledError:
            self._let_go(number, entry)
            entry.pending.drop()
        except BaseException as error:  # handed to the waiter of the result
            self._let_go(number, entry)
            entry.pending.fail(error)
        finally:
            for one in finished:
                one.finish()
            self._begin()

    def _let_go(self, number: int, entry: _QueuedWork) -> None:
        with self._lock:
            self._policy.forget(number, entry)

    def _ended(
        self, number: int, entry: _QueuedWork, attempt: int, outcome: object
    ) -> Iterable[_QueuedWork]:
        """Record an outcome; return the entries that are finished by it.

        The outcome of an attempt that was given up is dropped.
        """
        with self._lock:
            if not self._policy.holds(number, entry, attempt):
                return ()
            entry.outcome = outcome
            now = self._clock()
            failure = entry.pending.work.failure(outcome)
            finished = self._policy.ended(number, entry, failure, now)
            if not self._policy.waiting:  # no more work by which the place could prove itself
                finished += self._policy.settle(now)
            self._say_aside()
        return finished

    def _lost(self, number: int, entry: _QueuedWork, attempt: int, why: str) -> None:
        with self._lock:
            if self._policy.holds(number, entry, attempt):
                self._policy.lost(number, entry, self._clock())
            if not entry.to_blame:
                return
            self._policy.drop(entry)
        entry.pending.finish(entry.pending.work.hopeless(_loss(entry, why)))

    def _unable(self, number: int, entry: _QueuedWork, attempt: int, error: PlaceUnable) -> None:
        with self._lock:
            if not self._policy.holds(number, entry, attempt):
                return
            now = self._clock()
            self._policy.unable(number, entry, str(error), now, error.for_good)
            self._say_aside()

    def _say_aside(self) -> None:
        """Log which places were set aside, and which take part again."""
        for name, reason in self._policy.roster.changes():
            if reason:
                first = reason.partition("\n")[0]
                logger.warning("measuring goes on without %s: %s", name, first)
            else:
                logger.warning("%s takes part again", name)

    # ---- places

    def join(self, place: Place) -> None:
        """Let a place take part."""
        with self._lock:
            self._policy.join(place)
        self._begin()

    def leave(self, number: int) -> None:
        """Remove a place; its work is given to other places."""
        with self._lock:
            self._policy.leave(number, self._clock())
        self._begin()

    def places(self) -> list[tuple[Place, int, str]]:
        """Return each place, how many entries it holds, and why it is set aside (or "")."""
        with self._lock:
            roster = self._policy.roster
            return [
                (place, len(roster.states[place.number].out), roster.why_aside(place.number))
                for place in roster.here()
            ]

    def able(self, needs: Needs) -> list[Place]:
        """Return the places that can do such work now."""
        with self._lock:
            return list(self._policy.roster.able(needs))

    def tick(self) -> None:
        """Handle what depends on time alone; to be called regularly."""
        with self._lock:
            finished = self._policy.settle(self._clock())
            left: list[tuple[_QueuedWork, FleetError]] = []
            for needs, seconds in self._policy.stranded(self._clock()).items():
                if seconds >= self.patience_s:
                    error = self._nobody(needs, seconds)
                    left += [(entry, error) for entry in self._policy.waiting_for(needs)]
        for entry in finished:
            entry.finish()
        for entry, error in left:
            entry.pending.fail(error)
        self._begin()

    def _nobody(self, needs: Needs, seconds: float) -> FleetError:
        what = "compile" if needs.kind == "build" else "measure"
        wanted = ", ".join(
            f"{name} {value}"
            for name in ("device", "arch", "device_class", "cpu", "toolkit", "only")
            if (value := getattr(needs, name)) is not None
        )
        aside = self._policy.roster.aside_for(needs)
        there = [place.name for place in self._policy.roster.here() if place.kind == needs.kind]
        here = f"there are {', '.join(there)}" if there else "there are none"
        said = "; ".join(f"{name} is set aside: {reason}" for name, reason in aside.items())
        return FleetError(
            f"for {seconds:.0f} s no worker of the fleet could {what} for {wanted or 'anything'}; "
            f"{here}{'; ' + said if said else ''}. Start one (autotune worker --scheduler ...); "
            "what has ended is in the log: go on with resume="
        )

    def fail(self, error: FleetError) -> None:
        """Fail all waiting work, and all that is put from now on."""
        with self._lock:
            self._over = error
            left = list(self._entries)
        for entry in left:
            entry.pending.fail(error)

    @property
    def over(self) -> FleetError | None:
        """The error by which all work fails, or None while work is accepted."""
        return self._over

    def revive(self) -> None:
        """Accept work again after `fail`, unless the queue was closed."""
        with self._lock:
            if not self._closed:
                self._over = None

    def close(self) -> None:
        """Cancel all work."""
        with self._lock:
            self._over, self._closed = FleetError("the fleet was closed"), True
            left = list(self._entries)
        for entry in left:
            entry.pending.drop()
        self._threads.shutdown(wait=False, cancel_futures=True)
