"""TVM's `auto_scheduler.dispatcher`."""

from autotune.network import ApplyHistoryBest, ApplyHistoryBestOrSample

__all__ = ["ApplyHistoryBest", "ApplyHistoryBestOrSample", "DispatchContext"]

DispatchContext = ApplyHistoryBest
