"""TVM's `auto_scheduler.dispatcher`."""

from typing import TYPE_CHECKING

from autotune.network import ApplyHistoryBest, ApplyHistoryBestOrSample
from autotune.tvm.names import resolver

__all__ = ["ApplyHistoryBest", "ApplyHistoryBestOrSample", "DispatchContext"]

DispatchContext = ApplyHistoryBest

if not TYPE_CHECKING:
    __getattr__ = resolver(__name__)
