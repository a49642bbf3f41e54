"""What a log already holds of a task, so that a run can go on where another ended."""

from __future__ import annotations

import json
from collections.abc import Iterable

from autotune.measure.types import MeasureErrorNo, MeasureInput, MeasureResult
from autotune.task import ConfigEntity, Task

Pair = tuple[MeasureInput, MeasureResult]

# These say something of the machine on that day, not of the configuration.
_WORTH_RETRYING = (MeasureErrorNo.UNKNOWN_ERROR,)


def measured_pairs(task: Task, records: Iterable[Pair]) -> list[Pair]:
    """Return the records of this task, one for each configuration, in the order of the log.

    A record belongs to the task when workload and target are the same and its configuration is a
    point of the task's space with the same knobs: a space edited since gives other knobs for an
    index. Of several records of one configuration the first that worked counts, else the last.
    The pairs returned carry the task's own configurations, so they can be given to its tuner.
    """
    space = task.config_space
    found: dict[int, Pair] = {}
    for inp, result in records:
        index = inp.config.index
        if inp.task.workload != task.workload or str(inp.target) != str(task.target):
            continue
        if result.error_no in _WORTH_RETRYING or index is None:
            continue
        if not (0 <= index < space.range_length and space.is_index_valid(index)):
            continue
        own = space.get(index)
        if _knobs(own) != _knobs(inp.config):
            continue
        known = found.get(index)
        if known is None or known[1].error_no:
            found[index] = (MeasureInput(inp.target, task, own), result)
    return list(found.values())


def _knobs(config: ConfigEntity) -> dict[str, str]:
    """Return the choices by name: old logs list them in another order than the space."""
    entity = config.to_json_dict()["entity"]
    return {name: json.dumps([tag, value]) for name, tag, value in entity}


def measured_indices(task: Task, records: Iterable[Pair]) -> set[int]:
    """Return the indices of the configurations a log has results of; see `measured_pairs`."""
    return {int(inp.config.index) for inp, _ in measured_pairs(task, records)}
