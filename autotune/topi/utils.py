"""Shapes as plain numbers, axes, and the walk that inlines what precedes an operator."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from autotune.errors import ExpressionError
from autotune.ir import FloatImm, IntImm
from autotune.te.tensor import ComputeOp, Operation, Tensor
from autotune.topi import tag


def get_const_int(expr: Any) -> int:
    """Return the value of an integer or constant expression.

    Raises:
        ExpressionError: it is not a constant.
    """
    if isinstance(expr, IntImm):
        return expr.value
    if isinstance(expr, int):
        return int(expr)
    raise ExpressionError(f"expected a constant integer, got {expr}")


def get_const_float(expr: Any) -> float:
    """Return the value of a number or constant expression.

    Raises:
        ExpressionError: it is not a constant.
    """
    if isinstance(expr, FloatImm | IntImm):
        return float(expr.value)
    if isinstance(expr, int | float):
        return float(expr)
    raise ExpressionError(f"expected a constant number, got {expr}")


def get_const_tuple(shape: Iterable[Any]) -> tuple[Any, ...]:
    """Return a shape with constant extents as ints; symbolic extents stay as they are."""
    return tuple(n.value if isinstance(n, IntImm) else n for n in shape)


def equal_const_int(expr: Any, value: int) -> bool:
    """Whether an expression is the constant ``value``."""
    return isinstance(expr, IntImm | int) and get_const_int(expr) == value


def static_shape(what: str, tensor: Tensor, ndim: int) -> tuple[int, ...]:
    """Return the shape of a tensor that must have ``ndim`` dimensions of known extent."""
    shape = get_const_tuple(tensor.shape)
    if len(shape) != ndim or not all(isinstance(n, int) for n in shape):
        raise ExpressionError(
            f"{what}: expected {ndim} dimensions of constant extent for {tensor.name}, "
            f"got {tensor.shape}"
        )
    return shape


def pair(what: str, value: Any) -> tuple[int, int]:
    """Return ``value`` for both directions: an int or two of them."""
    if isinstance(value, int | IntImm):
        return get_const_int(value), get_const_int(value)
    if isinstance(value, Sequence) and len(value) == 2:
        return get_const_int(value[0]), get_const_int(value[1])
    raise ExpressionError(f"{what}: expected an int or two, got {value!r}")


def normal_axis(what: str, axis: Any, ndim: int) -> int:
    """Return an axis counted from the front.

    Raises:
        ExpressionError: there is no such axis.
    """
    number = get_const_int(axis)
    if not -ndim <= number < ndim:
        raise ExpressionError(f"{what}: axis must be in {-ndim}..{ndim - 1}, got {number}")
    return number % ndim


def normal_axes(what: str, axis: Any, ndim: int) -> list[int]:
    """Return one, several or (for None) all axes, ascending and counted from the front."""
    given = range(ndim) if axis is None else axis if isinstance(axis, Sequence) else [axis]
    found = sorted(normal_axis(what, a, ndim) for a in given)
    if len(set(found)) < len(found):
        raise ExpressionError(f"{what}: an axis is given twice in {axis!r}")
    return found


def axis_names(ndim: int, prefix: str = "ax") -> list[str]:
    """Return the names of the axes of an operator: ax0, ax1, ..."""
    return [f"{prefix}{i}" for i in range(ndim)]


def traverse_inline(s: Any, final_op: Operation, callback: Callable[[Operation], None]) -> None:
    """Inline the injective operators before ``final_op``, and call back at every operator.

    Args:
        s: the schedule.
        final_op: where the walk begins; it is not inlined itself.
        callback: called for each compute, inputs first.
    """
    seen: set[Operation] = set()

    def visit(op: Operation) -> None:
        if op in seen:
            return
        seen.add(op)
        if isinstance(op, ComputeOp):
            if tag.is_injective(op.tag) and op is not final_op and op not in _outputs(s):
                s[op].compute_inline()
            for tensor in op.input_tensors:
                visit(tensor.op)
        callback(op)

    visit(final_op)


def _outputs(s: Any) -> set[Operation]:
    return {getattr(out, "op", out) for out in s.outputs}
