"""A session: worker processes and devices that measure trials of any workloads until closed."""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import AbstractContextManager, nullcontext
from functools import partial

from autotune.errors import MeasureError
from autotune.measure.final.race import RaceResult, race
from autotune.measure.interfaces import Builder, Runner, runs_on_host, target_of
from autotune.measure.option_arguments import both_parts, chosen_builder, chosen_runner
from autotune.measure.outcome import Outcome, as_result, mark_result
from autotune.measure.run.host_gate import HostGate, Pausable
from autotune.measure.trial_future import Ended, TrialFuture, nobody
from autotune.measure.types import BuildResult, MeasureErrorNo, MeasureInput, MeasureResult, Pair
from autotune.workload import Candidate, Workload

# Trials per worker and per device in flight: one at work, one waiting for it.
_DEPTH = 2
# Workloads remembered as met; builder and runner may be told of one again.
_MOST_MET = 512
_NOTHING = nullcontext()


class Session(Mapping[str, object]):
    """Owns processes and devices until it is closed, and measures any workloads on them.

    The state of a workload (reference, tolerances, best so far, roofline, results of equal machine
    code) is kept per workload, so trials of many workloads may be mixed. A tuner accepts a session
    in place of a measure option, and leaves it open.

    Any thread may submit. A forked process must open a session of its own, since it has none of
    the threads that serve this one. A user's builder or runner without `mixes_tasks` gets one task
    at a time: trials of another task wait until the pending ones have ended.

    Args:
        builder, runner: the builder and the runner; ``"local"`` means the defaults on this
            machine. A measure option, or a fleet, in place of the builder provides both.

    Raises:
        MeasureError: the arguments are not a builder and a runner.

    Example::

        with Session(LocalBuilder(), LocalRunner()) as session:
            for task in tasks:
                XGBTuner(task).tune(200, session, callbacks=[log_to_file("net.log")])
    """

    def __init__(
        self,
        builder: Builder | str | Mapping[str, object] = "local",
        runner: Runner | str = "local",
    ) -> None:
        builds, runs = both_parts(builder, runner)
        self.builder: Builder = chosen_builder("Session", builds)
        self.runner: Runner = chosen_runner("Session", runs)
        self._gate = HostGate(self.builder)
        self._mixes = self.builder.mixes_tasks and self.runner.mixes_tasks
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._task: Workload | None = None
        self._met: set[Workload] = set()
        self._under_way = 0
        self._closed = False
        self._process = os.getpid()
        # A runner that is given anything while it is closed would start its processes again.
        self._handing_over = threading.Lock()

    @staticmethod
    def of(measure_option: object) -> Session:
        """Return a given session, or a new one with the builder and runner of a measure option.

        Raises:
            MeasureError: the argument is neither.
        """
        if isinstance(measure_option, Session):
            return measure_option
        return Session(
            chosen_builder("measure_option", _part(measure_option, "builder"), named=False),
            chosen_runner("measure_option", _part(measure_option, "runner"), named=False),
        )

    # ---- as a measure option

    def __getitem__(self, key: str) -> object:
        return {"builder": self.builder, "runner": self.runner}[key]

    def __iter__(self) -> Iterator[str]:
        return iter(("builder", "runner"))

    def __len__(self) -> int:
        return 2

    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other

    # ---- measuring

    def submit(
        self, workload: Workload, candidates: Iterable[Candidate]
    ) -> list[Future[MeasureResult]]:
        """Start to measure candidates of a workload; they are realised here, in this thread.

        A future can be cancelled as long as its trial has not ended; it has no result then. The
        failure of a trial is a result, with an error number.

        Raises:
            MeasureError: the workload has no target, or the session was closed.
        """
        return [self.start(inp) for inp in inputs_of(workload, candidates)]

    def measure(self, workload: Workload, candidates: Iterable[Candidate]) -> list[MeasureResult]:
        """Measure candidates of a workload, and wait for all of them.

        Args:
            workload: such as a task.
            candidates: of it, such as points of its space, ``task.config_space.get(i)``.

        Returns:
            The results, in order; the failure of a trial is a result too.

        Raises:
            MeasureError and others: measuring cannot go on.
        """
        return [result for _, result in self.stream(inputs_of(workload, candidates))]

    def stream(self, measure_inputs: Iterable[MeasureInput]) -> Iterator[Pair]:
        """Measure inputs of any workloads; yield each input with its result, in the same order.

        Inputs are consumed as capacity allows. Closing the iterator cancels pending trials.
        """
        waiting: deque[tuple[MeasureInput, Future[MeasureResult]]] = deque()
        try:
            for inp in measure_inputs:
                waiting.append((inp, self.start(inp)))
                while len(waiting) >= self.capacity or (waiting and waiting[0][1].done()):
                    yield wait_for(*waiting.popleft())
            while waiting:
                yield wait_for(*waiting.popleft())
        finally:
            for _, future in waiting:
                future.cancel()

    def race(
        self,
        measure_inputs: Sequence[MeasureInput],
        *,
        rounds: int = 60,
        least_s: float = 2e-3,
        incumbent: str | None = None,
    ) -> RaceResult:
        """Time candidates of one workload side by side; see `autotune.measure.final.race.race`.

        Args:
            measure_inputs: the candidates.
            rounds: samples of each at most.
            least_s: least seconds of one sample.
            incumbent: key of an earlier winner, which keeps its place as long as it ties.

        Raises:
            MeasureError: no finalist could be built, or the race could not be run.
        """
        if measure_inputs:
            self.prepare(measure_inputs[0].task)
        return race(measure_inputs, self, rounds=rounds, least_s=least_s, incumbent=incumbent)

    @property
    def capacity(self) -> int:
        """The number of trials that keeps all workers and devices busy; more only wait."""
        return _DEPTH * (self.builder.n_parallel + self.runner.n_parallel)

    @property
    def mixes_tasks(self) -> bool:
        """Whether trials of several tasks may be under way at once."""
        return self._mixes

    def prepare(self, workload: Workload) -> None:
        """Start the slow preparations for a workload, which its first trial would do otherwise.

        Raises:
            MeasureError: the workload has no target, the session was closed, or it belongs to the
                process from which this one was forked.
            DeviceError: there is no device for the workload.
        """
        self._require_open(workload)
        with self._lock:
            self._enter(workload)

    def _enter(self, workload: Workload) -> None:
        """Tell builder and runner of a workload that they have not met."""
        self._require_open(workload)
        if self._mixes:
            if workload in self._met:
                return
        else:
            if self._task is not None and self._task is workload:
                return
            while self._under_way:
                self._changed.wait()
        on_host = runs_on_host(target_of(workload))
        self.runner.set_task(workload)
        self.builder.set_task(workload, self.runner.get_build_kwargs())
        self.runner.share_host(self._gate if on_host else None)
        self.runner.start()
        if self._closed:  # meanwhile, and what was started would stay
            self.runner.close()
        self._require_open(workload)
        self._task = workload
        if len(self._met) >= _MOST_MET:
            self._met.clear()
        self._met.add(workload)

    def _require_open(self, workload: Workload) -> None:
        """Refuse to measure where nothing would ever come back."""
        if self._is_parents():
            raise MeasureError(
                f"{workload.name}: the session is that of process {self._process}, from which "
                "this one was forked; open one here"
            )
        if self._closed:
            raise MeasureError(f"{workload.name}: the session was closed")

    def _is_parents(self) -> bool:
        return self._process != os.getpid()

    def host_work(self, workload: Workload) -> AbstractContextManager[object]:
        """Return a context for heavy work in this process, such as fitting a model.

        Nothing is timed on this host inside it.
        """
        return self._gate.work() if runs_on_host(target_of(workload)) else _NOTHING

    def keep_still(self, bystander: Pausable) -> None:
        """Pause a process of the caller's too while kernels are timed on this host."""
        self._gate.keep_still(bystander)

    def refusal(self, measure_input: MeasureInput) -> MeasureResult | None:
        """Return how a trial would fail of which it is known that it cannot run, else None.

        The candidate is realised here, in the calling thread.
        """
        with self.host_work(measure_input.task):
            refused = self.builder.refusal(measure_input)
        return None if refused is None else as_result(refused)

    def start(self, measure_input: MeasureInput, on_end: Ended = nobody) -> TrialFuture:
        """Start one trial; what `submit` does, for one input.

        Args:
            measure_input: the candidate is realised here, in the calling thread.
            on_end: called with the input and its result, in the thread in which the trial ended,
                before the future has the result. What it raises becomes the future's exception.

        Raises:
            MeasureError: the workload has no target, or the session was closed, or is that of the
                process from which this one was forked.
        """
        self._require_open(measure_input.task)
        trial = TrialFuture(measure_input, on_end)
        with self._lock if not self._mixes else _NOTHING:
            if measure_input.task is not self._task:
                self.prepare(measure_input.task)
            self._under_way += not self._mixes
            try:
                with self.host_work(measure_input.task):
                    built = self.builder.submit(measure_input)
            except BaseException:
                self._settle()
                raise
        trial.builds(built)
        built.add_done_callback(partial(self._on_built, trial))
        return trial

    def _on_built(self, trial: TrialFuture, future: Future[Outcome]) -> None:
        """Hand what was built to the runner. Called in a thread of the builder."""
        try:
            trial.clock.built = time.time()
            built = future.result()
            if not (isinstance(built, BuildResult) and built.ok):
                self._finish(trial, mark_result(as_result(built), built, trial.clock))
                self._settle()
                return
            ran = self._hand_over(trial, built)
            ran.add_done_callback(partial(self._on_run, trial, built))
        except BaseException as error:  # an exit or interrupt too: it reaches the waiter
            trial.fail(error)
            self._settle()

    def _hand_over(self, trial: TrialFuture, built: BuildResult) -> Future[MeasureResult]:
        """Return what the runner promises; of what was given up, and after `close`, nothing."""
        with self._handing_over:
            if self._closed or trial.cancelled():
                nothing: Future[MeasureResult] = Future()
                nothing.cancel()
                return nothing
            ran = self.runner.submit(trial.measure_input, built)
        trial.runs(ran)
        return ran

    def _on_run(
        self, trial: TrialFuture, built: BuildResult, future: Future[MeasureResult]
    ) -> None:
        """Let the trial end. Called in a thread of the runner."""
        try:
            self.builder.discard(built)
            self._finish(trial, mark_result(as_result(future.result()), built, trial.clock))
        except BaseException as error:  # an exit or interrupt too: it reaches the waiter
            trial.fail(error)
        finally:
            self._settle()

    def _finish(self, trial: TrialFuture, result: MeasureResult) -> None:
        # What fails while all is being ended did not fail by itself.
        if self._closed and result.error_no != MeasureErrorNo.NO_ERROR:
            raise CancelledError
        trial.finish(result)

    def _settle(self) -> None:
        """Note that a trial has ended, for which trials of other tasks may be waiting."""
        if self._mixes:
            return
        with self._lock:
            self._under_way -= 1
            if not self._under_way:
                self._changed.notify_all()

    # ---- ending

    def close(self) -> None:
        """Cancel pending trials and end all processes.

        A cancelled trial has no result, not even a failure. In a forked process, closing the
        session of its parent does nothing.
        """
        if self._is_parents():
            return
        with self._handing_over:
            self._closed = True
        # The runner first: it may be holding the builder in a pause.
        try:
            self.runner.close()
        finally:
            self.builder.close()

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def inputs_of(workload: Workload, candidates: Iterable[Candidate]) -> list[MeasureInput]:
    """Return the trials of some candidates of a workload.

    Raises:
        MeasureError: the workload has no target.
    """
    target = target_of(workload)
    return [MeasureInput(target, workload, one) for one in candidates]


def wait_for(inp: MeasureInput, future: Future[MeasureResult]) -> Pair:
    """Wait for a trial, and return it with its result.

    Raises:
        MeasureError and others: measuring cannot go on.
    """
    try:
        return inp, future.result()
    except CancelledError:
        raise MeasureError(
            "a trial was cancelled: its builder or runner was closed over it"
        ) from None


def _part(measure_option: object, key: str) -> object:
    return measure_option.get(key) if isinstance(measure_option, Mapping) else measure_option
