"""AutoTVM's `env`: the process-wide switches."""

from typing import TYPE_CHECKING

from autotune.task.scope import GLOBAL_SCOPE
from autotune.tvm.names import resolver

__all__ = ["GLOBAL_SCOPE"]

if not TYPE_CHECKING:
    __getattr__ = resolver(__name__)
