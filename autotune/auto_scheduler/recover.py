"""Inputs of records as they are in this process: with the task that a script can search."""

from __future__ import annotations

from autotune.auto_scheduler.loop_state import HasSteps
from autotune.auto_scheduler.measure_input import MeasureInput, RecordedTask
from autotune.auto_scheduler.search_task import SearchTask


def recover_measure_input(inp: MeasureInput, rebuild_state: bool = False) -> MeasureInput:
    """Returns an input of a record with the task as it is in this process.

    Args:
        inp: as a record was read.
        rebuild_state: whether the state gets its loops too, with ranges, so that it prints.

    Raises:
        TemplateError: the workload is not registered in this process.
        ScheduleError: a step does not fit the graph.
    """
    task = inp.task.recovered(SearchTask) if isinstance(inp.task, RecordedTask) else inp.task
    state: HasSteps = inp.state
    if rebuild_state:
        state = task.compute_dag.infer_bound_from_state(state)
    return MeasureInput(task, state)
