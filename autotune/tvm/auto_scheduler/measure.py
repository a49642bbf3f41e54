"""TVM's `auto_scheduler.measure`."""

from collections.abc import Iterable, Sequence
from typing import Any

from autotune.auto_scheduler import (
    LocalBuilder,
    LocalRPCMeasureContext,
    LocalRunner,
    PythonBasedMeasureCallback,
    RPCRunner,
)
from autotune.auto_scheduler import ProgramMeasurer as _ProgramMeasurer
from autotune.auto_scheduler.measuring.measure_input import MeasureInput
from autotune.auto_scheduler.problem.task_inputs import register_task_input_check_func
from autotune.auto_scheduler.search_task import recover_measure_input
from autotune.measure import Builder as ProgramBuilder
from autotune.measure import Runner as ProgramRunner
from autotune.measure.types import BuildResult, MeasureErrorNo
from autotune.measure.types import MeasureResult as _Result

__all__ = [
    "BuildResult",
    "LocalBuilder",
    "LocalRPCMeasureContext",
    "LocalRunner",
    "MeasureCallback",
    "MeasureErrorNo",
    "MeasureInput",
    "MeasureResult",
    "ProgramBuilder",
    "ProgramMeasurer",
    "ProgramRunner",
    "PythonBasedMeasureCallback",
    "RPCRunner",
    "recover_measure_input",
    "register_task_input_check_func",
]

MeasureCallback = PythonBasedMeasureCallback


class ProgramMeasurer(_ProgramMeasurer):
    """Autotune's measurer, which takes inputs in place of states too, as data sets of TVM do."""

    def measure(self, task: Any, policy: object, states: Iterable[Any]) -> Any:
        """Measure states of a task, and return inputs and results; of inputs, the results."""
        given = list(states)
        if not given or not all(isinstance(each, MeasureInput) for each in given):
            return super().measure(task, policy, given)
        _, results = super().measure(task, policy, [each.state for each in given])
        return results


class _AnyResult(type):
    """Takes every result of a measurement for an instance, whichever way it was made."""

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, _Result)


class MeasureResult(metaclass=_AnyResult):
    """Makes a result; the auto-scheduler's order of arguments is another than AutoTVM's."""

    def __new__(  # type: ignore[misc]
        cls,
        costs: Sequence[float],
        error_no: int,
        error_msg: str | None,
        all_cost: float,
        timestamp: float,
    ) -> _Result:
        """Return the result."""
        kept = tuple(map(float, costs)) if error_no == MeasureErrorNo.NO_ERROR else ()
        return _Result(kept, int(error_no), float(all_cost), float(timestamp), error_msg or "")
