"""AutoTVM's `task.dispatcher`."""

from typing import TYPE_CHECKING

from autotune.record import ApplyHistoryBest
from autotune.record import ApplyHistoryBest as ApplyGraphBest
from autotune.task.dispatcher import (
    ApplyConfig,
    ApplyFixedConfig,
    DispatchContext,
    FallbackContext,
    clear_fallback_cache,
)
from autotune.tvm.names import resolver

__all__ = [
    "ApplyConfig",
    "ApplyFixedConfig",
    "ApplyGraphBest",
    "ApplyHistoryBest",
    "DispatchContext",
    "FallbackContext",
    "clear_fallback_cache",
]

if not TYPE_CHECKING:
    __getattr__ = resolver(__name__)
