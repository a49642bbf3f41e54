"""A prior for a task from records of other shapes and devices."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeGuard

import numpy as np
import numpy.typing as npt

from autotune.cost_model import Trees, TreeSettings
from autotune.features import KnobFeatures
from autotune.measure.types import Pair
from autotune.record.origin import as_measured
from autotune.record.outdated import task_refusal
from autotune.task import ConfigEntity, ConfigSpace, Task
from autotune.task.constraints.radix import IndexArray
from autotune.utils.escaping import visible

logger = logging.getLogger("autotvm")

Float = npt.NDArray[np.float64]

# Fastest configurations taken over from each of the nearest tasks, and the number of those.
BEST_OF_EACH, NEAREST = 2, 4
# How far slow configurations are pulled up: below this quantile all count the same.
FLOOR_QUANTILE = 0.25
# Trials of a task after which the prior counts half.
FADING = 30


@dataclass(frozen=True)
class _Source:
    """The records of one other task (shape, device), fastest first."""

    task: Task
    indices: list[int]
    rates: Float


class Expectation(Protocol):
    """Expected values of points of a space before they are measured."""

    @property
    def starts(self) -> Sequence[int]:
        """Points to try first."""

    def refresh(self) -> None:
        """Called before a model is fitted, which relies on the same answers until the next."""

    def predict(self, indices: Sequence[int] | IndexArray) -> Float:
        """Return how good points should be, in standard deviations."""


class Prior:
    """A model fitted to earlier records, and their best configurations.

    Attributes:
        records: how many are used.
        starts: indices of this task's space nearest to the best configurations of the nearest
            tasks, nearest first.
    """

    def __init__(self, task: Task, features: KnobFeatures, pairs: Iterable[Pair]) -> None:
        self._features = features
        sources = _sources(task, pairs)
        tables = [_rows(features, source, task) for source in sources]
        known = [(s, t) for s, t in zip(sources, tables, strict=True) if t is not None]
        self.records = sum(len(source.indices) for source, _ in known)
        nearest = sorted((s for s, _ in known), key=lambda s: _distance(task, s.task))[:NEAREST]
        self.starts = _starts(task.config_space, nearest)
        self._trees: Trees | None = None
        if self.records:
            rows = features.trees_of(np.concatenate([table for _, table in known]))
            values = np.concatenate([standard_rates(source.rates) for source, _ in known])
            self._trees = Trees.fit(rows, values, "reg", TreeSettings(rounds=150, depth=6))

    def refresh(self) -> None:
        """Called before a model is fitted; records of earlier runs do not change."""

    def predict(self, indices: Sequence[int] | IndexArray) -> Float:
        """Return how good points of this task's space should be, in standard deviations."""
        if self._trees is None:
            return np.zeros(len(indices))
        return self._trees.predict(self._features.trees(indices))


def trust(expected: Float, measured: Float) -> float:
    """Return by how much to follow the prior's expectation, given what was measured: 0 to 1.

    The slope of a regression, 0 as soon as the prior explains too little: then it misleads. It
    fades while trials of the task itself come in: even a prior that is right about most of the
    space may be wrong about the best of it.
    """
    n = len(measured)
    if n < 4 or np.ptp(expected) == 0 or np.ptp(measured) == 0:
        return 0.5 if n < 4 else 0.0
    correlation = float(np.corrcoef(expected, measured)[0, 1])
    slope = correlation * float(np.std(measured) / np.std(expected))
    doubt = 1.0 / np.sqrt(n)
    fading = FADING / (FADING + n)
    return 0.0 if correlation < 0.2 + doubt / 2 else fading * min(1.0, slope)


def _sources(task: Task, pairs: Iterable[Pair]) -> list[_Source]:
    """Group usable records by task."""
    groups: dict[tuple[str, str], tuple[Task, dict[int, float]]] = {}
    for pair in pairs:
        inp, res = as_measured(pair)
        if inp.task.name != task.name or not res.ok or not isinstance(inp.task, Task):
            continue
        key = (str(inp.task.workload), str(inp.target))
        _, rates = groups.setdefault(key, (inp.task, {}))
        index = int(ConfigEntity.of(inp.config).index)
        rates[index] = max(rates.get(index, 0.0), 1 / res.seconds)
    sources = []
    for other, rates in groups.values():
        order = sorted(rates, key=lambda i: -rates[i])
        sources.append(_Source(other, order, np.array([rates[i] for i in order])))
    return sources


def _rows(features: KnobFeatures, source: _Source, task: Task) -> Float | None:
    """Return raw features of a source's records in the order of this task's columns."""
    refused = None if source.task.args == task.args else task_refusal(source.task)
    if refused is not None:
        logger.warning("history: %s cannot be used: %s", source.task, refused.why)
        return None
    try:
        space = source.task.config_space
        if not space.is_valid(source.indices).all():
            return None
        return features.translated(space, source.indices)
    except Exception as error:  # the template is the user's, and a log may hold anything
        logger.warning("history: %s cannot be used: %s", source.task, visible(str(error)))
        return None


def standard_rates(rates: Float) -> Float:
    """Return logarithms, slow ones pulled up, in standard deviations."""
    logs = np.log(rates)
    logs = np.maximum(logs, np.quantile(logs, FLOOR_QUANTILE))
    return np.asarray((logs - logs.mean()) / (logs.std() + 1e-9))


def _distance(task: Task, other: Task) -> float:
    """Return how different the arguments are: ratios of numbers, and anything else."""
    ours, theirs = list(_leaves(task.args)), list(_leaves(other.args))
    distance = float(abs(len(ours) - len(theirs)))
    for a, b in zip(ours, theirs, strict=False):
        if _positive(a) and _positive(b):
            distance += abs(float(np.log2(a / b)))
        elif a != b:
            distance += 1.0
    return distance + (0.5 if str(task.target) != str(other.target) else 0.0)


def _positive(value: object) -> TypeGuard[float]:
    return isinstance(value, (int, float)) and value > 0


def _leaves(value: object) -> Iterable[object]:
    if isinstance(value, (list, tuple)):
        for item in value:
            yield from _leaves(item)
    else:
        yield value


def _starts(space: ConfigSpace, sources: Sequence[_Source]) -> list[int]:
    """Return valid points of ``space`` nearest to the best of each source, source by source."""
    found: dict[int, None] = {}
    for rank in range(BEST_OF_EACH):
        for source in sources:
            if rank < len(source.indices):
                index = nearest_point(space, source.task.config_space, source.indices[rank])
                found |= dict.fromkeys(int(i) for i in index[:1])
    return list(found)


def nearest_point(space: ConfigSpace, other: ConfigSpace, index: int) -> IndexArray:
    """Return the point with the most similar entities, if it is valid."""
    digits = []
    theirs = dict(zip(other.names, other.point2knob(index), strict=True))
    for name, knob in space.space_map.items():
        table, row = knob.feature_table, other.space_map[name].feature_table[theirs[name]]
        if table.shape[1] != len(row):
            return space.indices(np.empty((0, len(space.dims)), dtype=np.int64))
        digits.append(int(np.argmin(_unlike(table, row))))
    point = space.indices([digits])
    return point[space.is_valid(point)]


def _unlike(table: Float, row: Float) -> Float:
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.abs(np.log2(table / row))
    differences = np.where((table > 0) & (row > 0), ratios, np.abs(table - row))
    return np.asarray(differences.sum(axis=1))


__all__ = ["Expectation", "Prior", "nearest_point", "standard_rates", "trust"]
