"""The auto-scheduler: fast kernels from a definition alone, without a template."""

from autotune.auto_scheduler.compute_dag import ComputeDAG

__all__ = ["ComputeDAG"]
