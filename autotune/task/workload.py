"""Workload keys: a task's name and its arguments in a form that compares, hashes and prints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeGuard

import numpy as np

from autotune.task.axes import constant
from autotune.task.errors import WorkloadError

Workload = tuple[Any, ...]


def serialize_args(args: Sequence[object]) -> Workload:
    """Return arguments as plain values: tensors become ``("TENSOR", shape, dtype)``.

    Raises:
        WorkloadError: an argument is neither tensor, list, string, number nor None.
    """
    if not isinstance(args, (tuple, list)):
        raise WorkloadError(
            f"args must be a tuple or list, such as (1024, 'float32'), got {args!r}"
        )
    return tuple(_plain(value) for value in args)


def args_to_workload(args: Sequence[object], task_name: str | None = None) -> Workload:
    """Return the workload key of a call."""
    plain = serialize_args(args)
    return plain if task_name is None else (task_name, *plain)


def tuples(value: object) -> Any:
    """Return JSON data with every list made a tuple."""
    return tuple(tuples(item) for item in value) if isinstance(value, (list, tuple)) else value


def _plain(value: object) -> object:
    if isinstance(value, (list, tuple)):
        return tuple(_plain(item) for item in value)
    if value is None or isinstance(value, (str, int, float)):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if _is_tensor(value):
        return ("TENSOR", tuple(_extent(n) for n in value.shape), str(value.dtype))
    number = getattr(value, "value", None)  # a constant expression
    if isinstance(number, (int, float)):
        return number
    raise WorkloadError(
        f"args: {type(value).__name__} cannot be an argument of a task; expected a tensor, list, "
        f"tuple, string, number or None, got {value!r}"
    )


class _Tensor(Protocol):
    """A tensor, of whatever library."""

    shape: Sequence[object]
    dtype: object


def _is_tensor(value: object) -> TypeGuard[_Tensor]:
    return all(hasattr(value, name) for name in ("shape", "dtype", "op"))


def _extent(extent: object) -> int:
    length = constant(extent)
    if length is None:
        raise WorkloadError(f"a task needs constant shapes, got the extent {extent}")
    return length
