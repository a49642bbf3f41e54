"""AutoTVM's `env`: the process-wide switches."""

from autotune.task.scope import GLOBAL_SCOPE

__all__ = ["GLOBAL_SCOPE"]
