"""Tunes on several classes of devices at once, with a best configuration for each."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from autotune.errors import TunerError
from autotune.measure import MeasureInput, MeasureResult, Session
from autotune.runtime import Descriptor
from autotune.target import Target
from autotune.task import ConfigEntity, Task
from autotune.tuner.loop.result import TuneResult
from autotune.tuner.loop.resume import Records
from autotune.tuner.loop.run import Run
from autotune.tuner.loop.stop import Stop
from autotune.tuner.models.across_classes import FEWEST, AcrossClasses
from autotune.tuner.tuner import Watcher
from autotune.tuner.xgboost_tuner import XGBTuner

logger = logging.getLogger("autotvm")

# Trials of a class between two looks at what the others found.
ROUND = 16
_LOOK_S = 0.1


@dataclass(frozen=True)
class OnClass:
    """One class of devices of a run over several.

    Attributes:
        device: what it is, see `autotune.runtime.describe`.
        option: measures on devices of this class alone: a measure option, or a `Session`.
        task: what is tuned there; by default the common task, for a target that names the class
            (``-model``), by which `apply_history_best` finds its records again.
    """

    device: Descriptor
    option: Mapping[str, object]
    task: Task | None = None


class ClassTuner(XGBTuner):
    """Proposes for one class, and learns from all.

    Args:
        task: of the class.
        across: trials on all classes.
        key: of the class.
        seed: makes the proposals repeatable.
    """

    def __init__(
        self, task: Task, across: AcrossClasses, key: str, seed: int | None = None
    ) -> None:
        super().__init__(task, seed=seed)
        self._across, self._key = across, key
        self._view = across.view(key)

    def update(self, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]) -> None:
        """Learn from measured trials, and let the other classes learn from them."""
        super().update(inputs, results)
        indices = [int(ConfigEntity.of(inp.config).index) for inp in inputs]
        rates = [1 / res.seconds if res.ok and res.seconds > 0 else 0.0 for res in results]
        self._across.learn(self._key, indices, rates)

    def from_others(self) -> list[ConfigEntity]:
        """Return the best of the other classes that were not tried here."""
        return [self.space.get(i) for i in self._view.starts if i not in self.visited]

    def _first(self) -> list[int]:
        if self._across.count >= FEWEST:
            self._prior = self._view
        first = super()._first()
        self._prior = self._view
        return first


def tune_classes(
    task: Task,
    classes: Sequence[OnClass],
    n_trial: int,
    *,
    callbacks: Sequence[Watcher] = (),
    resume: Records | None = None,
    early_stopping: int | None = None,
    timeout_s: float | None = None,
    finalists: int = 5,
    seed: int | None = None,
) -> dict[str, TuneResult]:
    """Tune one task for several classes of devices at once.

    Each class has its own trials, log records, final race and best. What was measured on one is
    learned from by all: the cost model sees the device's columns beside the knobs, and the best
    of each class are tried on the others.

    Args:
        task: what is tuned.
        classes: where; measured at the same time, each in a thread of its own.
        n_trial: most trials of each class.
        callbacks: as of `Tuner.tune`; called in the threads of all classes.
        resume: a log of an interrupted run; each class takes the records of its own target.
        early_stopping, timeout_s, finalists: as of `Tuner.tune`, for each class.
        seed: of the proposals.

    Returns:
        The result of each class, by `Descriptor.key`. A class whose devices are lost on the way
        is missing, and a warning says so.

    Raises:
        TunerError: no classes, or one given twice.
        MeasureError and others: no class came to its end.

    Example::

        classes = [OnClass(one, fleet.of_class(one.key)) for one in (h200, a100)]
        best = autotune.tuner.tune_classes(task, classes, 300, callbacks=[log_to_file("k.log")])
    """
    keys = [one.device.key for one in classes]
    if not keys or len(set(keys)) != len(keys):
        raise TunerError(f"tune_classes: classes must be distinct, and one at least, got {keys}")
    tasks = {one.device: one.task or task_on(task, one.device) for one in classes}
    across = AcrossClasses(tasks)
    stop = Stop(n_trial, early_stopping, timeout_s=timeout_s, finalists=finalists)
    lanes = []
    for number, one in enumerate(classes):
        own_seed = None if seed is None else seed + number
        tuner = ClassTuner(tasks[one.device], across, one.device.key, own_seed)
        run = tuner.new_run(stop, callbacks)
        if resume is not None:
            run.resume(resume)
        lanes.append(_Lane(one, tuner, run))
    return _driven(lanes)


def task_on(task: Task, device: Descriptor) -> Task:
    """Return a task for a class of devices: its architecture and its name are in the target."""
    target = Target(task.target) if task.target is not None else Target("c")
    attrs = {**target.attrs, "model": device.model}
    if device.kind != "cpu":
        attrs["arch"] = device.arch
    return Task(task.name, task.args, Target({"kind": str(target.kind), **attrs}))


class _Lane:
    """The run of one class, in a thread of its own."""

    def __init__(self, where: OnClass, tuner: ClassTuner, run: Run) -> None:
        self.where, self.tuner, self.run = where, tuner, run
        self.result: TuneResult | None = None
        self.error: BaseException | None = None
        self.thread = threading.Thread(target=self._drive, daemon=True)

    def _drive(self) -> None:
        try:
            with ExitStack() as owned:
                option = self.where.option
                session = Session.of(option)
                if session is not option:
                    owned.enter_context(session)
                while self.run.advance(session, ROUND):
                    self.run.suggest(self.tuner.from_others())
                self.result = self.run.finish(session)
        except BaseException as error:  # raised where all classes are waited for
            self.error = error


def _driven(lanes: Sequence[_Lane]) -> dict[str, TuneResult]:
    for lane in lanes:
        lane.thread.start()
    try:
        for lane in lanes:
            while lane.thread.is_alive():
                lane.thread.join(_LOOK_S)
    except BaseException:
        for lane in lanes:
            lane.run.halt("interrupted")
        for lane in lanes:
            lane.thread.join()
        raise
    found = {lane.where.device.key: lane.result for lane in lanes if lane.result is not None}
    failed = [lane for lane in lanes if lane.error is not None]
    if failed and not found:
        assert failed[0].error is not None
        raise failed[0].error
    for lane in failed:
        logger.warning("%s: tuning ended early: %s", lane.where.device.key, lane.error)
    return found


__all__ = ["ClassTuner", "OnClass", "task_on", "tune_classes"]
