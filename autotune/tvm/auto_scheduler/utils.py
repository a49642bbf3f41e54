"""TVM's `auto_scheduler.utils`."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from autotune.auto_scheduler.records.best import decode_workload_key
from autotune.auto_scheduler.records.best import workload_distance as calc_workload_dis_factor
from autotune.auto_scheduler.workload_registry import func_name_of as get_func_name
from autotune.task.workload import serialize_args
from autotune.task.workload import tuples as list_to_tuple
from autotune.topi.utils import get_const_int, get_const_tuple
from autotune.tvm.names import resolver

__all__ = [
    "array_mean",
    "calc_workload_dis_factor",
    "decode_workload_key",
    "get_const_int",
    "get_const_tuple",
    "get_func_name",
    "list_to_tuple",
    "serialize_args",
]


def array_mean(costs: Iterable[float]) -> float:
    """Return the mean of the costs of a result."""
    return float(np.mean([float(each) for each in costs]))


if not TYPE_CHECKING:
    __getattr__ = resolver(__name__)
