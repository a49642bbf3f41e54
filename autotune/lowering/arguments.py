"""Checks of the arguments of lowering."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from autotune.errors import LoweringError
from autotune.ir.dtype import INDEX_DTYPE
from autotune.ir.expr import Expr, Var
from autotune.ir.structure import variables
from autotune.te.schedule import Schedule
from autotune.te.tensor import Tensor


def checked_arguments(schedule: object, args: object, name: object) -> tuple[Tensor | Var, ...]:
    """Return the arguments of the function to be lowered.

    Raises:
        LoweringError: the schedule, the arguments or the name are something else.
    """
    if not isinstance(schedule, Schedule):
        raise LoweringError(
            "lower: expected a schedule, as te.create_schedule makes it, got "
            f"{kind_text(schedule)}"
        )
    if isinstance(args, Tensor):
        raise LoweringError(f"lower: the arguments are a list of tensors: write [{args.name}]")
    if not isinstance(args, Iterable):
        raise LoweringError(
            "lower: expected the list of tensors that the function takes, such as [A, B], got "
            f"{kind_text(args)}"
        )
    tensors = tuple(args)
    for position, each in enumerate(tensors):
        if not isinstance(each, Tensor | Var):
            raise LoweringError(
                f"lower: argument {position} must be a tensor or a te.var, got {kind_text(each)}"
            )
    if not isinstance(name, str) or not name:
        raise LoweringError(f"lower: expected a name for the function, got {name!r}")
    return tensors


def sizes_of(args: Sequence[Tensor | Var], name: str) -> tuple[Var, ...]:
    """Return the sizes that follow from the shapes of the arguments.

    A size is a variable that is an extent of an argument by itself; one that is an argument too is
    not returned.

    Raises:
        LoweringError: a shape needs a variable that neither follows nor is an argument.
    """
    given = [each for each in args if isinstance(each, Var)]
    extents = [e for each in args if isinstance(each, Tensor) for e in each.shape]
    found = dict.fromkeys(extent for extent in extents if isinstance(extent, Var))
    for extent in extents:
        for var in variables(extent) if isinstance(extent, Expr) else ():
            if var.dtype != INDEX_DTYPE:
                raise LoweringError(
                    f"{name}: size {var.name!r} is of dtype {var.dtype}; expected {INDEX_DTYPE}"
                )
            if var not in found and var not in given:
                raise LoweringError(
                    f"{name}: the extent {extent} needs {var.name!r}, which is no extent by "
                    "itself; add it to the argument list"
                )
    return tuple([var for var in found if var not in given])


def kind_text(value: object) -> str:
    """Return the kind of a value in words, with its name if it has one."""
    kind, name = type(value).__name__, getattr(value, "name", None)
    if value is None:
        return "None"
    return f"{kind} {name!r}" if isinstance(name, str) else kind
