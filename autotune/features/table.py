"""Loop features of the configurations of a task, as a matrix with the same columns for all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from autotune.errors import AutotuneError, TemplateError, TunerError
from autotune.features.curve import CURVES, curves_of
from autotune.features.itervar import (
    ARITHMETIC_NAMES,
    ATTRIBUTE_NAMES,
    TOUCH_NAMES,
    ItervarTable,
)
from autotune.features.knob import raw_feature_names, raw_features
from autotune.features.loops import LoopNest, loop_nest
from autotune.task import ConfigEntity, Task
from autotune.te import Schedule, Tensor

Kind = Literal["itervar", "curve"]
Rows = npt.NDArray[np.float32]
Blocks = dict[str, npt.NDArray[np.float64]]

# Configurations that tell which loops the template makes, and how many are tried to find them.
_PROBES, _MOST_PROBES = 16, 200
# Samples of each curve, as AutoTVM's tuner takes.
_SAMPLES = 20
# Rows kept; of a template with a thousand columns this is 40 MB.
_MOST_ROWS = 10_000
# Tasks that `loop_features` remembers.
_TASKS = 4


@dataclass(frozen=True)
class Columns:
    """The meaning of a matrix's columns.

    Attributes:
        starts: the first column of each block of loop features.
        loops: names of the columns about loops, which come first.
        knobs: names of the columns about knobs.
    """

    starts: Mapping[str, int]
    loops: tuple[str, ...]
    knobs: tuple[str, ...]


class LoopFeatures:
    """Rows of loop features and knob values for the configurations of one task.

    Columns have names, and the loops of a template keep their names whatever the configuration;
    so every column means the same in all rows. Which loops there are is learned from a few drawn
    configurations. What a configuration does not have (a loop it does not make) is 0; all that
    concerns loops is NaN where the configuration cannot be lowered. Rows are computed when they
    are first asked for, and kept.

    Args:
        task: of a template that returns a schedule.
        kind: ``"itervar"``, features of each loop, or ``"curve"``, those of how reuse grows.
        columns: those of another task of the template, so that a model learned there can be asked
            about this one; by default the columns that suit this task.

    Raises:
        TemplateError: the template returns the source of a kernel, which has no loops to look at.
        TunerError: another kind.
    """

    def __init__(self, task: Task, kind: Kind = "itervar", columns: Columns | None = None) -> None:
        if kind not in get_args(Kind):
            raise TunerError(f"kind of loop features must be itervar or curve; got {kind!r}")
        self.task, self.kind = task, kind
        self._space = task.config_space
        self._rows: dict[int, Rows] = {}
        self._errors: dict[int, str] = {}
        self.columns = self._learned() if columns is None else columns
        place = {name: i for i, name in enumerate(raw_feature_names(self._space))}
        self._knobs = [place.get(name, -1) for name in self.columns.knobs]

    @property
    def names(self) -> list[str]:
        """Names of all columns."""
        return [*self.columns.loops, *self.columns.knobs]

    def trees(self, indices: object) -> Rows:
        """Return one row a configuration index, for models that compare."""
        wanted = np.asarray(indices).tolist()
        if not wanted:
            return np.empty((0, len(self.names)), dtype=np.float32)
        loops = np.stack([self._row(index) for index in wanted])
        knobs = raw_features(self._space, indices)
        padded = np.concatenate([knobs, np.full((len(knobs), 1), np.nan)], axis=1)
        return np.concatenate([loops, padded[:, self._knobs].astype(np.float32)], axis=1)

    def matrix(self, configs: Iterable[ConfigEntity | int]) -> Rows:
        """Return one row a configuration of the task's space."""
        return self.trees([_index(config) for config in configs])

    def error(self, index: int) -> str | None:
        """Return why a configuration has no loops, if it was asked for and has none."""
        return self._errors.get(index)

    def like(self, task: Task) -> LoopFeatures:
        """Return the features of another task of the same template, in the columns of this one.

        Knobs that the other task does not have are NaN.
        """
        return LoopFeatures(task, self.kind, self.columns)

    # Rows.

    def _row(self, index: int) -> Rows:
        row = self._rows.get(index)
        if row is None:
            while len(self._rows) >= _MOST_ROWS:
                oldest = next(iter(self._rows))
                del self._rows[oldest]
                self._errors.pop(oldest, None)
            row = self._rows[index] = self._computed(index)
        return row

    def _computed(self, index: int) -> Rows:
        blocks = self._blocks(index)
        if blocks is None:
            return np.full(len(self.columns.loops), np.nan, dtype=np.float32)
        row = np.zeros(len(self.columns.loops), dtype=np.float32)
        for key, values in blocks.items():
            start = self.columns.starts.get(key)
            if start is not None:
                row[start : start + len(values)] = values
        return row

    def _blocks(self, index: int) -> Blocks | None:
        """Return the features of one configuration by name; None if it cannot be lowered."""
        try:
            output = self.task.instantiate(self._space.get(index))
        except Exception as error:  # the user's template is a border: its failure is this row's
            self._note(index, error)
            return None
        schedule, args = _schedule(self.task, output)
        try:
            return _BLOCKS[self.kind](loop_nest(schedule, args))
        except AutotuneError as error:
            self._note(index, error)
            return None

    def _note(self, index: int, error: Exception) -> None:
        self._errors[index] = f"{type(error).__name__}: {error}"

    # Columns.

    def _learned(self) -> Columns:
        """Give a place to each block that occurs in a few configurations."""
        starts: dict[str, int] = {}
        names: list[str] = []
        for key, values in (item for blocks in self._probed() for item in blocks.items()):
            if key not in starts:
                starts[key] = len(names)
                names += [f"{key}/{field}" for field in _fields(self.kind, len(values))]
        return Columns(starts, tuple(names), tuple(raw_feature_names(self._space)))

    def _probed(self) -> Iterator[Blocks]:
        drawn = self._space.sample(_MOST_PROBES, np.random.default_rng(0)).tolist()
        found = (self._blocks(index) for index in drawn)
        return islice((blocks for blocks in found if blocks is not None), _PROBES)


def loop_features(
    task: Task, configs: Iterable[ConfigEntity | int], kind: Kind = "itervar"
) -> Rows:
    """Return loop features and knob values, one row a configuration.

    All calls for one task give the same columns, which `loop_feature_names` names. What concerns
    loops is NaN in the rows of configurations that cannot be lowered. Rows are remembered.

    Args:
        task: of a template that returns a schedule.
        configs: configurations of the task's space, or their indices.
        kind: ``"itervar"`` or ``"curve"``.

    Raises:
        TemplateError: the template returns the source of a kernel, which has no loops to look at.
        TunerError: another kind.
    """
    return _remembered(task, task.func, kind).matrix(configs)


def loop_feature_names(task: Task, kind: Kind = "itervar") -> list[str]:
    """Return the names of the columns of `loop_features`."""
    return _remembered(task, task.func, kind).names


@lru_cache(_TASKS)
def _remembered(task: Task, func: object, kind: Kind) -> LoopFeatures:
    # A template that was registered anew under the same name has another function.
    del func
    return LoopFeatures(task, kind)


def _index(config: ConfigEntity | int) -> int:
    return config.index if isinstance(config, ConfigEntity) else int(config)


def _schedule(task: Task, output: object) -> tuple[Schedule, Sequence[Tensor]]:
    if isinstance(output, tuple | list) and output and isinstance(output[0], Schedule):
        return output[0], output[1]
    raise TemplateError(
        f"task {task.name!r} returns {type(output).__name__}: loop features need a template that "
        "returns (schedule, tensors); use feature_type='knob' for it"
    )


def _fields(kind: Kind, width: int) -> Sequence[str]:
    if kind == "curve":
        return [
            f"{y}_by_{x}[{i}].{part}"
            for y, x in CURVES
            for i in range(_SAMPLES)
            for part in ("value", "past")
        ]
    return TOUCH_NAMES if width == len(TOUCH_NAMES) else ATTRIBUTE_NAMES + ARITHMETIC_NAMES


def _itervar_blocks(nest: LoopNest) -> Blocks:
    table = ItervarTable(nest)
    rows = iter(table.touch_table(take_log=True))
    seen: Counter[str] = Counter()
    blocks: Blocks = {}
    own = table.attributes(take_log=True)
    for loop, values, touches in zip(nest.loops, own, table.touches, strict=True):
        name = f"{loop.stage}/{loop.name}"
        seen[name] += 1
        key = name if seen[name] == 1 else f"{name}.{seen[name]}"
        blocks[key] = values
        for access in touches:
            blocks[f"{key}/{access}"] = next(rows)
    return blocks


def _curve_blocks(nest: LoopNest) -> Blocks:
    return curves_of(nest, _SAMPLES)


_BLOCKS = {"itervar": _itervar_blocks, "curve": _curve_blocks}
