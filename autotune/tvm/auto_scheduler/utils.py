"""TVM's `auto_scheduler.utils`."""

from collections.abc import Iterable

import numpy as np

from autotune.auto_scheduler.records.best import decode_workload_key
from autotune.auto_scheduler.records.best import workload_distance as calc_workload_dis_factor
from autotune.auto_scheduler.workload_registry import func_name_of as get_func_name
from autotune.task.workload import serialize_args
from autotune.task.workload import tuples as list_to_tuple
from autotune.topi.utils import get_const_int, get_const_tuple
from autotune.tvm.autotvm.measure.measure_methods import request_remote

__all__ = [
    "array_mean",
    "calc_workload_dis_factor",
    "decode_workload_key",
    "get_const_int",
    "get_const_tuple",
    "get_func_name",
    "list_to_tuple",
    "request_remote",
    "serialize_args",
    "to_str_round",
]


def to_str_round(x: object, decimal: int = 6) -> str:
    """Return numbers as a text with so many decimals: one, or lists of them in brackets."""
    if isinstance(x, str):
        return x
    if isinstance(x, dict):
        return str({key: to_str_round(each, decimal) for key, each in x.items()})
    if isinstance(x, Iterable):
        return "[" + ", ".join(to_str_round(each, decimal) for each in x) + "]"
    return str(x) if isinstance(x, int) else f"{float(x):.{decimal}f}"  # type: ignore[arg-type]


def array_mean(costs: Iterable[float]) -> float:
    """Return the mean of the costs of a result."""
    return float(np.mean([float(each) for each in costs]))
