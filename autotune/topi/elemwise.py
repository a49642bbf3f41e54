"""Elementwise operators: one function of each element."""

from __future__ import annotations

from collections.abc import Callable

from autotune import te
from autotune.ir import Expr
from autotune.ir.base import nearest_const
from autotune.te.tensor import Tensor
from autotune.topi import tag
from autotune.topi.arguments import asks, dtype, number, same_shape, shape, takes, tensor, tensors
from autotune.topi.utils import axis_names


def elementwise(x: Tensor, function: Callable[[Expr], Expr], name: str = "compute") -> Tensor:
    """Apply a function of one expression to every element."""
    result: Tensor = te.compute(x.shape, lambda *i: function(x(*i)), name, tag.ELEMWISE)
    return result


def _operator(name: str, function: Callable[[Expr], Expr]) -> Callable[[Tensor], Tensor]:
    def operator(x: Tensor) -> Tensor:
        return elementwise(x, function)

    operator.__name__ = operator.__qualname__ = name
    operator.__doc__ = f"Take ``{name}`` of each element."
    return takes(x=tensor)(operator)


exp = _operator("exp", te.exp)
log = _operator("log", te.log)
log2 = _operator("log2", te.log2)
log10 = _operator("log10", te.log10)
sqrt = _operator("sqrt", te.sqrt)
rsqrt = _operator("rsqrt", te.rsqrt)
tanh = _operator("tanh", te.tanh)
sigmoid = _operator("sigmoid", te.sigmoid)
sin = _operator("sin", te.sin)
cos = _operator("cos", te.cos)
tan = _operator("tan", te.tan)
sinh = _operator("sinh", te.sinh)
cosh = _operator("cosh", te.cosh)
asin = _operator("asin", te.asin)
acos = _operator("acos", te.acos)
atan = _operator("atan", te.atan)
asinh = _operator("asinh", te.asinh)
acosh = _operator("acosh", te.acosh)
atanh = _operator("atanh", te.atanh)
erf = _operator("erf", te.erf)
floor = _operator("floor", te.floor)
ceil = _operator("ceil", te.ceil)
trunc = _operator("trunc", te.trunc)
round = _operator("round", te.round)
abs = _operator("abs", te.abs)
isnan = _operator("isnan", te.isnan)
isinf = _operator("isinf", te.isinf)
isfinite = _operator("isfinite", te.isfinite)
bitwise_not = _operator("bitwise_not", lambda v: ~v)
logical_not = _operator("logical_not", lambda v: v == te.const(0, v.dtype))
negative = _operator("negative", lambda v: -v)
identity = _operator("identity", lambda v: v)


@takes(x=tensor)
def sign(x: Tensor) -> Tensor:
    """Tell each element's sign: -1, 0 or 1."""

    def value(v: Expr) -> Expr:
        zero, one = te.const(0, x.dtype), te.const(1, x.dtype)
        return te.Select(v < zero, -one, te.Select(v > zero, one, zero))

    return elementwise(x, value)


@takes(x=tensor, a_min=number, a_max=number)
def clip(x: Tensor, a_min: float, a_max: float) -> Tensor:
    """Limit each element to ``a_min`` .. ``a_max``."""
    low, high = nearest_const(a_min, x.dtype), nearest_const(a_max, x.dtype)
    return elementwise(x, lambda v: te.max(te.min(v, high), low))


@takes(x=tensor, dtype=dtype)
def cast(x: Tensor, dtype: str) -> Tensor:
    """Convert each element; the tensor itself when it has the dtype already."""
    return x.astype(dtype)


@takes(shape=shape, dtype=dtype, fill_value=number)
def full(shape: object, dtype: str, fill_value: float) -> Tensor:
    """Make a tensor of one value."""
    value = te.const(fill_value, dtype)
    result: Tensor = te.compute(shape, lambda *_: value, "T_full", tag.ELEMWISE)
    return result


@takes(x=tensor, fill_value=number)
def full_like(x: Tensor, fill_value: float) -> Tensor:
    """Make a tensor of one value, with the shape and dtype of another."""
    return full(x.shape, x.dtype, fill_value)


@takes(xs=tensors)
def elemwise_sum(xs: list[Tensor]) -> Tensor:
    """Add up tensors of one shape."""
    for i, x in enumerate(xs):
        same_shape(asks("elemwise_sum"), f"xs[{i}]", x, xs[0].shape)

    def total(*i: Expr) -> Expr:
        value = xs[0](*i)
        for x in xs[1:]:
            value = value + x(*i)
        return value

    result: Tensor = te.compute(
        xs[0].shape, total, "T_elemwise_sum", tag.ELEMWISE, varargs_names=axis_names(xs[0].ndim)
    )
    return result
