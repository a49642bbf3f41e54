"""The trials of a task that a log holds, also those under older names of its operations."""

from __future__ import annotations

import logging
from pathlib import Path

from autotune.auto_scheduler.equivalent_keys import equivalent_keys
from autotune.auto_scheduler.measure_input import MeasureInput
from autotune.auto_scheduler.record_file import RecordReader
from autotune.auto_scheduler.search_task import SearchTask
from autotune.measure import MeasureResult

logger = logging.getLogger("auto_scheduler")


def measured_states(
    task: SearchTask, filename: str | Path
) -> list[tuple[MeasureInput, MeasureResult]]:
    """Return the records of a log that are of a task, on its kind of target, in order.

    A log that does not exist holds none; a warning says so.
    """
    if not Path(filename).exists():
        logger.warning("%s does not exist!", filename)
        return []
    keys = set(equivalent_keys(task.compute_dag, task.workload_key))
    return [
        (MeasureInput(task, inp.state), result)
        for inp, result in RecordReader(filename)
        if inp.task.workload_key in keys and inp.target.kind == task.target.kind
    ]
