"""TVM's `auto_scheduler.utils`."""

from typing import TYPE_CHECKING

from autotune.auto_scheduler.best_record import decode_workload_key
from autotune.auto_scheduler.best_record import workload_distance as calc_workload_dis_factor
from autotune.tvm.names import resolver

__all__ = ["calc_workload_dis_factor", "decode_workload_key"]

if not TYPE_CHECKING:
    __getattr__ = resolver(__name__)
