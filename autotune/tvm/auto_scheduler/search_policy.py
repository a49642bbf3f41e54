"""TVM's `auto_scheduler.search_policy`."""

from typing import Any

from autotune.auto_scheduler import EmptyPolicy, PreloadCustomSketchRule, PreloadMeasuredStates
from autotune.auto_scheduler.search_policy import SearchPolicy
from autotune.auto_scheduler.search_policy import SketchPolicy as _SketchPolicy

__all__ = [
    "EmptyPolicy",
    "PreloadCustomSketchRule",
    "PreloadMeasuredStates",
    "SearchPolicy",
    "SketchPolicy",
]


class SketchPolicy(_SketchPolicy):
    """Searches the programs that sketch rules derive: see the class that it is derived from.

    Args:
        task: what is searched.
        *more: what the other class takes, in its order.
        schedule_cost_model: the name of ``program_cost_model`` in TVM 0.7.
        **named: what the other class takes, by name.
    """

    def __init__(
        self, task: Any, *more: Any, schedule_cost_model: Any = None, **named: Any
    ) -> None:
        if schedule_cost_model is not None:
            named["program_cost_model"] = schedule_cost_model
        super().__init__(task, *more, **named)
