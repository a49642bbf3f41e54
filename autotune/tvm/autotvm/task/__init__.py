"""AutoTVM's `task`."""

from typing import TYPE_CHECKING

from autotune.record import ApplyHistoryBest
from autotune.record import ApplyHistoryBest as ApplyGraphBest
from autotune.task import *
from autotune.task import __all__ as _ours
from autotune.tvm.autotvm.task.relay_integration import (
    extract_from_multiple_program,
    extract_from_program,
)

__all__ = [
    *_ours,
    "ApplyGraphBest",
    "ApplyHistoryBest",
    "dispatcher",
    "extract_from_multiple_program",
    "extract_from_program",
    "task",
]

if not TYPE_CHECKING:  # TVM's in place of ours, which have fewer names
    import autotune.tvm.autotvm.task.dispatcher as dispatcher
    import autotune.tvm.autotvm.task.task as task
