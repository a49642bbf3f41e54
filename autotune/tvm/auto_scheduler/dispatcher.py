"""TVM's `auto_scheduler.dispatcher`."""

from autotune.auto_scheduler import load_records
from autotune.network import ApplyHistoryBest, ApplyHistoryBestOrSample

__all__ = ["ApplyHistoryBest", "ApplyHistoryBestOrSample", "DispatchContext", "load_records"]

DispatchContext = ApplyHistoryBest
