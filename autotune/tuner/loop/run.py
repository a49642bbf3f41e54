"""One strategy at work on one workload: proposals are measured, results are learned from."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence

from autotune.measure import Pipeline, Session
from autotune.measure.types import Pair
from autotune.task import GLOBAL_SCOPE
from autotune.tuner.loop.clock import RunClock
from autotune.tuner.loop.failures import Failures
from autotune.tuner.loop.final_race import FinalRace
from autotune.tuner.loop.proposals import Proposals
from autotune.tuner.loop.result import TuneResult, continued_by, default_of, ended_by, trial_of
from autotune.tuner.loop.resume import Records, earlier
from autotune.tuner.loop.scoreboard import Scoreboard
from autotune.tuner.loop.stop import RunProgress, Stop
from autotune.tuner.loop.strategy import Strategy
from autotune.tuner.loop.watchers import Watchers
from autotune.utils.interrupts import interrupts_deferrable, interrupts_deferred
from autotune.workload import Candidate, Workload

logger = logging.getLogger("autotvm")

# Trials before failures are first summed up, and failures in a row before a warning.
FIRST_REPORT, ERRORS_IN_A_ROW = 16, 150
_EXHAUSTED = "the space is exhausted"
# At the end trials that are built are waited for so long before the race: those compiled, and a
# device would be at work on some of them for about as long.
_GRACE_S = 5.0


class Run:
    """Drives one strategy until a condition of its `Stop` is met.

    `run` does everything. To drive many runs on one session, let each `advance` by some trials at
    a time, and `finish` at the end.

    Args:
        strategy: proposes and learns.
        workload: the workload to be tuned.
        stop: the conditions for the end.
        scoreboard: the state after earlier runs of the strategy, which this run continues.
        watchers: are notified of trials.
        si_prefix: unit of rates in messages.
        errors_in_a_row: number of failures before a warning.

    Attributes:
        measured: the number of ended trials, including those of an earlier run.
        failures: the failures by kind.

    Raises:
        TunerError: a limit of ``stop`` is not defined for the workload.

    Example::

        with Session() as session:
            runs = [RandomTuner(task).new_run(Stop(n_trial=500)) for task in tasks]
            while any([run.advance(session, 32) for run in runs]):
                pass
            results = [run.finish(session) for run in runs]
    """

    def __init__(
        self,
        strategy: Strategy,
        workload: Workload,
        stop: Stop,
        *,
        scoreboard: Scoreboard | None = None,
        watchers: Watchers | None = None,
        si_prefix: str = "G",
        errors_in_a_row: int = ERRORS_IN_A_ROW,
    ) -> None:
        stop.check_for(workload)
        self.strategy = strategy
        self.workload = workload
        self.stop = stop
        self.scoreboard = scoreboard or Scoreboard(workload)
        self._objective = self.scoreboard.objective
        self.watchers = watchers or Watchers(strategy, ())
        self.failures = Failures()
        self.submitted = self.measured = 0
        self._si_prefix = si_prefix
        self._errors_in_a_row = errors_in_a_row
        self._proposals = Proposals(strategy, self.scoreboard, screened=not stop.count_invalid)
        self._race = FinalRace(workload, stop.finalists, self._objective)
        self._warned = False
        self._reported = False
        self._why = ""
        self._host_note = ""
        self._clock = RunClock(stop.timeout_s)

    def resume(self, records: Records, retry: bool = False, keep_older: bool = False) -> None:
        """Learn from the trials of an earlier run of the same workload, and count them."""
        known = earlier(self.workload, records, retry, keep_older, objective=self._objective)
        if not known.trials:
            return
        self._keep(known.trials)
        self._proposals.drop({inp.key for inp, _ in known.trials})
        self.failures.recall([res for _, res in known.trials])
        if known.best is not None:
            self._race.decide(known.best)
            self.scoreboard.set_winner(*known.best)
        self.strategy.tell([self._objective.as_minimised(pair) for pair in known.trials])
        self.submitted = self.scoreboard.resumed = self.measured
        logger.info("resumed from %d trials of %s", self.measured, self.workload.name)

    def run(self, measure_option: Mapping[str, object], reproducible: bool = False) -> TuneResult:
        """Measure until a reason to stop is met; say what was found, whatever ended it.

        Args:
            measure_option, reproducible: as of `Tuner.tune`.
        """
        GLOBAL_SCOPE.in_tuning = True
        try:
            self._begin()
            with interrupts_deferrable():
                self._run(measure_option, reproducible)
        except BaseException as error:
            self._why = ended_by(error, self._goes_on)
            raise
        finally:
            GLOBAL_SCOPE.in_tuning = False
            result = self._report()
        return result

    @property
    def _goes_on(self) -> str:
        """How a user continues from the log of this run; empty if there is no log."""
        return continued_by(self.workload) if self.watchers.keeps_trials else ""

    @property
    def over(self) -> bool:
        """Whether a reason to stop was met: there are no more trials."""
        return bool(self._why) or self.measured >= self.stop.n_trial

    def advance(
        self,
        session: Session,
        trials: int,
        reproducible: bool = False,
        timeout_s: float | None = None,
    ) -> list[Pair]:
        """Measure some more trials, or fewer if a condition to stop is met.

        Args:
            session: builds and runs.
            trials: how many.
            reproducible: see `Tuner.tune`.
            timeout_s: seconds after which pending trials are left to the next call.

        Returns:
            The trials in the order in which they were proposed.
        """
        self._clock.pause_in(timeout_s)
        self._begin()
        if not self._wants_more():
            return []
        line = self._line(session, reproducible)
        try:
            with line, interrupts_deferrable():
                fed = self._feed(line, self.measured + trials, reproducible)
        finally:
            left = self._cut_off(line)
        self._learn(line, left)
        return fed + left

    def suggest(self, candidates: Sequence[Candidate]) -> None:
        """Let candidates be tried next, before the strategy proposes; those tried are left out."""
        self._proposals.suggest(candidates)

    def best_candidates(self, most: int) -> list[Candidate]:
        """Return the best candidates so far, the best first."""
        return self._race.best_candidates(most)

    def halt(self, why: str) -> None:
        """Let an `advance` that another thread is in end soon; there will be no other."""
        self._why = why

    def finish(self, session: Session) -> TuneResult:
        """Let the best trials race, and say what was found."""
        try:
            self._hold_race(session)
        finally:
            self._host_note = session.runner.host_note_of(self.workload)
            result = self._report()
        return result

    def _begin(self) -> None:
        first = self._clock.begin()
        self._note_left()
        if first:
            self.watchers.tuning()

    def _wants_more(self) -> bool:
        more = self._may_go_on()
        if more and self._proposals.exhausted:
            more, self._why = False, _EXHAUSTED
        return more

    def _run(self, measure_option: Mapping[str, object], reproducible: bool) -> None:
        if not self._wants_more() and not self._race.field(Session.of(measure_option)):
            return
        line = self._line(measure_option, reproducible)
        try:
            self._measure(line, reproducible)
        except KeyboardInterrupt:
            told = f"; the log is complete, continue it with {self._goes_on}"
            logger.warning(
                "interrupted after %d trials%s", self.measured, told if self._goes_on else ""
            )
            raise
        finally:
            self._host_note = line.session.runner.host_note_of(self.workload)

    def _measure(self, line: Pipeline, whole_batches: bool) -> None:
        try:
            with line:
                self._feed(line, self.stop.n_trial, whole_batches)
                self._leave(line)
                # While the processes that build and measure are still there.
                if self._race.field(line.session):
                    line.settle(_GRACE_S, line.session.runner.timeout)
                    self._leave(line)
                    self._hold_race(line.session)
        finally:
            self._cut_off(line)

    def _line(self, measure_option: Mapping[str, object], reproducible: bool) -> Pipeline:
        self._objective.check_option(measure_option)
        ended = self.watchers.trial_ended
        line = Pipeline(self.workload, measure_option, reproducible=reproducible, on_end=ended)
        self.watchers.measuring(line.session)
        return line

    def _cut_off(self, line: Pipeline) -> list[Pair]:
        """Keep what a closed pipeline gave up for the next time; show what it did not."""
        self._proposals.give_back([inp.config for inp in line.cut_off()])
        left = self._leave(line)
        self.submitted = self.measured
        return left

    def _feed(self, line: Pipeline, most: int, whole_batches: bool) -> list[Pair]:
        """Measure until there are enough trials in all, or a condition to stop is met."""
        fed: list[Pair] = []
        most = min(most, self.stop.n_trial)
        first_report = min(max(line.capacity, FIRST_REPORT), self.stop.n_trial)
        while self.measured < most and self._may_go_on():
            self._fill(line, most, whole_batches)
            if not line.outstanding:
                if not self._why and not self._clock.paused:  # nothing that can run
                    self._why = self._proposals.screening.end(self.measured) or _EXHAUSTED
                break
            pairs = self._take(line)
            while whole_batches and line.outstanding and self._clock.left_s != 0:
                pairs += self._take(line)
            if pairs:  # else there is only room
                self._learn(line, pairs)
            fed += pairs
            if not self._reported and self.measured >= first_report:
                self._reported = True
                self.failures.print_summary(self.measured, final=False)
        return fed

    def _take(self, line: Pipeline) -> list[Pair]:
        """Wait for the oldest trial, room behind it, or the end of time; show those in turn."""
        line.wait_for_room(self._clock.left_s)
        with interrupts_deferred():  # what has left the pipeline must reach every callback
            return self._show(line.in_turn())

    def _leave(self, line: Pipeline) -> list[Pair]:
        """Show the results that waited behind a trial that was given up."""
        with interrupts_deferred():
            return self._show(line.leave())

    def _show(self, pairs: list[Pair]) -> list[Pair]:
        self._take_note(pairs)
        self.watchers.in_turn(pairs)
        return pairs

    def _learn(self, line: Pipeline, pairs: Sequence[Pair]) -> None:
        """Let the strategy learn; that may take long, so what it learns from is logged by now."""
        if pairs:
            with line.host_work():
                self.strategy.tell([self._objective.as_minimised(pair) for pair in pairs])

    def _fill(self, line: Pipeline, most: int, whole_batches: bool) -> None:
        """Propose as much as there is room for, and what can run becomes a trial."""
        proposals = self._proposals
        room = min(line.room(), most - self.submitted)
        while room > 0 and (inp := proposals.first(line, room)) is not None:
            if proposals.passes(line, inp):
                line.submit([inp])
                self.submitted, room = self.submitted + 1, room - 1
                continue
            if proposals.screening.hopeless or not self._may_go_on():
                return
            if line.ready and not whole_batches:  # nobody waits for a long search
                return

    def _keep(self, pairs: Sequence[Pair]) -> None:
        for inp, res in pairs:
            self._proposals.note_tried(inp.key)
            self.scoreboard.note(self.measured, inp, res)
            if res.ok:
                self._race.trials.append((inp, res))
            self.measured += 1
            if logger.isEnabledFor(logging.DEBUG):
                line = self.scoreboard.line(inp, res, self._si_prefix)
                logger.debug("No: %d\t%s", self.measured, line)

    def _take_note(self, pairs: Sequence[Pair]) -> None:
        """Keep trials of this run, and warn where nothing seems to work."""
        self._keep(pairs)
        self._note_left()
        for _, res in pairs:
            self.failures.add(res)
        if self.failures.in_a_row > self._errors_in_a_row and not self._warned:
            self._warned = True
            logger.warning("%d trials in a row failed", self.failures.in_a_row)
            self.failures.print_summary(self.measured, final=False)

    def _may_go_on(self) -> bool:
        """Return whether another trial may be measured; note why not."""
        board, stop = self.scoreboard, self.stop
        if self._why or self.measured >= stop.n_trial or self._clock.paused:
            return False
        elapsed_s, alike = self._clock.elapsed_s, self.failures.alike
        state = RunProgress(self.measured, board.best_iter, elapsed_s, self._fraction(), alike)
        self._why = stop.reason(state)
        if self._why and stop.fail_fast and alike >= stop.fail_fast:
            logger.warning(
                "stopped: %s; fix that first, then tune again; with resume= also retry=True",
                self._why,
            )
        return not self._why

    def _note_left(self) -> None:
        """Let watchers know what is still to come at most."""
        board, stop = self.scoreboard, self.stop
        most = self.submitted + self._proposals.count_left(max(0, stop.n_trial - self.submitted))
        board.most_trials = most
        board.ttl = max(0, min(most, stop.last_trial(board.best_iter)) - self.measured)
        board.time_left_s = self._clock.run_left_s

    def _fraction(self) -> float:
        """Return the fraction of the device's ceiling that the best trial reached."""
        best = self.scoreboard.best
        return float(best[1].evidence.roofline or 0.0) if best else 0.0

    def _hold_race(self, session: Session) -> None:
        """Let the best trials run side by side, and take the winner for the best."""
        winner = self._race.hold(session)
        if winner is not None:
            self.scoreboard.set_winner(*winner)
            self.watchers.raced(*winner)

    def _report(self) -> TuneResult:
        """Sum up, whatever ended the run."""
        self._note_left()
        result = self.scoreboard.result = self._result()
        self.failures.print_summary(self.measured, final=True)
        if self.failures and result.best_config is None:
            self.failures.report_all_failed(self.workload)
        logger.info("tuned %s", result)
        self.watchers.tuned(result)
        if not self.watchers.show_results and not logger.isEnabledFor(logging.INFO):
            for note in result.notes:  # the summary says it, where it can be seen
                logger.warning("%s: %s", self.workload.name, note)
        return result

    def _result(self) -> TuneResult:
        """Return the result of the run so far."""
        best, board, measured = self.scoreboard.best, self.scoreboard, self._race.default
        default = default_of(best[1]) if best else None
        if default is None and measured is not None:
            default = measured[1].seconds
        return TuneResult(
            task=self.workload,
            best_config=best[0].config if best else None,
            seconds=best[1].seconds if best else math.inf,
            spread=best[1].spread if best else None,
            default_seconds=default,
            objective=self._objective.name,
            energy=best[1].evidence.energy if best else None,
            default_joules=measured[1].joules if measured else None,
            trials=self.measured,
            resumed=board.resumed,
            failures=self.failures.kinds,
            stop_reason=self._why or self.stop.all_made,
            log=self.watchers.log,
            wall_s=self._clock.wall_s,
            trial_seconds=trial_of(best[1]) if best else None,
            filtered=board.filtered,
            filtered_why=self._proposals.screening.example,
            notes=tuple(filter(None, [self._host_note, self._race.note])),
        )
