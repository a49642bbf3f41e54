"""What ranks states before they are measured, under the names of TVM's scripts."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Sequence
from math import inf, isfinite, log2
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from autotune.auto_scheduler.loop_state import HasSteps
from autotune.auto_scheduler.measure_input import MeasureInput
from autotune.auto_scheduler.record_codec import GRAPH_HASH
from autotune.auto_scheduler.record_file import RecordReader
from autotune.auto_scheduler.recorded_state import RecordedState
from autotune.auto_scheduler.search.params import DEFAULT_PARAMS
from autotune.auto_scheduler.search.programs import sketches_of
from autotune.auto_scheduler.search.task_search import proposer_of
from autotune.auto_scheduler.search_problem import SearchProblem
from autotune.auto_scheduler.transform_steps import TransformStep
from autotune.errors import RecordError
from autotune.measure import MeasureResult
from autotune.record.reader import LogMissingError
from autotune.utils.check import Check
from autotune.utils.files import write_atomically

logger = logging.getLogger("auto_scheduler")

_FORM = "autotune search trials 1"
# Workload key, kind of target, and hash of the graph; the last is empty where nobody knows.
_Task = tuple[str, str, str]
# What was measured of one workload on one kind of target: steps and seconds.
Trials = list[tuple[tuple[TransformStep, ...], float]]


M = TypeVar("M", bound="CostModel")


class CostModel:
    """Base of the models: keeps what was measured, by workload and kind of target.

    Of ours, `XGBModel` and `RandomModel`, a `SketchPolicy` takes the trials of its task, and fits
    its own trees on the closed forms of their rows; so one model may be shared by many tasks. A
    model that a script derives with a `predict` of its own says itself which states are measured.
    """

    # Whether candidates are ranked at all.
    ranks = True
    # Whether `predict` says what a search takes, as that of a model that a script defines does.
    chooses = True
    _trials: dict[_Task, Trials]
    _known: set[tuple[_Task, str]]

    def __new__(cls: type[M], *args: object, **named: object) -> M:
        """Make a model that knows nothing, whatever ``__init__`` a script gives it."""
        del args, named
        model = super().__new__(cls)
        model._trials, model._known = {}, set()
        return model

    def __init_subclass__(cls, **named: Any) -> None:
        """Let a `predict` of a script's own choose."""
        super().__init_subclass__(**named)
        if "predict" in vars(cls) and "chooses" not in vars(cls):
            cls.chooses = True

    def update(self, inputs: Iterable[MeasureInput], results: Iterable[MeasureResult]) -> None:
        """Take note of measured states; each once."""
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

    def trials(self, task: SearchProblem) -> Trials:
        """Return what is known of a task as it is defined now: steps of states, and seconds."""
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
    """Boosted trees that learn how the time of a state departs from a closed-form draft.

    Args:
        verbose_eval: accepted for TVM's scripts.
        num_warmup_sample: accepted for TVM's scripts: the draft ranks before anything is learned.
        seed: of the trees.
        model_file: accepted for TVM's scripts, where it is written after each training.
        adaptive_training: accepted for TVM's scripts: training is cheap here.
    """

    chooses = False

    def __init__(
        self,
        verbose_eval: int = 25,
        num_warmup_sample: int = 100,
        seed: int | None = None,
        model_file: str | None = None,
        adaptive_training: bool = False,
    ) -> None:
        del verbose_eval, num_warmup_sample, adaptive_training
        self.seed = seed
        self.model_file = model_file

    def update_from_file(self, file_name: str | Path, n_lines: int | None = None) -> None:
        """Learn from a log: of the task that is searched later, and of others."""
        inputs, results = RecordReader(file_name).read_lines(n_lines)
        self.update(inputs, results)
        logger.info("XGBModel: Loaded %s measurement records from %s", len(inputs), file_name)

    def predict(self, task: SearchProblem, states: Sequence[HasSteps]) -> list[float]:
        """Return the predicted rate of each state as a part of the best; -inf if of no sketch.

        The best is the best that is known of the task, or else that of the states. The trees are
        fitted anew to what is known of the task.
        """
        steps = [tuple(each.transform_steps) for each in _states(states)]
        sketches = sketches_of(task, DEFAULT_PARAMS)
        rng = np.random.default_rng(self.seed)
        trials = self.trials(task)
        found = proposer_of(task, sketches, DEFAULT_PARAMS, rng, trials)
        scores = found.scores(steps)
        least = min((seconds for _, seconds in trials), default=inf)
        top = -log2(least) if isfinite(least) else max(scores, default=0.0)
        return [2 ** (score - top) if isfinite(score) else -inf for score in scores]

    def save(self, file_name: str | Path) -> None:
        """Write what the model has learned from; the trees are fitted anew in a moment."""
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
        write_atomically(path, json.dumps({"form": _FORM, "tasks": tasks}).encode())

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
        for task, trials in tasks:
            for steps, seconds in trials:
                self._keep(task, RecordedState(steps).key, steps, seconds)


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
