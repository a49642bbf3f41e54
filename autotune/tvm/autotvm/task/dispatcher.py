"""AutoTVM's `task.dispatcher`."""

from autotune.record import ApplyHistoryBest
from autotune.record import ApplyHistoryBest as ApplyGraphBest
from autotune.task.dispatcher import (
    ApplyConfig,
    ApplyFixedConfig,
    DispatchContext,
    FallbackContext,
    clear_fallback_cache,
)

__all__ = [
    "ApplyConfig",
    "ApplyFixedConfig",
    "ApplyGraphBest",
    "ApplyHistoryBest",
    "DispatchContext",
    "FallbackContext",
    "clear_fallback_cache",
]
