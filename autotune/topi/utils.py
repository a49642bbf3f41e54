"""Helpers of operators: static shapes, axes, and the traversal that inlines injective stages."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from numbers import Integral, Real
from typing import Any

from autotune import te
from autotune.errors import ExpressionError
from autotune.ir import Expr, FloatImm, IntImm
from autotune.ir.simplify import simplify as simplified
from autotune.te.schedule import Schedule
from autotune.te.tensor import ComputeOp, Operation
from autotune.topi import tag
from autotune.topi.arguments import asks, axes_of, axis_of, tensor


def get_const_int(expr: object) -> int:
    """Return the value of an integer or constant expression.

    Raises:
        ExpressionError: it is not a constant.
    """
    if isinstance(expr, IntImm):
        return expr.value
    if isinstance(expr, Integral):
        return int(expr)
    raise ExpressionError(f"expected a constant integer, got {expr}")


def get_const_float(expr: object) -> float:
    """Return the value of a number or constant expression.

    Raises:
        ExpressionError: it is not a constant.
    """
    if isinstance(expr, FloatImm | IntImm):
        return float(expr.value)
    if isinstance(expr, Real):
        return float(expr)
    raise ExpressionError(f"expected a constant number, got {expr}")


def get_const_tuple(shape: Iterable[object]) -> tuple[Any, ...]:
    """Return a shape with constant extents as ints; symbolic extents stay as they are.

    Raises:
        ExpressionError: it is no list of extents.
    """
    if isinstance(shape, str | bytes | Mapping) or not isinstance(shape, Iterable):
        asks("get_const_tuple").refuse("shape", "a list of extents", shape)
    return tuple(n.value if isinstance(n, IntImm) else n for n in shape)


def equal_const_int(expr: object, value: int) -> bool:
    """Return whether an expression is the constant ``value``."""
    return isinstance(expr, IntImm | int) and get_const_int(expr) == value


def static_shape(what: str, name: str, value: object, ndim: int) -> tuple[int, ...]:
    """Return the shape of a tensor that must have ``ndim`` dimensions of known extent.

    Args:
        what: the operator.
        name: the argument.
        value: what it was given.
        ndim: number of dimensions.
    """
    check = asks(what)
    shape = get_const_tuple(tensor(check, name, value).shape)
    if len(shape) != ndim or not all(isinstance(n, int) for n in shape):
        check.refuse(name, f"a tensor of {ndim} dimensions of constant extent", value)
    return shape


def normal_axis(what: str, axis: object, ndim: int) -> int:
    """Return an axis counted from the front.

    Raises:
        ExpressionError: there is no such axis.
    """
    return axis_of(asks(what), "axis", axis, ndim)


def normal_axes(what: str, axis: object, ndim: int) -> list[int]:
    """Return one, several or (for None) all axes, ascending and counted from the front."""
    return sorted(axes_of(asks(what), "axis", axis, ndim))


def axis_names(ndim: int, prefix: str = "ax") -> list[str]:
    """Return the names of the axes of an operator: ax0, ax1, ..."""
    return [f"{prefix}{i}" for i in range(ndim)]


def simplify(expr: Any) -> Any:
    """Return an expression in its simplest form; any other thing as it is."""
    return simplified(expr) if isinstance(expr, Expr) else expr


def unravel_index(idx: Expr, shape: Sequence[int]) -> list[Expr]:
    """Return the indices of the element at a row-major offset."""
    result: list[Expr] = []
    for axis, extent in enumerate(reversed(shape)):
        last = axis == len(shape) - 1
        result.append(idx if last else te.indexmod(idx, extent))
        idx = te.indexdiv(idx, extent)
    return result[::-1]


def ravel_index(indices: Sequence[Expr], shape: Sequence[int]) -> Expr:
    """Return the row-major offset of the element at some indices."""
    offset: Expr | int = 0
    for index, extent in zip(indices, shape, strict=True):
        offset = offset * extent + index
    return te.const(offset, "int32") if isinstance(offset, int) else offset


def traverse_inline(
    s: Schedule, final_op: Operation, callback: Callable[[Operation], None]
) -> None:
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


def _outputs(s: Schedule) -> set[Operation]:
    return {getattr(out, "op", out) for out in s.outputs}
