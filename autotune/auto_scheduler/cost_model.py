"""Cost models that rank states before they are measured, under the names of TVM's scripts."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Sequence
from math import inf, isfinite, log2
from pathlib import Path
from typing import TypeVar

import numpy as np

from autotune.auto_scheduler.measuring.measure_input import MeasureInput, RecordedTask
from autotune.auto_scheduler.problem.search_problem import SearchProblem
from autotune.auto_scheduler.records.codec import GRAPH_HASH
from autotune.auto_scheduler.records.file import RecordReader
from autotune.auto_scheduler.search.params import DEFAULT_PARAMS
from autotune.auto_scheduler.search.programs import sketches_of
from autotune.auto_scheduler.search.proposer import Proposer
from autotune.auto_scheduler.search.task_group import SharedTrials
from autotune.auto_scheduler.search.task_search import proposer_of
from autotune.auto_scheduler.state_features import (
    get_per_store_features_from_states,
    operations_of,
)
from autotune.auto_scheduler.states.loop_state import HasSteps
from autotune.auto_scheduler.states.recorded_state import RecordedState
from autotune.auto_scheduler.transform_steps import TransformStep
from autotune.driver import kernel_of
from autotune.errors import AutotuneError, RecordError
from autotune.measure import MeasureResult
from autotune.record.reader import LogMissingError
from autotune.utils.check import Check
from autotune.utils.files import publish

logger = logging.getLogger("auto_scheduler")

_FORM = "autotune search trials 1"
# How many times as many trials as at the last time there have to be before a model that adapts
# its training trains, and before the file of a model is written anew.
_ADAPTIVE, _NEWS = 1.2, 1.05
# What a statement without operations, such as a copy, counts.
_NO_OPERATIONS = 1e-3
# Workload key, kind of target, and hash of the graph; the last is empty where nobody knows.
_Task = tuple[str, str, str]
# What was measured of one workload on one kind of target: steps and seconds.
Trials = list[tuple[tuple[TransformStep, ...], float]]


M = TypeVar("M", bound="CostModel")


class CostModel:
    """Base of the models: keeps what was measured, by workload and kind of target.

    From `XGBModel` and `RandomModel` a `SketchPolicy` takes the trials of its task, and fits its
    own trees on the analytical features of their rows. If several tasks share one model, each
    also learns from the trials of the others. A model that a script derives with a `predict` of
    its own decides itself which states are measured.

    Attributes:
        shared: the tasks whose policies it serves: what they measured, and what is common to it.
    """

    # Whether candidates are ranked at all.
    ranks = True
    # Whether `predict` says what a search takes, as that of a model that a script defines does.
    chooses = True
    _trials: dict[_Task, Trials]
    _known: set[tuple[_Task, str]]
    shared: SharedTrials

    def __new__(cls: type[M], *args: object, **named: object) -> M:
        """Make a model that knows nothing, whatever ``__init__`` a script gives it."""
        del args, named
        model = super().__new__(cls)
        model._trials, model._known = {}, set()
        model.shared = SharedTrials()
        return model

    def __init_subclass__(cls, **named: object) -> None:
        """Let a `predict` of a script's own choose."""
        super().__init_subclass__(**named)
        if "predict" in vars(cls) and "chooses" not in vars(cls):
            cls.chooses = True

    def update(self, inputs: Iterable[MeasureInput], results: Iterable[MeasureResult]) -> None:
        """Record measured states; each once."""
        for inp, result in zip(inputs, results, strict=True):
            own = inp.task.graph_hash if isinstance(inp.task, SearchProblem) else ""
            graph = str(result.extra.get(GRAPH_HASH, own))
            key = (inp.task.workload_key, str(inp.target.kind), graph)
            seconds = result.seconds if result.ok else inf
            self._keep(key, inp.key, inp.config.transform_steps, seconds)

    def _keep(
        self, task: _Task, name: str, steps: tuple[TransformStep, ...], seconds: float
    ) -> None:
        if (task, name) not in self._known:
            self._known.add((task, name))
            self._trials.setdefault(task, []).append((steps, seconds))

    def predict(self, task: SearchProblem, states: Sequence[HasSteps]) -> list[float]:
        """Return a score for each state; larger is better."""
        raise NotImplementedError(f"{type(self).__name__} must define predict(task, states)")

    def predict_stages(self, task: SearchProblem, states: Sequence[HasSteps]) -> list[float]:
        """Return the scores of states and of their statements, in TVM's flat form.

        First comes a score for each state, as `predict` gives it; then, state by state, how many
        statements write a buffer, and the score of each. They share the score of the state as they
        share its operations. A state that cannot be lowered has none.
        """
        scores = self.predict(task, states)
        result = list(scores)
        features = get_per_store_features_from_states(_states(states), task)
        for score, rows in zip(scores, features, strict=True):
            parts = operations_of(rows) + _NO_OPERATIONS
            result += [float(len(rows)), *(score * parts / parts.sum()).tolist()]
        return result

    def attend(self, task: SearchProblem, proposer: Proposer) -> None:
        """Record the search of a task that the model serves."""

    def recall(self, task: SearchProblem) -> None:
        """Record that a task is going to be searched."""

    def trials(self, task: SearchProblem) -> Trials:
        """Return the trials of a task in its present definition: steps of states, and seconds."""
        key, kind = task.workload_key, str(task.target.kind)
        found = [self._trials.get((key, kind, graph), ()) for graph in (task.graph_hash, "")]
        return list(
            {steps: (steps, seconds) for each in found for steps, seconds in each}.values()
        )


class RandomModel(CostModel):
    """Ranks nothing: candidates that keep the limits of the device are drawn at random."""

    ranks = False
    chooses = False

    def predict(self, task: SearchProblem, states: Sequence[HasSteps]) -> list[float]:
        """Return a number for each state, which says nothing."""
        return [(hash(state) % 1009) / 1009 for state in _states(states)]


class XGBModel(CostModel):
    """Boosted trees that learn how the time of a state departs from a closed-form estimate.

    Args:
        verbose_eval: whether errors on what was learned are logged, at level debug; 0 for never.
        num_warmup_sample: kept for TVM's scripts: the estimate ranks before anything is learned.
        seed: of the trees.
        model_file: written after training, where there are a twentieth more trials than it
            holds; as in TVM it is not read: `load` does that.
        adaptive_training: train only when there are a fifth more trials than at the last time.
        adapative_training: the name that TVM 0.8 has for that.
    """

    chooses = False

    def __init__(
        self,
        verbose_eval: int = 25,
        num_warmup_sample: int = 100,
        seed: int | None = None,
        model_file: str | Path | None = None,
        adaptive_training: bool = False,
        adapative_training: bool = False,
    ) -> None:
        check = Check(RecordError, "XGBModel")
        if seed is not None:
            check.whole("seed", seed, 0)
        if model_file is not None:
            check.path("model_file", model_file)
        self.verbose_eval = verbose_eval
        self.num_warmup_sample = num_warmup_sample
        self.seed = seed
        self.model_file = model_file
        self.adaptive_training = adaptive_training or adapative_training
        self._trained = self._written = 0
        self._searches: dict[SearchProblem, Proposer] = {}
        # Of tasks of which nothing was measured: the best that was predicted first.
        self._first: dict[SearchProblem, float] = {}

    @property
    def count(self) -> int:
        """The number of trials that it knows, of all tasks."""
        return len(self._known)

    def update(self, inputs: Iterable[MeasureInput], results: Iterable[MeasureResult]) -> None:
        """Record measured states, each once, and train."""
        given = list(inputs)
        super().update(given, results)
        if self.count >= self._trained * (_ADAPTIVE if self.adaptive_training else 1.0):
            self._train(given)

    def _train(self, inputs: Sequence[MeasureInput]) -> None:
        """Say how well what was measured is predicted, and write the file of the model.

        The trees themselves are fitted when they are asked for.
        """
        self._trained = self.count
        if self.verbose_eval and logger.isEnabledFor(logging.DEBUG):
            for task in dict.fromkeys(inp.task for inp in inputs):
                if isinstance(task, SearchProblem):
                    logger.debug("XGBModel: %s: %s", task.name, self._errors(task))
        if self.model_file is not None and self.count > _NEWS * self._written:
            self.save(self.model_file)
            self._written = self.count

    def _errors(self, task: SearchProblem) -> str:
        """Return how well the speeds of all trials of a task are predicted, as text.

        They are relative to the fastest: the root of the mean of squares, the same weighted by
        speed, and the fastest among the 32 that are predicted to be.
        """
        trials = self.trials(task)
        fastest = min(seconds for _, seconds in trials)
        if not isfinite(fastest):
            return f"{len(trials)} trials, all failed"
        speeds = np.array([fastest / seconds for _, seconds in trials])
        found = np.array(self.predict(task, [RecordedState(steps) for steps, _ in trials]))
        found = np.where(np.isfinite(found), found, 0.0)
        squares = (found - speeds) ** 2
        peak = speeds[np.argsort(-found, kind="stable")[:32]].max()
        weighted = float(np.sqrt(np.average(squares, weights=speeds)))
        return (
            f"{len(trials)} trials\ttr-p-rmse: {np.sqrt(squares.mean()):.6f}\t"
            f"tr-w-rmse: {weighted:.6f}\ttr-a-peak@32: {peak:.6f}"
        )

    def update_from_file(self, file_name: str | Path, n_lines: int | None = None) -> None:
        """Learn from a log: of the task that is searched later, and of others.

        Others teach it if their workloads are registered when the search begins.
        """
        inputs, results = RecordReader(file_name).read_lines(n_lines)
        self.update(inputs, results)
        logger.info("XGBModel: Loaded %s measurement records from %s", len(inputs), file_name)

    def predict(self, task: SearchProblem, states: Sequence[HasSteps]) -> list[float]:
        """Return the predicted speed of each state, relative to the fastest that was measured.

        Before anything was measured it is relative to the fastest of the states that are asked
        for first. It is -inf for a state that cannot be lowered or breaks a limit of the device,
        and 0 for one that can run but is of no sketch.
        """
        steps = [tuple(each.transform_steps) for each in _states(states)]
        scores = self._search(task).scores(steps)
        best = self._fastest(task, [score for score in scores if score is not None])
        return [
            (0.0 if _lowers(task, each) else -inf)
            if score is None
            else (2.0 ** (score - best) if isfinite(score) else -inf)
            for each, score in zip(steps, scores, strict=True)
        ]

    def _fastest(self, task: SearchProblem, scores: Sequence[float]) -> float:
        """Return the logarithm of the rate that predictions for a task are relative to."""
        known = [seconds for _, seconds in self.trials(task) if isfinite(seconds)]
        if known:
            return -log2(min(known))
        if task not in self._first and any(map(isfinite, scores)):
            self._first[task] = max(scores)
        return self._first.get(task, 0.0)

    def attend(self, task: SearchProblem, proposer: Proposer) -> None:
        """Record the search of a task, which predicts from then on."""
        self._searches[task] = proposer

    def recall(self, task: SearchProblem) -> None:
        """Let trials of other workloads teach what a task is searched with.

        Those that have no policy of their own and that are registered here: their graphs have to
        be known.
        """
        attended = {other.workload_key for other in self._searches} | {task.workload_key}
        for key, kind, _ in list(self._trials):
            if key in attended or kind != str(task.target.kind):
                continue
            attended.add(key)
            try:
                other = RecordedTask(key, str(task.target)).recovered(SearchProblem)
                if self.trials(other):
                    self._search(other)
            except AutotuneError as error:
                logger.debug("XGBModel: %s teaches nothing: %s", key, error)

    def _search(self, task: SearchProblem) -> Proposer:
        """Return the search of a task that has learned all that is known of it.

        That of the task's policy, where there is one.
        """
        if task not in self._searches:
            rng = np.random.default_rng(self.seed)
            sketches = sketches_of(task, DEFAULT_PARAMS)
            found = proposer_of(task, sketches, DEFAULT_PARAMS, rng, shared=self.shared)
            self._searches[task] = found
        self._searches[task].learn(self.trials(task))
        return self._searches[task]

    def save(self, file_name: str | Path) -> None:
        """Write the trials from which the model has learned; loading them fits the trees again.

        Raises:
            RecordError: the file cannot be written.
        """
        tasks = [
            {
                "workload_key": key,
                "target": kind,
                "graph": graph,
                "states": [
                    [RecordedState(steps).to_json(), seconds if isfinite(seconds) else None]
                    for steps, seconds in trials
                ],
            }
            for (key, kind, graph), trials in self._trials.items()
        ]
        path = Path(Check(RecordError, "XGBModel.save").path("file_name", file_name))
        try:
            publish(path, json.dumps({"form": _FORM, "tasks": tasks}).encode())
        except OSError as error:
            raise RecordError(f"cannot write {path}: {error.strerror}") from error

    def load(self, file_name: str | Path) -> None:
        """Learn from what `save` wrote, in addition to what is known.

        Raises:
            RecordError: the file is not of that form; TVM's boosters are of another, and of
                features that no record holds: learn from the log with `update_from_file`.
        """
        Check(RecordError, "XGBModel.load").path("file_name", file_name)
        try:
            data = json.loads(Path(file_name).read_text("utf-8"))
            if data["form"] != _FORM:
                raise ValueError(f"its form is {data['form']!r}")
            tasks = [
                (
                    (str(task["workload_key"]), str(task["target"]), str(task.get("graph", ""))),
                    _read_trials(task["states"]),
                )
                for task in data["tasks"]
            ]
        except OSError as error:
            raise LogMissingError(
                f"XGBModel.load: cannot read {file_name}: {error.strerror}; save a model first"
            ) from error
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise RecordError(
                f"{file_name}: expected a model that XGBModel.save wrote ({_FORM!r}), got another "
                f"file ({error}); update_from_file learns from a log"
            ) from None
        self.num_warmup_sample = -1
        for task, trials in tasks:
            for steps, seconds in trials:
                self._keep(task, RecordedState(steps).key, steps, seconds)


def _lowers(task: SearchProblem, steps: tuple[TransformStep, ...]) -> bool:
    """Return whether a state can be lowered and keeps the limits of the device."""
    try:
        kernel_of(task.realise(RecordedState(steps)).what, task.target)
    except AutotuneError:
        return False
    return True


def _states(states: Sequence[HasSteps]) -> Sequence[HasSteps]:
    check = Check(RecordError, "predict")
    found = check.sequence("states", states, "a list of states")
    for each in found:
        if not hasattr(each, "transform_steps"):
            check.refuse("states", "a list of states", states)
    return found


def _read_trials(rows: Iterable[tuple[Iterable[object], object]]) -> Trials:
    """Return the trials of a task that a file holds."""
    found: Trials = []
    for state, seconds in rows:
        if seconds is not None and not (isinstance(seconds, float) and 0 < seconds < inf):
            raise ValueError(f"{seconds!r} is no time")
        steps = RecordedState.from_json(state).transform_steps
        found.append((steps, inf if seconds is None else seconds))
    return found


# TVM's name of the base of models that scripts write.
PythonBasedModel = CostModel
