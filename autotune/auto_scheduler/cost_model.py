"""What ranks states before they are measured, under the names of TVM's scripts."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from autotune.auto_scheduler.record_file import RecordReader
from autotune.auto_scheduler.transform_steps import TransformStep
from autotune.measure import MeasureResult

logger = logging.getLogger("auto_scheduler")

# What was measured of one workload on one kind of target: steps and seconds.
Trials = list[tuple[tuple[TransformStep, ...], float]]


class CostModel:
    """Base of the models: keeps what was measured, by workload and kind of target.

    A `SketchPolicy` asks it for the trials of its task and fits its own trees on the closed forms
    of their rows, so one model may be shared by many tasks.
    """

    # Whether candidates are ranked at all.
    ranks = True

    def __init__(self) -> None:
        self._trials: dict[tuple[str, str], Trials] = {}
        self._known: set[tuple[str, str, str]] = set()

    def update(self, inputs: Iterable[Any], results: Iterable[MeasureResult]) -> None:
        """Take note of measured states; each once."""
        for inp, result in zip(inputs, results, strict=True):
            key = (inp.task.workload_key, str(inp.target.kind))
            name = (*key, inp.key)
            if name in self._known:
                continue
            self._known.add(name)
            seconds = result.seconds if result.ok else float("inf")
            self._trials.setdefault(key, []).append((inp.config.transform_steps, seconds))

    def trials(self, task: Any) -> Trials:
        """Return what is known of a task: the steps of states, and their seconds."""
        return list(self._trials.get((task.workload_key, str(task.target.kind)), ()))


class RandomModel(CostModel):
    """Ranks nothing: candidates that keep the limits of the device are drawn at random."""

    ranks = False

    def predict(self, task: Any, states: Sequence[Any]) -> list[float]:
        """Return a number for each state, which says nothing."""
        return [(hash(state) % 1009) / 1009 for state in states]


class XGBModel(CostModel):
    """Boosted trees that learn how the time of a state departs from a closed-form draft.

    Args:
        verbose_eval: accepted for TVM's scripts.
        num_warmup_sample: accepted for TVM's scripts: the draft ranks before anything is learned.
        seed: of the trees.
        model_file: accepted for TVM's scripts, where it is written after each training.
        adaptive_training: accepted for TVM's scripts: training is cheap here.
    """

    def __init__(
        self,
        verbose_eval: int = 25,
        num_warmup_sample: int = 100,
        seed: int | None = None,
        model_file: str | None = None,
        adaptive_training: bool = False,
    ) -> None:
        super().__init__()
        del verbose_eval, num_warmup_sample, adaptive_training
        self.seed = seed
        self.model_file = model_file

    def update_from_file(self, file_name: str | Path, n_lines: int | None = None) -> None:
        """Learn from a log: of the task that is searched later, and of others."""
        inputs, results = RecordReader(file_name).read_lines(n_lines)
        self.update(inputs, results)
        logger.info("XGBModel: Loaded %s measurement records from %s", len(inputs), file_name)
