"""Configurations tuned for similar shapes, adapted to those of a call.

Workloads of one template are compared argument by argument: the distance is the sum of
|log2(a / b)| over positive numbers, and all other arguments must be equal. So twice and half a
length are equally far, whatever the unit.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import TypeGuard

from autotune.errors import AutotuneError
from autotune.measure.types import Pair
from autotune.record.best import best_of_each
from autotune.record.origin import as_measured
from autotune.target import Target
from autotune.task import ConfigEntity, Task


def distance(a: object, b: object) -> float:
    """Return how far two arguments of a template are apart; infinity where they differ in kind."""
    if isinstance(a, (tuple, list)) and isinstance(b, (tuple, list)):
        if len(a) != len(b):
            return math.inf
        return sum((distance(x, y) for x, y in zip(a, b, strict=True)), 0.0)
    if _is_size(a) and _is_size(b):
        return abs(math.log2(a) - math.log2(b))
    return 0.0 if type(a) is type(b) and a == b else math.inf


def _is_size(value: object) -> TypeGuard[float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0


def nearest(task: Task, pairs: Iterable[Pair]) -> Iterator[tuple[Task, ConfigEntity]]:
    """Yield what was tuned nearby and what it becomes for this task, the nearest first.

    Among equally near ones their arguments decide, so that it is the same everywhere.
    """
    found = []
    for inp, _ in best_of_each(map(as_measured, pairs)):
        other = inp.task
        if not isinstance(other, Task) or other.name != task.name:
            continue
        apart = distance(task.args, other.args)
        if apart < math.inf and _same_device(inp.target, task.target):
            found.append((apart, str(other.args), other, ConfigEntity.of(inp.config)))
    for _, _, other, config in sorted(found, key=lambda row: row[:2]):
        fitted = imitated(task, config)
        if fitted is not None:
            yield other, fitted


def _same_device(a: Target | None, b: Target | None) -> bool:
    return a is not None and b is not None and _facts(a) == _facts(b)


def _facts(target: Target) -> tuple[object, ...]:
    return target.language, target.arch, target.emulate


def imitated(task: Task, config: ConfigEntity) -> ConfigEntity | None:
    """Return the point of a space that is most like one of another workload, or None.

    Each kind of knob says what is like a value of its own: a split keeps its inner extents.
    """
    space = task.config_space
    digits = []
    for name, knob in space.space_map.items():
        entity = knob.imitation(config.recorded[name]) if name in config else None
        digit = None if entity is None else knob.find(entity)
        if digit is None:
            return None
        digits.append(digit)
    try:
        index = space.knob2point(digits)
        return space.get(index) if space.is_index_valid(index) else None
    except AutotuneError:
        return None
