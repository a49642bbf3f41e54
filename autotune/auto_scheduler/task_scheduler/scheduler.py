"""The scheduler of tasks: one budget of trials for all tasks of a network."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from autotune.auto_scheduler.cost_model import CostModel, RandomModel, XGBModel
from autotune.auto_scheduler.errors import TuningOptionError
from autotune.auto_scheduler.measuring.measure_options import TuningOptions
from autotune.auto_scheduler.search.params import Param
from autotune.auto_scheduler.search_policy import (
    PreloadMeasuredStates,
    SearchPolicy,
    SketchPolicy,
)
from autotune.auto_scheduler.search_task import SearchTask
from autotune.auto_scheduler.task_scheduler.allocation import (
    Allocation,
    Gradient,
    Objective,
    RoundRobin,
)
from autotune.auto_scheduler.task_scheduler.arguments import (
    checked_objective,
    checked_strategy,
    checked_tasks,
    checked_weights,
    trials_per_round,
)
from autotune.auto_scheduler.task_scheduler.callbacks import (
    LogEstimatedLatency,
    PrintTableInfo,
    TaskSchedulerCallback,
)
from autotune.auto_scheduler.task_scheduler.progress import TaskProgress
from autotune.auto_scheduler.task_scheduler.rounds import TaskRounds
from autotune.errors import MeasureError
from autotune.measure import Session
from autotune.tuner.loop.finalists import finalists, race_finalists
from autotune.utils.check import Check

logger = logging.getLogger("auto_scheduler")

# Rounds under way at once: while one is measured, the next is proposed.
_AT_ONCE = 2
# A task is tried while a better one is measured, if it promises this part of what that does.
_WORTH = 0.25
_FINALISTS = 4
_POLICIES = ("default", "sketch.xgb", "sketch.random")


class TaskScheduler:
    """Divides trials among the tasks of a network such that the whole network becomes fast.

    All tasks are measured on one session, so their rounds overlap and processes are reused. A task
    without a working trial, or whose space is exhausted, gets no more trials; failures are
    summarised at the end. Finally the best candidates of each task race, as in `SearchTask.tune`.

    Args:
        tasks: the tasks to be tuned.
        task_weights: how often the network runs each task; 1 by default.
        objective_func: computes the seconds of the network from the list of each task's best
            seconds; by default their weighted sum.
        strategy: ``"gradient"`` gives each round to the task with the largest expected gain per
            second, ``"round-robin"`` to each task in turn.
        load_model_file: a cost model that `XGBModel.save` wrote, if it exists; it is overwritten
            at the end.
        load_log_file: a log of an earlier run, whose trials count and are learned from.
        alpha: weight of the gain of the last rounds, as opposed to an optimistic estimate.
        beta: how much faster than similar tasks a task is expected to become at most.
        gamma: not used, as in TVM.
        backward_window_size: number of past rounds from which a gain is estimated.
        callbacks: by default `PrintTableInfo` and `LogEstimatedLatency`.

    Attributes:
        progress: the progress of each task.
        tic: when `tune` began, in seconds of `time.time`.

    Raises:
        TuningOptionError: an argument is invalid.

    Example::

        tuner = TaskScheduler(tasks, weights)
        tuner.tune(TuningOptions(200 * len(tasks), measure_callbacks=[RecordToFile("net.json")]))
    """

    def __init__(
        self,
        tasks: Sequence[SearchTask],
        task_weights: Sequence[float] | None = None,
        objective_func: Objective | None = None,
        strategy: str = "gradient",
        load_model_file: str | Path | None = None,
        load_log_file: str | Path | None = None,
        alpha: float = 0.2,
        beta: float = 2,
        gamma: float = 0.5,
        backward_window_size: int = 3,
        callbacks: Sequence[TaskSchedulerCallback] | None = None,
    ) -> None:
        del gamma
        check = Check(TuningOptionError, "TaskScheduler")
        self.tasks = checked_tasks(tasks)
        self.task_weights = checked_weights(self.tasks, task_weights)
        self.objective_func = checked_objective(objective_func or self._weighted_sum)
        self.strategy = checked_strategy(strategy)
        self.load_model_file = load_model_file
        self.load_log_file = load_log_file
        self._allocation: Allocation = (
            RoundRobin()
            if strategy == "round-robin"
            else Gradient(self.objective_func, alpha, beta, backward_window_size)
        )
        self.callbacks = (
            [PrintTableInfo(), LogEstimatedLatency()]
            if callbacks is None
            else list(check.sequence("callbacks", callbacks, "a list of TaskSchedulerCallback"))
        )
        self.progress: list[TaskProgress] = []
        self._first_costs = [math.inf] * len(self.tasks)
        self.num_measures_per_round = 0
        self.best_score = math.inf
        self.best_ct = 0
        self.tic = time.time()

    # ---- what is known by now

    @property
    def ct(self) -> int:
        """Trials that were made."""
        return sum(each.trials for each in self.progress)

    @property
    def best_costs(self) -> list[float]:
        """Seconds of the best kernel of each task; infinite if there is none."""
        return [each.seconds for each in self.progress] or self._first_costs

    @best_costs.setter
    def best_costs(self, seconds: Sequence[float]) -> None:
        """Set what is known of each task before anything is measured."""
        if len(seconds) != len(self.tasks):
            raise TuningOptionError(f"best_costs: expected {len(self.tasks)}, got {seconds!r}")
        self._first_costs = list(map(float, seconds))
        for each, cost in zip(self.progress, self._first_costs, strict=False):
            each.settle(cost)

    @property
    def task_cts(self) -> list[int]:
        """Rounds of each task."""
        return [each.rounds for each in self.progress]

    @property
    def dead_tasks(self) -> set[int]:
        """Tasks that get no more trials."""
        return {i for i, each in enumerate(self.progress) if each.finished}

    @property
    def cur_score(self) -> float:
        """The objective of the best kernels, in seconds; infinite as long as one is missing."""
        costs = self.best_costs
        return self.objective_func(costs) if all(map(math.isfinite, costs)) else math.inf

    def _weighted_sum(self, costs: list[float]) -> float:
        return sum(w * cost for w, cost in zip(self.task_weights, costs, strict=True))

    # ---- tuning

    def tune(
        self,
        tune_option: TuningOptions,
        search_policy: str | Sequence[SearchPolicy] = "default",
        search_policy_params: Mapping[str, Param] | None = None,
        adaptive_training: bool = False,
        per_task_early_stopping: int | None = None,
        timeout_s: float | None = None,
    ) -> None:
        """Search all tasks until the trials are used up, or nothing is left to try.

        Args:
            tune_option: trials in all, including those of ``load_log_file``; builder, runner and
                callbacks.
            search_policy: ``"sketch.xgb"``, also ``"default"``; ``"sketch.random"``; or a policy
                for each task.
            search_policy_params: see `SketchPolicy.DEFAULT_PARAMS`.
            adaptive_training: see `XGBModel`.
            per_task_early_stopping: trials without a better kernel after which a task is finished;
                None, 0 or -1 for never.
            timeout_s: seconds after which no round is started.

        Raises:
            TuningOptionError: there are too few trials for the tasks, or the policy is unknown.
        """
        check = Check(TuningOptionError, "TaskScheduler.tune")
        check.kind("tune_option", tune_option, TuningOptions, "TuningOptions")
        check.kind("search_policy_params", search_policy_params or {}, Mapping, "values by name")
        if not isinstance(search_policy, str):
            check.sequence("search_policy", search_policy, "a name, or a policy for each task")
        if timeout_s is not None:
            check.number("timeout_s", timeout_s)
        self.tic = time.time()
        self.num_measures_per_round = trials_per_round(tune_option, len(self.tasks))
        model = self._model(search_policy, adaptive_training)
        self._begin(model, search_policy, search_policy_params, tune_option.verbose)
        session = Session.of(tune_option.measure_option())
        rounds = TaskRounds(session, tune_option.measure_callbacks or ())
        deadline = math.inf if timeout_s is None else time.monotonic() + timeout_s
        try:
            self._run(rounds, tune_option, per_task_early_stopping, deadline)
            self._race(rounds, session)
        except KeyboardInterrupt:
            told = "; the log is complete, continue with load_log_file=" if rounds.logs else ""
            logger.warning("interrupted after %d trials%s", self.ct, told)
            raise
        finally:
            rounds.give_up()
            session.close()
            self._end(model, tune_option.verbose)

    def _model(self, policy: str | Sequence[SearchPolicy], adaptive: bool) -> CostModel | None:
        """Return the model that the policies share; None where they have their own."""
        if not isinstance(policy, str):
            return None
        if policy not in _POLICIES:
            raise TuningOptionError(
                f"TaskScheduler: search_policy must be one of {', '.join(_POLICIES)} or a "
                f"policy for each task, got {policy!r}"
            )
        if policy == "sketch.random":
            return RandomModel()
        model = XGBModel(model_file=self.load_model_file, adaptive_training=adaptive)
        if self.load_model_file is not None and Path(self.load_model_file).exists():
            model.load(self.load_model_file)
        return model

    def _begin(
        self,
        model: CostModel | None,
        policy: str | Sequence[SearchPolicy],
        params: Mapping[str, Param] | None,
        verbose: int,
    ) -> None:
        """Make the policies, and let them learn from the log."""
        if model is not None:
            policies: list[SearchPolicy] = [
                SketchPolicy(task, model, dict(params or {}), verbose=verbose)
                for task in self.tasks
            ]
        else:
            assert not isinstance(policy, str)
            policies = list(policy)
            if len(policies) != len(self.tasks):
                raise TuningOptionError(
                    f"TaskScheduler: expected a policy for each of {len(self.tasks)} tasks, got "
                    f"{len(policies)}"
                )
        self.progress = [
            TaskProgress(each, weight)
            for each, weight in zip(policies, self.task_weights, strict=True)
        ]
        self.best_costs = self._first_costs
        if self.load_log_file is not None:
            self._recall(self.load_log_file)

    def _recall(self, log: str | Path) -> None:
        for each in self.progress:
            known = PreloadMeasuredStates(str(log)).load(each.policy)
            each.recall(
                (result.seconds if result.ok else math.inf for _, result in known),
                self.num_measures_per_round,
            )
        for each in self.progress:
            if each.trials and isinstance(each.policy, SketchPolicy):
                each.policy.begin()  # what it has measured teaches the first rounds of others
        self._score()
        logger.info("TaskScheduler: %d trials of %s count as made", self.ct, log)

    def _run(
        self, rounds: TaskRounds, options: TuningOptions, patience: int | None, deadline: float
    ) -> None:
        begun = self.ct
        if begun and begun >= options.num_measure_trials:
            logger.warning(
                "TaskScheduler: %s holds %d trials, and num_measure_trials=%d counts these: "
                "nothing is measured; ask for more to go on", self.load_log_file, begun,
                options.num_measure_trials,
            )  # fmt: skip
        while True:
            index = self._next(rounds) if len(rounds.busy) < _AT_ONCE else None
            room = min(self.num_measures_per_round, options.num_measure_trials - begun)
            if index is not None and room > 0 and time.monotonic() < deadline:
                self._tell("pre_tune", index, options.verbose)
                begun += (count := rounds.begin(index, self.progress[index], room))
                if not count:
                    self.progress[index].finish("nothing is left to try")
                continue
            if not rounds.busy:
                return
            self._learn(rounds.end(self.progress), patience, options)
            if self._stagnates(options.early_stopping):
                logger.info(
                    "Stop early since no performance improvement in the last %s measurement "
                    "trials.", options.early_stopping,
                )  # fmt: skip
                return

    def _next(self, rounds: TaskRounds) -> int | None:
        """Return the task of the next round; None if a pending round must end first.

        A task waits for the results of its own last round. Meanwhile another task gets a round, if
        its expected gain is large enough.
        """
        live = [i for i, each in enumerate(self.progress) if not each.finished]
        free = [i for i in live if i not in rounds.busy]
        if not free:
            return None
        first, other = (self._allocation.choose(self.progress, some) for some in (live, free))
        least = _WORTH * self._allocation.worth(self.progress, first)
        return other if self._allocation.worth(self.progress, other) >= least else None

    def _learn(self, index: int, patience: int | None, options: TuningOptions) -> None:
        """Draw conclusions from a round that ended."""
        each = self.progress[index]
        if patience and 0 < patience < each.trials - each.best_trial:
            each.finish(f"no better kernel in {patience} trials")
        self._score()
        self._tell("post_tune", index, options.verbose)

    def _score(self) -> None:
        if self.cur_score < self.best_score:
            self.best_score, self.best_ct = self.cur_score, self.ct

    def _stagnates(self, early_stopping: int | None) -> bool:
        known = math.isfinite(self.best_score)
        return bool(early_stopping) and known and self.ct - self.best_ct >= (early_stopping or 0)

    # ---- ending

    def _race(self, rounds: TaskRounds, session: Session) -> None:
        """Let the best of each task run side by side, and keep the winners."""
        if not session.runner.can_race:
            return
        for each in self.progress:
            field = finalists(each.good, _FINALISTS)
            if len(field) < 2 or field[0][0].target.emulate:
                continue
            try:
                session.prepare(each.task)
                winner = race_finalists(field, each.good, session)
            except MeasureError as error:
                logger.warning("%s could not be raced, its fastest stays: %s", each.task, error)
                continue
            each.settle(winner[1].seconds)
            rounds.raced(each, winner)

    def _end(self, model: CostModel | None, verbose: int) -> None:
        """Say what was found, and what failed."""
        if self.load_model_file is not None and isinstance(model, XGBModel):
            model.save(self.load_model_file)
        for each in self.progress:
            if each.failures and math.isinf(each.seconds):
                each.failures.report_all_failed(each.task)
            elif each.failures:
                logger.info("%s: %s", each.task, each.failures.summary(each.trials))
            elif each.finished:
                each.policy.report_nothing_measured()
        for callback in self.callbacks:
            if verbose and hasattr(callback, "finished"):
                callback.finished(self)

    def _tell(self, event: str, index: int, verbose: int) -> None:
        for callback in self.callbacks:
            if verbose or not isinstance(callback, PrintTableInfo):
                getattr(callback, event)(self, index)
