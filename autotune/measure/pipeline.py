"""Trials of one workload on a session, given back in the order in which they were submitted."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import CancelledError, Future, wait
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import AbstractContextManager, suppress
from queue import Empty, SimpleQueue

from autotune.measure.session import Session, wait_for
from autotune.measure.trial_future import Ended, TrialFuture, nobody
from autotune.measure.types import MeasureInput, MeasureResult, Pair
from autotune.utils.interrupts import interrupts_deferred
from autotune.workload import Workload

# Barrier mode must not depend on how many cores a machine has.
_REPRODUCIBLE_BATCH = 16
# Trials behind one that takes long are replaced by so many parts of all in flight: fewer calls of
# the strategy, which costs less by the trial when it is asked for several.
_PARTS = 8
# A signal that comes between the interpreter's last look for one and a wait is noticed when the
# wait is over, so no wait may be long.
_SLICE_S = 1.0


class Pipeline:
    """Measures trials of one workload, compiling ahead while a device measures.

    Args:
        task: what is measured.
        measure_option: builder and runner, see `autotune.measure.measure_option`; they end with
            the pipeline. Or a `Session`, which stays open: `close` gives up what is under way.
        reproducible: barrier semantics: room is made for whole batches only, so that what a tuner
            proposes depends on nothing but results.
        batch_size: most trials in flight; by default twice the workers and devices, or 16 when
            reproducible.
        on_end: called with each trial that has a result as soon as it ends, even if one before it
            is still under way, in the thread in which it ended. What it raises is raised by
            `in_turn`.

    Example::

        with Pipeline(task, option) as pipeline:
            pipeline.submit(inputs[: pipeline.room()])
            for measure_input, result in pipeline.next_results():
                ...
    """

    def __init__(
        self,
        task: Workload,
        measure_option: Mapping[str, object] | Session,
        *,
        reproducible: bool = False,
        batch_size: int | None = None,
        on_end: Ended = nobody,
    ) -> None:
        self.session = Session.of(measure_option)
        self._owned = self.session is not measure_option
        self._reproducible = reproducible
        self.session.prepare(task)
        self._host_work = self.session.host_work(task)
        ahead = self.session.capacity
        self.capacity = batch_size or (_REPRODUCIBLE_BATCH if reproducible else ahead)
        self._trials: deque[TrialFuture] = deque()
        self._on_end = on_end
        # Each trial that ended, until this thread took note of it in `_look`; also one that was
        # cancelled, which wakes no `wait`.
        self._ends: SimpleQueue[Future[MeasureResult]] = SimpleQueue()
        self._ended: set[Future[MeasureResult]] = set()
        # How many are under way, and how many ended since somebody last waited for room.
        self._under_way = self._fresh = 0

    @property
    def outstanding(self) -> int:
        """Trials submitted whose results were not taken yet."""
        return len(self._trials)

    def room(self) -> int:
        """Return how many trials may be submitted now.

        Trials that ended behind one that takes long make room as well, up to as many again.
        """
        if self._reproducible:
            return 0 if self._trials else self.capacity
        self._look()
        return max(0, min(self.capacity - self._under_way, 2 * self.capacity - len(self._trials)))

    def host_work(self) -> AbstractContextManager[object]:
        """Return a context for heavy work in this process; see `Session.host_work`."""
        return self._host_work

    @property
    def ready(self) -> bool:
        """Whether the oldest trial ended, so that `in_turn` has something to give."""
        self._look()
        return bool(self._trials) and self._trials[0] in self._ended

    def submit(self, measure_inputs: Sequence[MeasureInput]) -> None:
        """Start to measure; candidates are realised in the calling thread.

        Ctrl-C takes effect between two candidates. A trial that fails at once ends in this thread,
        and an interrupt at that moment would be stored as its outcome, which is not looked at
        while an older trial is pending.
        """
        for inp in measure_inputs:
            with interrupts_deferred():
                trial = self.session.start(inp, self._on_end)
                self._trials.append(trial)
                self._under_way += 1
                trial.add_done_callback(self._ends.put)

    def wait(self, timeout_s: float | None = None) -> None:
        """Wait for the oldest trial, if any is outstanding, or until the time is over."""
        self._wait(timeout_s, math.inf)

    def wait_for_room(self, timeout_s: float | None = None) -> None:
        """Wait until the oldest trial ended, or several did since the last call.

        In place of those, others can be submitted, before the next call or not. Returns at once
        when nothing is outstanding, and when the time is over.
        """
        self._wait(timeout_s, max(1, self.capacity // _PARTS))
        self._fresh = 0

    def _wait(self, timeout_s: float | None, enough: float) -> None:
        """Wait for the oldest trial, or until enough trials have ended, or until the timeout."""
        until = math.inf if timeout_s is None else time.monotonic() + timeout_s
        while self._trials and not self.ready and self._fresh < enough:
            left = until - time.monotonic()
            if left <= 0:
                break
            with suppress(Empty):
                self._note(self._ends.get(timeout=min(left, _SLICE_S)))

    def _look(self) -> None:
        """Record all trials that have ended so far."""
        while not self._ends.empty():
            self._note(self._ends.get())

    def _note(self, trial: Future[MeasureResult]) -> None:
        self._ended.add(trial)
        self._under_way -= 1
        self._fresh += 1

    def in_turn(self) -> list[Pair]:
        """Return the oldest trial and all behind it that ended too, up to the first that did not.

        Raises:
            MeasureError and others: measuring cannot go on; the failure of a trial is a result.
        """
        trials = self._trials
        ready: list[Pair] = []
        # What was measured before an error is given first, the error by the next call.
        while self.ready and (not ready or _is_good(trials[0])):
            ready.append(wait_for(trials[0].measure_input, trials[0]))
            self._ended.discard(trials.popleft())
        return ready

    def next_results(self) -> list[Pair]:
        """Wait for the oldest trial, and return what `in_turn` does.

        Empty when nothing is outstanding.
        """
        self.wait()
        return self.in_turn()

    def cut_off(self) -> list[MeasureInput]:
        """Return the trials without a result; after `close`, those that will have none."""
        return [trial.measure_input for trial in self._trials if not _is_good(trial)]

    def leave(self) -> list[Pair]:
        """Return all that ended, in order of submission; what is under way is waited for no more.

        Also after `close`, for what ended until then.
        """
        left = [trial for trial in self._trials if _is_good(trial)]
        self._trials = deque(trial for trial in self._trials if trial not in left)
        self._ended.difference_update(left)
        return [wait_for(trial.measure_input, trial) for trial in left]

    def settle(self, grace_s: float, timeout_s: float) -> None:
        """Wait for trials that are built, and give up all others.

        Args:
            grace_s: for so long those are waited for that only wait for a device.
            timeout_s: for so long what a device is at work on then, which it ends anyway before it
                does anything else.
        """
        self._wait_for_those(lambda trial: trial.built, grace_s)
        self._wait_for_those(lambda trial: trial.on_device, timeout_s)
        self._wait_for_those(lambda trial: False, 0.0)

    def _wait_for_those(self, worth: Callable[[TrialFuture], bool], timeout_s: float) -> None:
        """Cancel trials that are not worth waiting for; wait for the others until the timeout."""
        for trial in self._trials:
            if not worth(trial):
                trial.cancel()
        until = time.monotonic() + timeout_s
        awaited: set[Future[MeasureResult]] = {one for one in self._trials if not one.done()}
        while awaited and (left_s := until - time.monotonic()) > 0:
            awaited = wait(awaited, min(left_s, _SLICE_S)).not_done

    def close(self) -> None:
        """Cancel pending trials, and end all processes except those of a session that was given.

        A cancelled trial has no result, not even a failure.
        """
        if self._owned:
            self.session.close()
            return
        # One whose result is being told of cannot be given up any more; it ends at once.
        wait([trial for trial in self._trials if not trial.cancel()])

    def __enter__(self) -> Pipeline:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _is_good(trial: TrialFuture) -> bool:
    """Whether a trial ended with a result, if only that of a failure."""
    try:
        return trial.exception(timeout=0) is None
    except (CancelledError, FutureTimeout):
        return False
