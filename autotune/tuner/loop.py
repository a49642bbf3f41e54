"""The loop of a tuner: proposals go into the pipeline, results come out and are learned from."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autotune.errors import MeasureError
from autotune.measure import MeasureInput, MeasureResult, Pipeline, Runner
from autotune.record.best import beaten_by
from autotune.task import GLOBAL_SCOPE
from autotune.tuner.failures import Failures
from autotune.tuner.finalists import (
    can_race,
    finalists,
    measured_default,
    run_off,
    with_default,
)
from autotune.tuner.result import TuneResult, default_of, ended_by, trial_of
from autotune.tuner.resume import Records, earlier
from autotune.tuner.screening import Screening
from autotune.utils.interrupts import interrupts_deferred
from autotune.utils.si import scale

if TYPE_CHECKING:
    from autotune.tuner.tuner import Tuner

logger = logging.getLogger("autotvm")

# Trials before failures are first summed up.
FIRST_REPORT = 16
_EXHAUSTED = "the space is exhausted"

Pair = tuple[MeasureInput, MeasureResult]
Callback = Callable[..., None]


@dataclass(frozen=True)
class Stop:
    """When a loop ends; see `Tuner.tune`."""

    n_trial: int
    early_stopping: int | None
    stop_at: float | None
    timeout_s: float | None
    fail_fast: int | None
    finalists: int
    count_invalid: bool


class Loop:
    """One call of `Tuner.tune`.

    Args:
        tuner: the strategy.
        stop: when to end.
        callbacks: called with the tuner, inputs and results; see `autotune.tuner.callback`.
        si_prefix: unit of rates in messages.
    """

    def __init__(
        self, tuner: Tuner, stop: Stop, callbacks: Sequence[Callback], si_prefix: str
    ) -> None:
        self.tuner = tuner
        self.stop = stop
        self.callbacks = callbacks
        self._at_once = [c for c in callbacks if getattr(c, "at_once", False)]
        self._in_turn = [c for c in callbacks if c not in self._at_once]
        self._logging = threading.Lock()
        self.si_prefix = si_prefix
        self.failures = Failures()
        self.submitted = self.measured = 0
        self._since_success = 0
        # Proposed, but not tried yet.
        self._again = tuner.cut_off
        self._screening = Screening(tuner, active=not stop.count_invalid)
        self._good: list[Pair] = []
        # Keys that a race has put behind its winner.
        self._decided: set[str] = set()
        self._default: Pair | None = None
        self._warned = False
        self._why = ""
        self._runner: Runner | None = None
        self._started = time.monotonic()

    # ---- resuming

    def resume(self, records: Records, retry: bool, keep_older: bool) -> None:
        """Learn from an earlier run of the same task, as if it had just been measured."""
        known = earlier(self.tuner.task, records, retry, keep_older)
        if not known.trials:
            return
        inputs, results = [inp for inp, _ in known.trials], [res for _, res in known.trials]
        self._keep(known.trials)
        measured = {inp.key for inp in inputs}
        self._again[:] = [config for config in self._again if config.key not in measured]
        self.failures.recall(results)
        if known.best is not None:
            self._crown(known.best)
        self.tuner.update(inputs, results)
        self.submitted = self.tuner.resumed = self.measured
        logger.info("resumed from %d trials of %s", self.measured, self.tuner.task.name)

    # ---- running

    def run(self, measure_option: Mapping[str, Any], reproducible: bool) -> TuneResult:
        """Measure until a reason to stop is met; say what was found, whatever ended it."""
        deadline = None if self.stop.timeout_s is None else time.time() + self.stop.timeout_s
        GLOBAL_SCOPE.in_tuning = True
        try:
            self._tell("tuning")
            self._run(measure_option, reproducible, deadline)
        except BaseException as error:
            self._why = ended_by(error)
            raise
        finally:
            GLOBAL_SCOPE.in_tuning = False
            result = self._report()
        return result

    def _run(
        self, measure_option: Mapping[str, Any], reproducible: bool, deadline: float | None
    ) -> None:
        more = self._may_go_on(deadline)
        if more and not self._again and not self.tuner.has_next():
            more, self._why = False, _EXHAUSTED
        if not more and not self._finalists(measure_option):
            return
        task = self.tuner.task
        line = Pipeline(task, measure_option, reproducible=reproducible, on_end=self._log)
        self._runner = measure_option["runner"]
        try:
            self._measure(line, measure_option, deadline, reproducible)
        except KeyboardInterrupt:
            logger.warning(
                "interrupted after %d trials; the log is complete, continue it with resume=",
                self.measured,
            )
            raise

    def _measure(
        self,
        line: Pipeline,
        measure_option: Mapping[str, Any],
        deadline: float | None,
        whole_batches: bool,
    ) -> None:
        try:
            with line:
                self._feed(line, deadline, whole_batches)
                self._leave(line)
                # While the processes that build and measure are still there.
                self._race(measure_option)
        finally:
            self._again += [inp.config for inp in line.cut_off()]
            self._leave(line)

    def _finalists(self, measure_option: Mapping[str, Any]) -> list[Pair]:
        """Return the trials that a race must decide between; none when there is no such need."""
        field = finalists(self._good, self.stop.finalists)
        decided = self._decided.issuperset(inp.key for inp, _ in field)
        wanted = self.stop.finalists > 1 and not decided
        return field if wanted and can_race(measure_option) else []

    def _race(self, measure_option: Mapping[str, Any]) -> None:
        """Let the best trials run side by side, and take the winner for the best."""
        field = self._finalists(measure_option)
        if not field:
            return
        try:
            self._default = measured_default(self.tuner.task, self._good, measure_option)
            field = with_default(field, self._default)
            if len(field) < 2:
                return
            key = self._default[0].key if self._default else None
            inp, result = run_off(field, self._good, measure_option, key)
        except MeasureError as error:
            logger.warning("the best trials could not be raced, the fastest stays: %s", error)
            return
        self._crown((inp, result))
        self._tell("raced", inp, result)

    def _tell(self, event: str, *what: object) -> None:
        """Call all callbacks that ask for an event; a plain function watches trials only."""
        with ExitStack() as calls:
            for callback in reversed(self.callbacks):
                if callable(asked := getattr(callback, event, None)):
                    calls.callback(asked, self.tuner, *what)

    def _crown(self, best: Pair) -> None:
        self._decided = beaten_by(best[1])
        self.tuner.crown(*best)

    def _feed(self, line: Pipeline, deadline: float | None, whole_batches: bool) -> None:
        first_report = min(max(line.capacity, FIRST_REPORT), self.stop.n_trial)
        while self._may_go_on(deadline):
            self._fill(line, deadline, whole_batches)
            if not line.outstanding:  # nothing proposed that can run
                self._why = self._why or self._screening.end(self.measured) or _EXHAUSTED
                return
            pairs = self._take(line, deadline)
            while whole_batches and line.outstanding and not _is_over(deadline):
                pairs += self._take(line, deadline)
            self._learn(line, pairs)
            if first_report and self.measured >= first_report:
                first_report = 0
                self.failures.print_summary(self.measured, final=False)

    def _log(self, measure_input: MeasureInput, result: MeasureResult) -> None:
        """Show a trial that just ended to those who must not lose any, in whatever thread."""
        with self._logging:
            self._call(self._at_once, [(measure_input, result)])

    def _take(self, line: Pipeline, deadline: float | None) -> list[Pair]:
        """Wait for the oldest trial, and show those in turn to the callbacks.

        None where the time is over first: a trial may wait long, for the reference above all.
        """
        line.wait(None if deadline is None else max(0.0, deadline - time.time()))
        # What has left the pipeline must reach every callback, whatever is interrupted.
        with interrupts_deferred():
            return self._show(line.in_turn())

    def _leave(self, line: Pipeline) -> None:
        """Show what ended behind a trial that nobody waits for any more."""
        with interrupts_deferred():
            self._show(line.leave())

    def _show(self, pairs: list[Pair]) -> list[Pair]:
        self._take_note(pairs)
        self._call(self._in_turn, pairs)
        return pairs

    def _call(self, callbacks: Sequence[Callback], pairs: Sequence[Pair]) -> None:
        """Call all of them, even if one fails."""
        inputs, results = [inp for inp, _ in pairs], [res for _, res in pairs]
        with ExitStack() as calls:
            for callback in reversed(callbacks if pairs else ()):
                calls.callback(callback, self.tuner, inputs, results)

    def _learn(self, line: Pipeline, pairs: Sequence[Pair]) -> None:
        """Let the strategy learn; that may take long, so what it learns from is logged by now."""
        with line.host_work():
            self.tuner.update([inp for inp, _ in pairs], [res for _, res in pairs])

    def _fill(self, line: Pipeline, deadline: float | None, whole_batches: bool) -> None:
        """Propose as much as there is room for, and what can run becomes a trial."""
        task, screening = self.tuner.task, self._screening
        room = min(line.room(), self.stop.n_trial - self.submitted)
        while room > 0:
            if not self._again and not self._propose(line, room):
                return
            inp = MeasureInput(task.target, task, self._again[0])  # type: ignore[arg-type]
            passes = screening.passes(line, inp)
            del self._again[0]
            if passes:
                line.submit([inp])
                self.submitted, room = self.submitted + 1, room - 1
                continue
            if screening.hopeless or not self._may_go_on(deadline):
                return
            if line.ready and not whole_batches:  # nobody waits for a long search
                return

    def _propose(self, line: Pipeline, most: int) -> bool:
        """Let the strategy propose; say whether it did."""
        self._screening.teach(line)
        if self._screening.hopeless or not self.tuner.has_next():
            return False
        with line.host_work():
            self._again += self.tuner.next_batch(most)
        return bool(self._again)

    def _keep(self, pairs: Sequence[Pair]) -> None:
        for inp, res in pairs:
            self.tuner.note(self.measured, inp, res)
            if res.ok:
                self._good.append((inp, res))
            self.measured += 1
            if logger.isEnabledFor(logging.DEBUG):
                self._describe(inp, res)

    def _take_note(self, pairs: Sequence[Pair]) -> None:
        """Keep trials of this run, and warn where nothing seems to work."""
        self._keep(pairs)
        tuner = self.tuner
        for _, res in pairs:
            self.failures.add(res)
            self._since_success = 0 if res.ok else self._since_success + 1
        if self._since_success > tuner.error_ct_threshold and not self._warned:
            self._warned = True
            logger.warning("%d trials in a row failed", self._since_success)
            self.failures.print_summary(self.measured, final=False)

    def _describe(self, inp: MeasureInput, res: MeasureResult) -> None:
        tuner, unit = self.tuner, self.si_prefix
        logger.debug(
            "No: %d\t%sFLOPS: %.2f/%.2f\tresult: %s\t%s", self.measured, unit,
            scale(tuner.flops(res), unit), scale(tuner.best_flops, unit), res, inp.config,
        )  # fmt: skip

    def _may_go_on(self, deadline: float | None) -> bool:
        """Return whether another trial may be measured; note why not."""
        stop, tuner = self.stop, self.tuner
        limits = [stop.n_trial]
        if stop.early_stopping is not None:
            limits.append(tuner.best_iter + stop.early_stopping)
        tuner.ttl = max(0, min(limits) - self.measured)
        if self._why or self.measured >= stop.n_trial:
            return False
        if stop.early_stopping is not None and self.measured >= limits[-1] > 0:
            self._why = f"early stopping: the best is trial {tuner.best_iter + 1}"
        elif _is_over(deadline):
            self._why = f"the time of {stop.timeout_s:g} s is used up"
        elif stop.stop_at is not None and self._fraction() >= stop.stop_at:
            self._why = f"the best reaches {self._fraction():.0%} of the device's ceiling"
        elif stop.fail_fast and self.failures.alike >= stop.fail_fast:
            self._why = f"the first {self.failures.alike} trials all failed with the same message"
            logger.warning(
                "stopped: %s; mend that first, then tune again; with resume= also retry=True",
                self._why,
            )
        return not self._why

    def _fraction(self) -> float:
        """Return the fraction of the device's ceiling that the best trial reached."""
        best = self.tuner.best_measure_pair
        return float(best[1].extra.get("roofline", 0.0)) if best else 0.0

    # ---- ending

    def _report(self) -> TuneResult:
        """Sum up, whatever ended the run."""
        result = self.tuner.result = self._result()
        self.failures.print_summary(self.measured, final=True)
        if self.failures and result.best_config is None:
            self.failures.report_all_failed(self.tuner.task)
        logger.info("tuned %s", result)
        self._tell("tuned", result)
        shown = any(hasattr(callback, "tuned") for callback in self.callbacks)
        if not shown and not logger.isEnabledFor(logging.INFO):
            for note in result.notes:  # the summary says it, where it can be seen
                logger.warning("%s: %s", self.tuner.task.name, note)
        return result

    def _result(self) -> TuneResult:
        """Return what is known by now."""
        best = self.tuner.best_measure_pair
        default = default_of(best[1]) if best else None
        if default is None and self._default is not None:
            default = self._default[1].seconds
        paths = [getattr(callback, "path", None) for callback in self.callbacks]
        return TuneResult(
            task=self.tuner.task,
            best_config=best[0].config if best else None,
            seconds=best[1].seconds if best else math.inf,
            spread=best[1].spread if best else None,
            default_seconds=default,
            trials=self.measured,
            resumed=self.tuner.resumed,
            failures=self.failures.kinds,
            stop_reason=self._why or f"all {self.stop.n_trial} trials were made",
            log=next((p for p in paths if isinstance(p, Path)), None),
            wall_s=time.monotonic() - self._started,
            trial_seconds=trial_of(best[1]) if best else None,
            filtered=self.tuner.filtered,
            filtered_why=self._screening.example,
            notes=tuple(
                filter(None, [self._runner.host_note_of(self.tuner.task) if self._runner else ""])
            ),
        )


def _is_over(deadline: float | None) -> bool:
    return deadline is not None and time.time() >= deadline
