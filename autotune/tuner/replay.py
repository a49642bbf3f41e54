"""Tunes on recorded times in place of a device, to compare tuners without compiling anything."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from autotune.errors import RecordError, SpaceError
from autotune.measure import (
    Builder,
    BuildResult,
    MeasureErrorNo,
    MeasureInput,
    MeasureResult,
    Runner,
)
from autotune.measure.types import Pair
from autotune.task import ConfigEntity, ConfigSpace, Task
from autotune.task.constraints.constraint import BoolArray
from autotune.task.constraints.radix import IndexArray, IntArray
from autotune.task.constraints.valid_points import ValidPoints
from autotune.task.kinds import Entity, TransformSpace
from autotune.workload import Workload


@dataclass(frozen=True)
class Recording:
    """An exhaustively measured space.

    Attributes:
        name: name of the space.
        knobs: values of each knob; a split is a list of ints.
        codes: one row per measured configuration, with the position of each knob's value.
        results: the result of each row.
        about: device, kernel and other information.
    """

    name: str
    knobs: Mapping[str, Sequence[object]]
    codes: IntArray
    results: Sequence[MeasureResult]
    about: Mapping[str, object]

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Recording:
        """Read an ``.npz``: `header` (JSON: name, names, values, meta), `codes`, `times`, `costs`.

        `times` are milliseconds, NaN where the configuration failed; `costs` the seconds its
        evaluation took.

        Raises:
            RecordError: the file is not such a recording.
        """
        try:
            with np.load(Path(path), allow_pickle=False) as data:
                header = json.loads(str(data["header"]))
                codes, times = data["codes"].astype(np.int64), data["times"].astype(np.float64)
                costs = data["costs"].astype(np.float64)
            knobs = dict(zip(header["names"], header["values"], strict=True))
            name, about = header["name"], header.get("meta", {})
        except (KeyError, ValueError, OSError) as error:
            raise RecordError(f"{path}: not a recorded space: {error}") from error
        results = [_result(ms, s) for ms, s in zip(times.tolist(), costs.tolist(), strict=True)]
        return Recording(name, knobs, codes, results, about)

    @staticmethod
    def from_records(pairs: Iterable[Pair], name: str = "") -> Recording:
        """Make a recording of a log's rows of one task; what is not in it is not in the space.

        Raises:
            RecordError: there are no rows, or their configurations have different knobs.
        """
        rows = [
            (ConfigEntity.of(inp.config).to_json_dict()["entity"], inp, res) for inp, res in pairs
        ]
        if not rows:
            raise RecordError("a recording needs at least one record")
        names = [knob for knob, _, _ in rows[0][0]]
        table = [{knob: _frozen(value) for knob, _, value in entity} for entity, _, _ in rows]
        if any(set(row) != set(names) for row in table):
            raise RecordError("the records have different knobs; give those of one task only")
        try:
            knobs = {k: sorted({row[k] for row in table}, key=_order) for k in names}
        except TypeError as error:
            raise RecordError(f"a knob's value cannot be told from others: {error}") from error
        place = {k: {value: i for i, value in enumerate(knobs[k])} for k in names}
        codes = np.array([[place[k][row[k]] for k in names] for row in table], dtype=np.int64)
        _, first = np.unique(codes, axis=0, return_index=True)
        kept = np.sort(first)
        results = [rows[i][2] for i in kept]
        about = {"target": str(rows[0][1].target)}
        return Recording(name or rows[0][1].task.name, knobs, codes[kept], results, about)

    def task(self, name: str = "", args: Sequence[object] = ()) -> Task:
        """Return a task whose valid configurations are exactly the recorded ones.

        Args:
            name: of the task; recordings of one kernel that are given the same name can learn
                from each other.
            args: tell such tasks apart.
        """
        return _ReplayTask(self, name or f"replay.{self.name}", tuple(args))

    def best(self) -> float:
        """Return the shortest time, in seconds."""
        return min(result.seconds for result in self.results)

    def option(self) -> dict[str, object]:
        """Return the measure option that answers from this recording."""
        return {"builder": ReplayBuilder(), "runner": ReplayRunner(self)}


class ReplayBuilder(Builder):
    """Builds nothing, at once."""

    def __init__(self) -> None:
        super().__init__(n_parallel=1)

    def submit(self, measure_input: MeasureInput) -> Future[BuildResult | MeasureResult]:
        """Return an empty artifact."""
        future: Future[BuildResult | MeasureResult] = Future()
        future.set_result(BuildResult(artifact="recorded", kernel=None))
        return future


class ReplayRunner(Runner):
    """Answers each trial with what was recorded, failures included.

    Args:
        recording: of the task that is tuned.
        pace: share of the recorded evaluation time to sleep, to watch a run as it was.
        noise: relative standard deviation put on every time, drawn from ``seed``.
        seed: of the noise.
    """

    def __init__(
        self, recording: Recording, pace: float = 0.0, noise: float = 0.0, seed: int = 0
    ) -> None:
        super().__init__(n_parallel=1)
        self.recording, self.pace, self.noise = recording, pace, noise
        self.energy = any(result.joules is not None for result in recording.results)
        self._rng = np.random.default_rng(seed)
        self._row: dict[int, int] = {}

    def set_task(self, task: Workload) -> None:
        """Look up the recorded rows by index."""
        super().set_task(task)
        indices = Task.of(task).config_space.indices(self.recording.codes)
        self._row = {int(index): row for row, index in enumerate(indices)}

    def submit(
        self, measure_input: MeasureInput, build_result: BuildResult
    ) -> Future[MeasureResult]:
        """Return the recorded result."""
        future: Future[MeasureResult] = Future()
        index = int(ConfigEntity.of(measure_input.config).index)
        recorded = self.recording.results[self._row[index]]
        if self.pace:
            time.sleep(self.pace * recorded.all_cost)
        factor = max(1e-3, 1 + self.noise * self._rng.standard_normal()) if self.noise else 1.0
        costs = tuple(cost * factor for cost in recorded.costs)
        future.set_result(recorded._replace(costs=costs, timestamp=time.time()))
        return future


class RecordedSpace(ConfigSpace):
    """A space of which only listed points are valid."""

    def __init__(self, knobs: Mapping[str, Sequence[object]], codes: IntArray) -> None:
        super().__init__()
        for name, values in knobs.items():
            sizes = [list(value) for value in values if isinstance(value, tuple)]
            if len(sizes) == len(values):
                self.define_split(
                    name, -1, "candidate", num_outputs=len(sizes[0]), candidate=sizes
                )
            else:
                self.define_knob(name, values)
        self._known_points = _Listed(self.space_map, self.indices(codes))

    @property
    def has_constraints(self) -> bool:
        """Whether some points of the product of all knobs were not recorded."""
        return self.valid_count < self.range_length

    def _accepts(self, index: int, digits: Sequence[int]) -> bool:
        return self.is_index_valid(index)

    def _check_point(
        self, config: ConfigEntity, index: int, entities: Mapping[str, Entity]
    ) -> None:
        if not self.is_index_valid(index):
            raise SpaceError(f"configuration {config.index} is none that was recorded")


class _Listed(ValidPoints):
    """Valid points given as a list."""

    def __init__(self, spaces: Mapping[str, TransformSpace], indices: IndexArray) -> None:
        super().__init__(spaces, [])
        self._listed = np.unique(indices)

    def accepts(self, digits: IntArray) -> BoolArray:
        indices = self.radix.indices(digits)
        at = np.minimum(np.searchsorted(self._listed, indices), len(self._listed) - 1)
        return np.asarray(self._listed[at] == indices, dtype=np.bool_)

    def accepts_index(self, index: int) -> bool:
        return bool(self.accepts(np.array([self.radix.digits_of(index)]))[0])

    def count(self) -> tuple[int, bool]:
        return len(self._listed), True

    def about(self) -> tuple[int, bool]:
        return self.count()

    def count_below(self, index: int) -> int:
        return int(np.searchsorted(self._listed, index))

    def draw(
        self, n: int, rng: np.random.Generator, exclude: Collection[int] | IndexArray | None
    ) -> IndexArray:
        excluded = [] if exclude is None else list(exclude)
        left = np.setdiff1d(self._listed, np.array(excluded, dtype=self._listed.dtype))
        return rng.permutation(left)[:n]


class _ReplayTask(Task):
    """The task of a recording; nothing can be built for it."""

    def __init__(self, recording: Recording, name: str, args: tuple[object, ...]) -> None:
        super().__init__(name, args, "c")
        self._recording = recording
        self.config_space = RecordedSpace(recording.knobs, recording.codes)
        self.flop = 0.0
        self.bytes = 0.0

    def __reduce__(self) -> tuple[Callable[..., Task], tuple[object, ...]]:
        return _ReplayTask, (self._recording, self.name, self.args)


def _result(milliseconds: float, seconds: float) -> MeasureResult:
    if np.isnan(milliseconds):
        why = "recorded as failed to compile or run"
        return MeasureResult((), MeasureErrorNo.COMPILE_DEVICE, seconds, 0.0, why)
    return MeasureResult((milliseconds / 1e3,), MeasureErrorNo.NO_ERROR, seconds, 0.0)


def _frozen(value: object) -> object:
    return tuple(value) if isinstance(value, list) else value


def _order(value: object) -> tuple[int, object]:
    return (0, value) if isinstance(value, (int, float)) else (1, str(value))


__all__ = ["RecordedSpace", "Recording", "ReplayBuilder", "ReplayRunner"]
