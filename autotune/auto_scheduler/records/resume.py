"""The trials of a task that a log holds, also those under older names of its operations."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from pathlib import Path

from autotune.auto_scheduler.measuring.measure_input import MeasureInput
from autotune.auto_scheduler.problem.equivalent_keys import equivalent_keys, structural_hash
from autotune.auto_scheduler.problem.search_problem import SearchProblem
from autotune.auto_scheduler.records.codec import is_of_graph, says_graph
from autotune.auto_scheduler.records.file import RecordReader
from autotune.errors import AutotuneError
from autotune.measure import MeasureResult

logger = logging.getLogger("auto_scheduler")


def measured_states(
    task: SearchProblem, filename: str | Path
) -> list[tuple[MeasureInput, MeasureResult]]:
    """Return the records of a log that are of a task, on its kind of target, in order.

    Those that were measured with weights in another order (`SearchProblem.times_alike`) are not.
    A log that does not exist holds none; a warning says so.
    """
    if not Path(filename).exists():
        logger.warning("%s does not exist!", filename)
        return []
    keys = set(equivalent_keys(task.compute_dag, task.workload_key))
    definition = Definition(task, keys)
    found = [
        (MeasureInput(task, inp.state), result)
        for inp, result in RecordReader(filename)
        if inp.target.kind == task.target.kind
        and task.times_alike(inp.task.layout_rewrite_option)
        and definition.concerns(inp, result)
        and definition.made(inp, result)
    ]
    definition.warn(filename)
    return found


class Definition:
    """Distinguishes records of a task as it is defined now from those of an older definition.

    The key of a function stays when the function is changed. A record that does not say of which
    graph it is, such as TVM's, is taken as it is.

    Args:
        task: as it is now.
        keys: those of its records; of other keys are records of smaller workloads.
    """

    def __init__(self, task: SearchProblem, keys: Iterable[str]) -> None:
        self._task = task
        self._keys = set(keys)
        self._others: dict[str, str | None] = {}
        self._older: set[tuple[str, str]] = set()

    def concerns(self, inp: MeasureInput, result: MeasureResult) -> bool:
        """Return whether a record is of the task: it has one of its keys, or says its graph.

        A key changes with the names of operations, as the operator library or the script that
        made them does; the hash of the graph does not.
        """
        return inp.task.workload_key in self._keys or says_graph(result, self._task.graph_hash)

    def made(self, inp: MeasureInput, result: MeasureResult) -> bool:
        """Return whether a record is of the definition; one that is not is counted."""
        if says_graph(result, self._task.graph_hash):
            return True
        now = self._hash(inp)
        if now is None or is_of_graph(result, now):
            return True
        self._older.add((inp.task.workload_key, inp.key))
        return False

    def _hash(self, inp: MeasureInput) -> str | None:
        key = inp.task.workload_key
        if key in self._keys:
            return self._task.graph_hash
        if key not in self._others:
            try:
                self._others[key] = structural_hash(inp.task.compute_dag)
            except AutotuneError:
                self._others[key] = None
        return self._others[key]

    def said(self) -> str:
        """Return the message about records of an older definition; empty if there are none."""
        if not self._older:
            return ""
        return f"; {len(self._older)} records of an older definition of it were ignored"

    def warn(self, filename: str | Path) -> None:
        """Say how many records were ignored."""
        if self._older:
            logger.warning("%s: %s%s", filename, self._task.workload_key, self.said())
