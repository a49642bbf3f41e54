"""Operators on two tensors, or a tensor and a number, with numpy's broadcasting."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence

from autotune import te
from autotune.ir import Expr, as_expr, is_float
from autotune.te.broadcast import broadcast, read_broadcast
from autotune.te.tensor import Tensor
from autotune.topi import tag
from autotune.topi.arguments import asks, operand, takes, tensor
from autotune.topi.arguments import shape as extents_of
from autotune.topi.utils import axis_names, get_const_tuple

# What an operator takes on either side.
Element = Tensor | Expr | float


def _operator(
    name: str, function: Callable[[Expr, Expr], Expr], more: str = ""
) -> Callable[[Element, Element], Tensor]:
    def combine(lhs: Element, rhs: Element) -> Tensor:
        if not isinstance(lhs, Tensor):
            tensor(asks(name), "lhs or rhs", rhs)
        return broadcast(function, lhs, rhs, f"T_{name}", tag.BROADCAST)

    combine.__name__ = combine.__qualname__ = name
    combine.__doc__ = f"Combine two operands by ``{name}``, element by element{more}."
    return takes(lhs=operand, rhs=operand)(combine)


add = _operator("add", operator.add)
subtract = _operator("subtract", operator.sub)
multiply = _operator("multiply", operator.mul)
divide = _operator("divide", operator.truediv)
floor_divide = _operator("floor_divide", operator.floordiv)
trunc_divide = _operator("trunc_divide", te.truncdiv)
mod = _operator(
    "mod",
    lambda a, b: _remainder(a, b),
    ": the remainder of a division towards zero, as by ``%`` in C and `numpy.fmod`; Python's "
    "``%`` is `floor_mod`",
)
floor_mod = _operator(
    "floor_mod", operator.mod, ": the remainder of `floor_divide`, as by `numpy.mod`"
)
maximum = _operator("maximum", lambda a, b: te.max(a, b))
minimum = _operator("minimum", lambda a, b: te.min(a, b))
power = _operator("power", te.power)
equal = _operator("equal", operator.eq)
not_equal = _operator("not_equal", operator.ne)
less = _operator("less", operator.lt)
less_equal = _operator("less_equal", operator.le)
greater = _operator("greater", operator.gt)
greater_equal = _operator("greater_equal", operator.ge)
logical_and = _operator("logical_and", te.all)
logical_or = _operator("logical_or", te.any)
logical_xor = _operator("logical_xor", lambda a, b: _is_set(a) != _is_set(b))
bitwise_and = _operator("bitwise_and", operator.and_)
bitwise_or = _operator("bitwise_or", operator.or_)
bitwise_xor = _operator("bitwise_xor", operator.xor)
left_shift = _operator("left_shift", operator.lshift)
right_shift = _operator("right_shift", operator.rshift)


def _remainder(a: Expr | float, b: Expr | float) -> Expr:
    of_floats = any(is_float(as_expr(each).dtype) for each in (a, b))
    return te.fmod(a, b) if of_floats else te.truncmod(a, b)


def _is_set(value: Expr) -> Expr:
    return value if value.dtype == "bool" else te.const(0, value.dtype) != value


@takes(data=tensor, shape=extents_of)
def broadcast_to(data: Tensor, shape: Sequence[int]) -> Tensor:
    """Repeat a tensor to a larger shape, as numpy does.

    Raises:
        ExpressionError: the shapes do not fit.
    """
    extents = get_const_tuple(shape)
    own = (1,) * (len(extents) - data.ndim) + get_const_tuple(data.shape)
    if len(own) != len(extents) or any(a not in (1, b) for a, b in zip(own, extents, strict=True)):
        asks("broadcast_to").refuse("shape", f"one that {data} broadcasts to", extents)
    result: Tensor = te.compute(
        extents,
        lambda *i: read_broadcast(data, i),
        "T_broadcast_to",
        tag.BROADCAST,
        varargs_names=axis_names(len(extents)),
    )
    return result
