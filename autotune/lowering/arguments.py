"""The check of what callers hand to lowering."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from autotune.errors import LoweringError
from autotune.te.schedule import Schedule
from autotune.te.tensor import Tensor


def checked_tensors(schedule: Any, args: Any, name: Any) -> tuple[Tensor, ...]:
    """Return the arguments of the function to be lowered.

    Raises:
        LoweringError: the schedule, the arguments or the name are something else.
    """
    if not isinstance(schedule, Schedule):
        raise LoweringError(
            "lower: expected a schedule, as te.create_schedule makes it, got "
            f"{described(schedule)}"
        )
    if isinstance(args, Tensor):
        raise LoweringError(f"lower: the arguments are a list of tensors: write [{args.name}]")
    if not isinstance(args, Iterable):
        raise LoweringError(
            "lower: expected the list of tensors that the function takes, such as [A, B], got "
            f"{described(args)}"
        )
    tensors = tuple(args)
    for position, each in enumerate(tensors):
        if not isinstance(each, Tensor):
            raise LoweringError(
                f"lower: argument {position} must be a tensor, got {described(each)}"
            )
    if not isinstance(name, str) or not name:
        raise LoweringError(f"lower: expected a name for the function, got {name!r}")
    return tensors


def described(value: Any) -> str:
    """Say what a value is, with its name if it has one."""
    kind, name = type(value).__name__, getattr(value, "name", None)
    if value is None:
        return "None"
    return f"{kind} {name!r}" if isinstance(name, str) else kind
