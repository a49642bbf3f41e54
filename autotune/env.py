"""AutoTVM's name for the place of the process-wide switches."""

from typing import TYPE_CHECKING

from autotune.migration import resolver
from autotune.task.scope import GLOBAL_SCOPE

__all__ = ["GLOBAL_SCOPE"]

if not TYPE_CHECKING:
    __getattr__ = resolver(__name__)
