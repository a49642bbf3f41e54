"""The auto-scheduler: fast kernels from a definition alone, without a template."""

from autotune.auto_scheduler import workload_registry
from autotune.auto_scheduler.compute_dag import ComputeDAG
from autotune.auto_scheduler.hardware_params import HardwareParams
from autotune.auto_scheduler.search_task import LayoutRewriteOption, SearchTask, create_task
from autotune.auto_scheduler.workload_registry import make_workload_key, register_workload

__all__ = [
    "ComputeDAG",
    "HardwareParams",
    "LayoutRewriteOption",
    "SearchTask",
    "create_task",
    "make_workload_key",
    "register_workload",
    "workload_registry",
]
