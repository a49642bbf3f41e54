"""The parts of a record that all formats share."""

from __future__ import annotations

import marshal
import sys
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from autotune.errors import SpaceError
from autotune.measure.evidence import NOTHING
from autotune.measure.evidence_json import from_json
from autotune.measure.types import LEAST_S, MeasureErrorNo, MeasureResult, Seconds
from autotune.record.messages import shorten_message, writable
from autotune.target import Target
from autotune.task import ConfigEntity, Task
from autotune.task.kinds import Entity, entity_from_json
from autotune.task.workload import tuples
from autotune.utils.plain_data import is_number, mapping
from autotune.utils.plain_data import row as row_of_json

# marshal tells 1, 1.0 and True apart; from version 3 on its bytes depend on who holds the objects.
_MARSHAL = 2
_LARGEST = sys.float_info.max
_YEAR_10000 = 253402300800.0
_NUMBERS = frozenset(map(int, MeasureErrorNo))


@lru_cache(maxsize=1024)
def target_of(text: str) -> Target:
    """Return the target of a log's target string."""
    return Target(text)


def task_from_json(target: object, name: object, args: object) -> tuple[Target, Task]:
    """Read a target string, the name of a task and its arguments.

    Raises:
        TypeError, AutotuneError: they are something else.
    """
    if not (isinstance(target, str) and target.isprintable()):
        raise TypeError("the target of a task is a text of one line")
    if not (isinstance(name, str) and name.isprintable()):
        raise TypeError("the name of a task is a text of one line")
    known = target_of(target)
    return known, Task(name, tuples(args), known)


def result_from_json(
    values: object, error_msg: object = "", extra: Mapping[str, object] | None = None
) -> MeasureResult:
    """Read ``[costs, error_no, all_cost, timestamp]``; a failed trial has no costs.

    A time of no calendar is read as 0, which is not known.

    Raises:
        ValueError, TypeError: it is something else, or a good trial without a time.
    """
    costs, number, all_cost, timestamp = row_of_json(values)
    if type(number) is not int or number not in _NUMBERS:
        raise ValueError(f"{number!r} is not a valid MeasureErrorNo")
    if not (is_number(all_cost) and is_number(timestamp)):
        raise ValueError("what a trial took, and when it ended, are numbers")
    if not isinstance(error_msg, str):
        raise TypeError("'error_msg' is a text")
    kept = () if number else _times(costs)
    message = error_msg and shorten_message(writable(error_msg))
    known = from_json(extra) if extra else NOTHING
    # Past the constructor, which takes what users note of a trial in other forms as well.
    ended = float(timestamp) if 0 <= timestamp < _YEAR_10000 else 0.0
    made = kept, number, float(all_cost), ended, message, known
    return MeasureResult._make(made)


def _times(given: object) -> tuple[float, ...]:
    """Return the costs of a trial that did not fail: times, of which there is a mean.

    Raises:
        ValueError, TypeError: they are something else.
    """
    costs = row_of_json(given)
    kept = tuple([cost for cost in costs if type(cost) is float and LEAST_S <= cost <= _LARGEST])
    if len(kept) != len(costs):
        kept = tuple([float(cost) for cost in costs if is_number(cost) and cost >= LEAST_S])
    if not kept or len(kept) != len(costs) or sum(kept) > _LARGEST:
        raise ValueError(f"a trial that did not fail has times, not {costs}"[:200])
    return tuple(map(Seconds, kept))


def mean_cost(costs: object) -> float:
    """Return what AutoTVM calls the cost of a configuration; that of a failed one is huge.

    Raises:
        ValueError: these are no costs.
    """
    if not costs or not isinstance(costs, (list, tuple)) or not all(map(is_number, costs)):
        raise ValueError(f"the costs of a trial are numbers, not {costs!r}"[:200])
    return float(sum(costs) / len(costs))


def config_from_json(
    data: object, entities: Entities | None = None, cost: float | None = None
) -> ConfigEntity:
    """Read what `ConfigEntity.to_json_dict` wrote.

    Raises:
        TypeError: the index is not a whole number of at least 0, or the hash is not a text.
    """
    known = mapping(data)
    chosen = (entities or Entities()).read(known["entity"])
    return config_of(known["index"], known["code_hash"], chosen, cost)


def config_of(
    index: object, code_hash: object, entities: dict[str, Entity], cost: float | None = None
) -> ConfigEntity:
    """Return a configuration of these choices.

    Raises:
        TypeError: the index is not a whole number of at least 0, or the hash is not a text.
    """
    if type(index) is not int or index < 0:
        raise TypeError(f"the index of a configuration is a whole number, not {index!r}")
    if code_hash is not None and not isinstance(code_hash, str):
        raise TypeError("the hash of a template is a text or null")
    return ConfigEntity(index, code_hash, entities, cost=cost)


class Entities:
    """Choices of knobs, which are the same in many records of a log; each is made once."""

    def __init__(self) -> None:
        self._known: dict[bytes, Entity] = {}

    def read(self, rows: Any) -> dict[str, Entity]:
        """Read ``[[name, tag, value], ...]``.

        Raises:
            SpaceError: it is something else.
        """
        known, dumps = self._known, marshal.dumps
        chosen: dict[str, Entity] = {}
        for row in rows:
            key = dumps(row, _MARSHAL)
            entity = known.get(key)
            if entity is None:
                if not isinstance(row, (list, tuple)) or len(row) != 3:
                    raise SpaceError(f"a choice is a name, a tag and a value, not {row!r}"[:200])
                entity = known[key] = entity_from_json(*row)
            chosen[row[0]] = entity
        return chosen


class Tasks:
    """The tasks of records, many of which share one; each task is made once."""

    def __init__(self) -> None:
        self._known: dict[bytes, tuple[Target, Task]] = {}

    def read(self, row: Any) -> tuple[Target, Task]:
        """Read ``[target, name, args, kwargs]``.

        Raises:
            ValueError, TypeError, AutotuneError: it is something else.
        """
        key = marshal.dumps(row, _MARSHAL)
        known = self._known.get(key)
        if known is None:
            target, name, args, _ = row
            known = self._known[key] = task_from_json(target, name, args)
        return known
