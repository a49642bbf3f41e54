"""Measures batches of states one after another: TVM's interface for searches round by round."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

from autotune.auto_scheduler.errors import TuningOptionError
from autotune.auto_scheduler.measuring.measure_options import MeasureCallback
from autotune.auto_scheduler.measuring.verbose import loops_text, trial_text
from autotune.auto_scheduler.problem.search_problem import SearchProblem
from autotune.auto_scheduler.records.file import as_input
from autotune.auto_scheduler.states.loop_state import HasSteps
from autotune.auto_scheduler.states.recorded_state import RecordedState, recorded
from autotune.measure import Builder, MeasureInput, MeasureResult, Runner, Session
from autotune.utils.check import Check


class ProgramMeasurer:
    """Builds, runs, checks and counts the states that a policy proposes.

    Its processes live until `close`, or the end of a ``with``.

    Args:
        builder: ``"local"`` or a builder.
        runner: ``"local"`` or a runner.
        callbacks: called with the policy, the inputs and the results of each batch.
        verbose: 0 says nothing, 1 one character a trial, 2 shows each.
        max_continuous_error: after more failures in a row each is shown until one works; 150 if
            it is None.

    Attributes:
        ct: trials until now.
        error_ct: failures in a row.
        best_flops: workload key -> operations per second of the best.
        best_state: workload key -> the best.
        best_ct: workload key -> which trial that was.

    Example::

        with ProgramMeasurer("local", "local", [RecordToFile("log.json")]) as measurer:
            while time_is_left():
                policy.continue_search_one_round(64, measurer)
    """

    DEFAULT_MAX_CONTINUOUS_ERROR = 150

    def __init__(
        self,
        builder: Builder | str = "local",
        runner: Runner | str = "local",
        callbacks: Sequence[MeasureCallback] | None = None,
        verbose: int = 1,
        max_continuous_error: int | None = None,
    ) -> None:
        check = Check(TuningOptionError, "ProgramMeasurer")
        self.verbose = check.whole("verbose", verbose, 0)
        self.callbacks = list(check.sequence("callbacks", callbacks or (), "a list of functions"))
        most = self.DEFAULT_MAX_CONTINUOUS_ERROR
        if max_continuous_error is not None:
            most = check.whole("max_continuous_error", max_continuous_error, 1)
        self.max_continuous_error = most
        self._session = Session(builder, runner)
        self.reset()

    def reset(self) -> None:
        """Forget what was counted."""
        self.ct = self.error_ct = 0
        self.best_flops: dict[str, float] = {}
        self.best_state: dict[str, RecordedState] = {}
        self.best_ct: dict[str, int] = {}

    def measure(
        self, task: SearchProblem, policy: object, states: Iterable[HasSteps]
    ) -> tuple[list[MeasureInput], list[MeasureResult]]:
        """Measure states of a task; return the inputs and the results, in their order.

        Args:
            task: whose states they are.
            policy: what callbacks are called with.
            states: with ``transform_steps``, such as a policy's `propose` gives.
        """
        candidates = [recorded(state) for state in states]
        inputs = [MeasureInput(task.target, task, each) for each in candidates]
        self._say(f"Get {len(inputs)} programs to measure:\n")
        started = time.monotonic()
        results = []
        for candidate, (_, result) in zip(candidates, self._session.stream(inputs), strict=True):
            results.append(result)
            self._count(task, candidate, result)
        self._say(f"\nTime elapsed for measurement: {time.monotonic() - started:.2f} s\n")
        named = [as_input(inp) for inp in inputs]
        for each in self.callbacks:
            getattr(each, "callback", each)(policy, named, results)
        return inputs, results

    def _count(self, task: SearchProblem, state: RecordedState, result: MeasureResult) -> None:
        key = task.workload_key
        self.ct += 1
        self.error_ct = 0 if result.ok else self.error_ct + 1
        flops = task.flop / result.seconds if result.ok else 0.0
        # Of states that are equally fast the first is the best, as it is to a policy.
        if result.ok and flops > self.best_flops.get(key, -1.0):
            self.best_flops[key], self.best_state[key], self.best_ct[key] = flops, state, self.ct
        if self.verbose > 1 or self.error_ct > self.max_continuous_error:
            best = self.best_flops.get(key, 0.0)
            loops = loops_text(task.compute_dag, state)
            print(trial_text(self.ct, flops / 1e9, best / 1e9, result, loops))
        else:
            self._say("*" if result.ok else "*E")

    def _say(self, text: str) -> None:
        if self.verbose:
            print(text, end="", flush=True)

    def close(self) -> None:
        """End the processes."""
        self._session.close()

    def __enter__(self) -> ProgramMeasurer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
