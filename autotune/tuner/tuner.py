"""The base class of tuners: the hooks of a strategy, and `tune`, which runs it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from autotune.errors import TunerError
from autotune.measure import MeasureInput, MeasureResult
from autotune.measure.objective import TIME, Objective, objective_of
from autotune.measure.option import local_option
from autotune.measure.types import Pair
from autotune.task import ConfigSpace
from autotune.tuner.display.page import page_of
from autotune.tuner.loop.result import TuneResult
from autotune.tuner.loop.resume import Records, history_of
from autotune.tuner.loop.run import Run
from autotune.tuner.loop.scoreboard import Scoreboard, ScoreboardAttribute
from autotune.tuner.loop.stop import Stop
from autotune.tuner.loop.strategy import TunerStrategy
from autotune.tuner.loop.watchers import Callback, Watchers
from autotune.utils.check import Check
from autotune.utils.si import scale
from autotune.workload import Candidate, Workload

# A plain function of trials will do.
Watcher = Callback | Callable[["Tuner", list[MeasureInput], list[MeasureResult]], None]


class Tuner:
    """Finds the best configuration of a task, by default the fastest.

    A strategy defines three methods. `next_batch` proposes configurations that were not proposed
    before; `update` learns from what was measured; `has_next` says whether anything is left. The
    loop calls `next_batch` whenever the pipeline has room, so results of earlier proposals may
    still be outstanding then.

    Args:
        task: what is tuned: a task of a template, or any other `Workload` for a strategy that
            proposes candidates of it.
        seed: makes the sequence of proposals repeatable; drawn from the system when None.

    Attributes:
        space: the task's configurations; workloads that are no templates have none.
        rng: source of all randomness of the strategy.
        best_config: best configuration so far, by the objective of `tune`, or None.
        best_flops: its operations per second (1 / seconds when the task declares none).
        best_measure_pair: its input and result.
        best_iter: how many trials came before it.
        ttl: trials left until the loop gives up, by count, by `early_stopping`, or because no more
            are left in the space.
        most_trials: trials that there will be at most, those of an earlier run included.
        time_left_s: seconds that `timeout_s` leaves; None without it.
        n_trial, early_stopping: arguments of the running `tune`.
        resumed: trials that it took from an earlier run.
        result: what the last `tune` found, also where it was interrupted; None before.
        filtered: proposals of this run that were no trials, because the template, the schedule or
            the target's limits refuse them; see `count_invalid` of `tune`.
        cut_off: proposals whose trials were under way when the last run ended; they are measured
            first by the next.
    """

    space: ConfigSpace
    best_config = ScoreboardAttribute[Candidate | None]("best_config")
    best_flops = ScoreboardAttribute[float]("best_flops")
    best_measure_pair = ScoreboardAttribute[Pair | None]("best")
    best_iter = ScoreboardAttribute[int]("best_iter")
    resumed = ScoreboardAttribute[int]("resumed")
    result = ScoreboardAttribute[TuneResult | None]("result")
    cut_off = ScoreboardAttribute[list[Candidate]]("cut_off")
    filtered = ScoreboardAttribute[int]("filtered")
    ttl = ScoreboardAttribute[int | None]("ttl")
    most_trials = ScoreboardAttribute[int | None]("most_trials")
    time_left_s = ScoreboardAttribute[float | None]("time_left_s")

    def __init__(self, task: Workload, seed: int | None = None) -> None:
        check = Check(TunerError, type(self).__name__)
        known = dir(task)
        if "config_space" not in known and "realise" not in known:  # doubles of tasks will do
            check.refuse("task", "a task, as autotune.create(name, args, target) makes it", task)
        if seed is not None:
            check.whole("seed", seed, least=0)
        self.task = task
        self.scoreboard = Scoreboard(task)
        if "config_space" in known:
            self.space = task.config_space  # type: ignore[attr-defined]
        self.seed = seed
        self.rng = np.random.default_rng(seed)
        self.n_trial: int | None = None
        self.early_stopping: int | None = None
        self.error_ct_threshold = 150

    # ---- what a strategy defines

    def has_next(self) -> bool:
        """Return whether there is anything left to propose."""
        raise NotImplementedError(f"{type(self).__name__} must define has_next()")

    def count_left(self, most: int) -> int | None:
        """Return how many configurations are left to propose; None if more than ``most``.

        Also where that is not known, as it is here.
        """
        return None

    def next_batch(self, batch_size: int) -> Sequence[Candidate]:
        """Propose up to ``batch_size`` configurations; none when the space is exhausted."""
        raise NotImplementedError(f"{type(self).__name__} must define next_batch(batch_size)")

    def update(self, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]) -> None:
        """Learn from measured trials, in the order they were proposed.

        Their costs are what `tune` minimises: seconds, or another objective in millionths.
        Also from proposals that were no trials because they cannot run, as soon as that is known;
        their results have the error `MeasureErrorNo.INSTANTIATION_ERROR`.
        """

    def load_history(self, data_set: Iterable[Pair], min_seed_records: int = 500) -> None:
        """Learn from earlier records, of this task or of others of the same template.

        Strategies that cannot use them ignore them. They are learned by their times, whatever the
        objective is.

        Raises:
            TunerError: these are no pairs of input and result.
        """
        history_of(data_set)

    def reset(self) -> None:
        """Forget the best configuration and the state of the last run."""
        self.scoreboard.reset()

    def set_error_threshold(self, threshold: int) -> None:
        """Set after how many failures in a row a warning is given."""
        Check(TunerError, "set_error_threshold").whole("threshold", threshold, least=1)
        self.error_ct_threshold = threshold

    # ---- the run

    def new_run(
        self,
        stop: Stop,
        callbacks: Sequence[Watcher] = (),
        si_prefix: str = "G",
        objective: Objective = TIME,
    ) -> Run:
        """Return a run that has not begun, to be driven with others; `tune` makes one and runs it.

        Raises:
            TunerError: a callback is invalid, or a limit is not defined for the task.
        """
        self.resumed = 0
        self.scoreboard.objective = objective
        return Run(
            TunerStrategy(self),
            self.task,
            stop,
            scoreboard=self.scoreboard,
            watchers=Watchers(self, callbacks),
            si_prefix=si_prefix,
            errors_in_a_row=self.error_ct_threshold,
        )

    @property
    def work(self) -> float:
        """Operations of one run; 1 where the task does not declare them."""
        return self.scoreboard.work

    def flops(self, result: MeasureResult) -> float:
        """Return the operations per second of a result; 0 when it failed."""
        return self.scoreboard.flops(result)

    def tune(
        self,
        n_trial: int,
        measure_option: Mapping[str, object] | None = None,
        early_stopping: int | None = None,
        callbacks: Sequence[Watcher] = (),
        si_prefix: str = "G",
        *,
        reproducible: bool = False,
        resume: Records | None = None,
        retry: bool = False,
        keep_older: bool = False,
        stop_at: float | None = None,
        timeout_s: float | None = None,
        fail_fast: int | None = 32,
        finalists: int = 5,
        count_invalid: bool = False,
        dashboard: bool | int = False,
        objective: str | Objective = TIME,
    ) -> TuneResult:
        """Propose, measure and learn until the trials are used up or the space is exhausted.

        At the end a summary is logged at level INFO and shown by `callback.progress_bar`, also of
        interrupted runs. Their result is the tuner's attribute `result`.

        Args:
            n_trial: the most trials in all, including those of ``resume``.
            measure_option: builder and runner, see `autotune.measure.measure_option`; they end
                with the run. Or a `Session`, which stays open for other runs. By default
                ``measure_option("local", "local")``, this machine.
            early_stopping: stop after this many trials without a better one.
            callbacks: functions of ``(tuner, inputs, results)``, called with each group of
                results before the strategy learns from it, or objects with a method for each
                event; see `autotune.tuner.callback`.
            si_prefix: unit of the rates in messages, such as "G" for GFLOPS.
            reproducible: build and run in whole batches, so that the same seed and the same
                measured values give the same proposals.
            resume: a log, or pairs of input and result, of an interrupted run of this task. Its
                trials count: the strategy learns from them, and they are not measured again. The
                winner of its race stays the best until a trial is faster.
            retry: whether trials that failed in ``resume`` may be measured again, for example
                after the cause of their failure was fixed.
            keep_older: whether records of ``resume`` count whose kernel had another text, other
                flags, arguments or another reference than now. Otherwise a warning says how many
                were ignored.
            stop_at: stop when a trial reaches this fraction of the device's ceiling, up to 1; the
                template must declare operations and bytes.
            timeout_s: stop proposing after this many seconds.
            fail_fast: stop if the first this many trials all fail with the same message; 0 or None
                for never.
            finalists: at the end, race this many of the best trials and the default configuration
                against each other. A fixed rule chooses among those that tie: the default if it is
                one of them. 0 or 1 for no race.
            count_invalid: whether a configuration that the template, the schedule or the target's
                limits refuse counts as a failed trial, as in AutoTVM. By default the strategy is
                told that it failed and proposes another, and `filtered` counts it; this takes
                milliseconds, as nothing is compiled.
            dashboard: whether a page in the browser shows the run; a number is its port on this
                machine. Its link is printed to standard error, and it is served by a process of
                its own until this one ends; `autotune serve LOG` shows it any time.
            objective: what is minimised: ``"time"``; ``"energy"`` of a run or ``"edp"``, energy
                times time, with a runner that measures energy (``LocalRunner(energy=True)``); or
                an `Objective`. The strategy learns from it. Only times are raced at the end.

        Returns:
            The best configuration, its time, and why the run ended.

        Raises:
            TunerError: an argument makes no sense, or nothing proposed can run.
            KeyboardInterrupt: raised again after everything was closed; callbacks have seen every
                trial that had ended, so a log is complete and can be given to ``resume``.
        """
        try:
            scale(1.0, si_prefix)
        except ValueError as error:
            raise TunerError(str(error)) from error
        check = Check(TunerError, "tune")
        check.flag("reproducible", reproducible)
        check.flag("retry", retry)
        stop = Stop(
            n_trial, early_stopping, stop_at, timeout_s, fail_fast, finalists, count_invalid
        )
        if dashboard is not False and isinstance(callbacks, Sequence):
            callbacks = [*callbacks, page_of(callbacks, dashboard)]
        wanted = objective_of("tune", objective, TunerError)
        run = self.new_run(stop, callbacks, si_prefix, wanted)
        self.n_trial, self.early_stopping = n_trial, early_stopping or None
        if resume is not None:
            run.resume(resume, retry, keep_older)
        option = local_option() if measure_option is None else measure_option
        return run.run(option, reproducible)
