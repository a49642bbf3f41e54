"""TVM's older name for the debug executor."""

from autotune.tvm.contrib.debugger.debug_executor import GraphModuleDebug, create

__all__ = ["GraphModuleDebug", "create"]
