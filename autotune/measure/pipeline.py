"""Build and run at the same time: trials go in at one end and come out in order at the other."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import partial
from types import TracebackType
from typing import Any

from autotune.errors import MeasureError
from autotune.measure.base import Builder, Runner, runs_on_host, target_of
from autotune.measure.gate import HostGate
from autotune.measure.types import BuildResult, MeasureErrorNo, MeasureInput, MeasureResult
from autotune.task import Task

# Trials per worker and per device in flight: one at work, one waiting for it.
_DEPTH = 2
# Barrier mode must not depend on how many cores a machine has.
_REPRODUCIBLE_BATCH = 16

Outcome = BuildResult | MeasureResult
Pair = tuple[MeasureInput, MeasureResult]


class Pipeline:
    """Measures trials of one task, compiling ahead while a device measures.

    Args:
        task: what is measured.
        measure_option: builder and runner, see `autotune.measure.measure_option`.
        reproducible: barrier semantics: room is made for whole batches only, so that what a tuner
            proposes depends on nothing but results.
        batch_size: most trials in flight; by default twice the workers and devices, or 16 when
            reproducible.

    Example::

        with Pipeline(task, option) as pipeline:
            pipeline.submit(inputs[: pipeline.room()])
            for measure_input, result in pipeline.next_results():
                ...
    """

    def __init__(
        self,
        task: Task,
        measure_option: Mapping[str, Any],
        *,
        reproducible: bool = False,
        batch_size: int | None = None,
    ) -> None:
        self._builder: Builder = _part(measure_option, "builder", Builder)
        self._runner: Runner = _part(measure_option, "runner", Runner)
        self._reproducible = reproducible
        self._runner.set_task(task)
        self._builder.set_task(task, self._runner.get_build_kwargs())
        on_host = runs_on_host(target_of(task))
        self._gate = HostGate(self._builder) if on_host else None
        self._runner.share_host(self._gate)
        self._runner.start()
        ahead = _DEPTH * (self._builder.n_parallel + self._runner.n_parallel)
        self.capacity = batch_size or (_REPRODUCIBLE_BATCH if reproducible else ahead)
        self._trials: deque[_Trial] = deque()
        # Let go by every trial that ends, taken by whoever waits for one.
        self._news = threading.Lock()
        self._news.acquire()
        self._closed = False
        self._handing_over = threading.Lock()

    @property
    def outstanding(self) -> int:
        """Trials submitted whose results were not taken yet."""
        return len(self._trials)

    def room(self) -> int:
        """Return how many trials may be submitted now."""
        if self._reproducible:
            return 0 if self._trials else self.capacity
        return max(0, self.capacity - len(self._trials))

    def host_work(self) -> AbstractContextManager[object]:
        """Return a context for heavy work in this process, such as fitting a model.

        On a CPU target nothing is timed inside it.
        """
        return self._gate.work() if self._gate else nullcontext()

    def submit(self, measure_inputs: Sequence[MeasureInput]) -> None:
        """Start to measure; templates run here, in the calling thread."""
        for measure_input in measure_inputs:
            trial = _Trial(measure_input)
            with self.host_work():
                built = self._builder.submit(measure_input)
            self._trials.append(trial)
            built.add_done_callback(partial(self._on_built, trial))

    def _on_built(self, trial: _Trial, future: Future[Outcome]) -> None:
        """Hand what was built to the runner. Called in a thread of the builder."""
        try:
            built = future.result()
            if not (isinstance(built, BuildResult) and built.ok):
                self._end(trial, as_result(built))
                return
            ran = self._handed_over(trial.measure_input, built)
            ran.add_done_callback(partial(self._on_run, trial, built))
        except BaseException as error:  # an exit or interrupt too: raised again in `next_results`
            self._end(trial, error)

    def _handed_over(self, inp: MeasureInput, built: BuildResult) -> Future[MeasureResult]:
        """Return what the runner promises; after `close` that is nothing.

        A runner that was closed would start its processes again.
        """
        with self._handing_over:
            if not self._closed:
                return self._runner.submit(inp, built)
        nothing: Future[MeasureResult] = Future()
        nothing.cancel()
        return nothing

    def _on_run(self, trial: _Trial, built: BuildResult, future: Future[MeasureResult]) -> None:
        """Let the trial end. Called in a thread of the runner."""
        try:
            self._builder.discard(built)
            self._end(trial, as_result(future.result()))
        except BaseException as error:  # an exit or interrupt too: raised again in `next_results`
            self._end(trial, error)

    def _end(self, trial: _Trial, outcome: MeasureResult | BaseException) -> None:
        trial.outcome = outcome
        with suppress(RuntimeError):  # let go already
            self._news.release()

    def wait(self) -> None:
        """Wait until there is something for `ended` or `in_turn` to give."""
        trials = self._trials
        while trials and not trials[0].told and not any(t.done and not t.told for t in trials):
            self._news.acquire()

    def ended(self) -> list[Pair]:
        """Return what ended since the last call, even if a trial before it is still under way.

        For what must not lose a trial when this process is killed next. `in_turn` and `leave` give
        the same trials again, and none that was not given here.
        """
        news = [t for t in self._trials if t.done and not t.told]
        for trial in news:
            trial.told = True
        return [trial.pair() for trial in news if trial.good]

    def in_turn(self) -> list[Pair]:
        """Return the oldest trial and all behind it that ended too, up to the first that did not.

        Raises:
            MeasureError and others: measuring cannot go on; the failure of a trial is a result.
        """
        trials = self._trials
        ready: list[Pair] = []
        # What was measured before an error is given first, the error by the next call.
        while trials and trials[0].told and (trials[0].good or not ready):
            ready.append(trials[0].pair())
            trials.popleft()
        return ready

    def next_results(self) -> list[Pair]:
        """Wait for the oldest trial, and return what `in_turn` does.

        Empty when nothing is outstanding.
        """
        while self._trials and not self._trials[0].done:
            self._news.acquire()
        self.ended()
        return self.in_turn()

    def leave(self) -> list[Pair]:
        """Give up what is still under way, and return what ended, in order of submission."""
        trials, self._trials = self._trials, deque()
        return [trial.pair() for trial in trials if trial.told and trial.good]

    def close(self) -> None:
        """Drop what is outstanding and end all processes."""
        with self._handing_over:
            self._closed = True
        self._trials.clear()
        # The runner first: it may be holding the builder in a pause.
        try:
            self._runner.close()
        finally:
            self._builder.close()

    def __enter__(self) -> Pipeline:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class _Trial:
    """One trial on its way.

    Attributes:
        outcome: its result, or what made it impossible to have one; None while it is under way.
        told: whether `Pipeline.ended` gave it.
    """

    def __init__(self, measure_input: MeasureInput) -> None:
        self.measure_input = measure_input
        self.outcome: MeasureResult | BaseException | None = None
        self.told = False

    @property
    def done(self) -> bool:
        return self.outcome is not None

    @property
    def good(self) -> bool:
        return self.done and not isinstance(self.outcome, BaseException)

    def pair(self) -> Pair:
        if isinstance(self.outcome, BaseException):
            raise self.outcome
        if self.outcome is None:
            raise MeasureError("a trial was asked for its result before it had one")
        return self.measure_input, self.outcome


def as_result(outcome: Outcome) -> MeasureResult:
    """Return the result of a trial that ended, in one form whoever made it.

    A failed build becomes a result. A runner written for AutoTVM puts text and exceptions where
    costs belong; they become the message.
    """
    if isinstance(outcome, BuildResult):
        return MeasureResult(
            costs=(),
            error_no=outcome.error_no,
            all_cost=outcome.time_cost,
            timestamp=time.time(),
            error_msg=outcome.error_msg,
            extra={"resources": outcome.resources} if outcome.resources else {},
        )
    if outcome.error_no == MeasureErrorNo.NO_ERROR:
        return outcome
    foreign = [str(c) for c in outcome.costs if not isinstance(c, (int, float))]
    message = outcome.error_msg or "\n".join(reversed(foreign))
    return outcome._replace(costs=(), error_msg=message)


def _part(measure_option: Mapping[str, Any], key: str, kind: type) -> Any:
    part = measure_option.get(key) if isinstance(measure_option, Mapping) else measure_option
    if not isinstance(part, kind):
        raise MeasureError(
            f"measure_option: {key!r} must be a {kind.__name__}, got {part!r}; make the options "
            "with measure_option(builder=LocalBuilder(), runner=LocalRunner())"
        )
    return part
