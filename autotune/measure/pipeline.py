"""Build and run at the same time: trials go in at one end and come out in order at the other."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from types import TracebackType
from typing import Any

from autotune.errors import MeasureError
from autotune.measure.base import Builder, Runner, runs_on_host, target_of
from autotune.measure.run.gate import HostGate
from autotune.measure.types import BuildResult, MeasureErrorNo, MeasureInput, MeasureResult
from autotune.workload import Workload

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
        measure_option: Mapping[str, Any],
        *,
        reproducible: bool = False,
        batch_size: int | None = None,
        on_end: Callable[[MeasureInput, MeasureResult], None] = lambda *_: None,
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
        self._on_end = on_end
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

    @property
    def ready(self) -> bool:
        """Whether the oldest trial ended, so that `in_turn` has something to give."""
        return bool(self._trials) and self._trials[0].done

    def refusal(self, measure_input: MeasureInput) -> MeasureResult | None:
        """Return how a trial would fail of which it is known that it cannot run, else None.

        The template runs here, in the calling thread.
        """
        with self.host_work():
            refused = self._builder.refusal(measure_input)
        return None if refused is None else as_result(refused)

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
                self._finish(trial, _marked(as_result(built), built))
                return
            ran = self._handed_over(trial.measure_input, built)
            ran.add_done_callback(partial(self._on_run, trial, built))
        except BaseException as error:  # an exit or interrupt too: raised again in `next_results`
            trial.fail(error)

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
            self._finish(trial, built.mark(as_result(future.result())))
        except BaseException as error:  # an exit or interrupt too: raised again in `next_results`
            trial.fail(error)

    def _finish(self, trial: _Trial, result: MeasureResult) -> None:
        # What fails while all is being ended did not fail by itself.
        if self._closed and result.error_no != MeasureErrorNo.NO_ERROR:
            raise CancelledError
        self._on_end(trial.measure_input, result)
        trial.finish(result)

    def wait(self) -> None:
        """Wait for the oldest trial, if any is outstanding."""
        if self._trials:
            self._trials[0].wait()

    def in_turn(self) -> list[Pair]:
        """Return the oldest trial and all behind it that ended too, up to the first that did not.

        Raises:
            MeasureError and others: measuring cannot go on; the failure of a trial is a result.
        """
        trials = self._trials
        ready: list[Pair] = []
        # What was measured before an error is given first, the error by the next call.
        while trials and trials[0].done and (trials[0].good or not ready):
            ready.append((trials[0].measure_input, trials[0].outcome()))
            trials.popleft()
        return ready

    def next_results(self) -> list[Pair]:
        """Wait for the oldest trial, and return what `in_turn` does.

        Empty when nothing is outstanding.
        """
        self.wait()
        return self.in_turn()

    def cut_off(self) -> list[MeasureInput]:
        """Return what was submitted and has no result; after `close`, that will have none."""
        return [trial.measure_input for trial in self._trials if not trial.good]

    def leave(self) -> list[Pair]:
        """Return all that ended, in order of submission; what is under way is waited for no more.

        Also after `close`, for what ended until then.
        """
        left = [trial for trial in self._trials if trial.good]
        self._trials = deque(trial for trial in self._trials if trial not in left)
        return [(trial.measure_input, trial.outcome()) for trial in left]

    def close(self) -> None:
        """Cancel what is outstanding and end all processes.

        What was cut off so is no trial: it has no result, not even that of a failure.
        """
        with self._handing_over:
            self._closed = True
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
    """One trial on its way; it ends once, by `finish` or by `fail`."""

    def __init__(self, measure_input: MeasureInput) -> None:
        self.measure_input = measure_input
        self.done = False
        self._result: MeasureResult | None = None
        self._error: BaseException | None = None
        # Held until the end: a waiter is then woken by its own trial only.
        self._under_way = threading.Lock()
        self._under_way.acquire()

    def finish(self, result: MeasureResult) -> None:
        self._result, self.done = result, True
        self._under_way.release()

    def fail(self, error: BaseException) -> None:
        self._error, self.done = error, True
        self._under_way.release()

    @property
    def good(self) -> bool:
        """Whether it ended with a result, if only that of a failure."""
        return self.done and self._error is None

    def wait(self) -> None:
        with self._under_way:
            pass

    def outcome(self) -> MeasureResult:
        if isinstance(self._error, CancelledError):
            raise MeasureError("a trial was cancelled: its builder or runner was closed over it")
        if self._error is not None:
            raise self._error
        if self._result is None:
            raise MeasureError("a trial was asked for its result before it had one")
        return self._result


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


def _marked(result: MeasureResult, built: Outcome) -> MeasureResult:
    return built.mark(result) if isinstance(built, BuildResult) else result


def _part(measure_option: Mapping[str, Any], key: str, kind: type) -> Any:
    part = measure_option.get(key) if isinstance(measure_option, Mapping) else measure_option
    if not isinstance(part, kind):
        raise MeasureError(
            f"measure_option: {key!r} must be a {kind.__name__}, got {part!r}; make the options "
            "with measure_option(builder=LocalBuilder(), runner=LocalRunner())"
        )
    return part
