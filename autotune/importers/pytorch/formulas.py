"""Operators of torch written as arithmetic of torch, where it has no such rule itself."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

from autotune.errors import GraphError
from autotune.utils.lazy_torch import torch

# Numbers that are compared with each other, as for a sort.
_MOST_BOUNDARIES = 4096
# Rows from which on distances are computed by a product, as torch does.
_BY_PRODUCT, _NEVER_BY_PRODUCT = 25, 2


def formulas() -> dict[Any, Callable[..., Any]]:
    """Return what computes a call, by overloads of operators, for ``run_decompositions``."""
    aten = torch("importers", GraphError).ops.aten
    return {
        aten.copysign.Tensor: _copysign,
        aten.copysign.Scalar: lambda x, sign: _copysign(x, _number(sign, x)),
        aten.hypot.default: _in_floats(_hypot),
        aten.fmax.default: lambda a, b: _of_numbers(torch().maximum, a, b),
        aten.fmin.default: lambda a, b: _of_numbers(torch().minimum, a, b),
        aten.round.decimals: _in_floats(_round),
        aten.bucketize.Tensor: _bucketize,
        aten.bucketize.Scalar: lambda x, edges, **how: _bucketize(_number(x, edges), edges, **how),
        aten.searchsorted.Tensor: _searchsorted,
        aten.searchsorted.Scalar: (
            lambda edges, x, **how: _searchsorted(edges, _number(x, edges), **how)
        ),
        aten.index_fill.int_Scalar: _index_fill,
        aten.index_fill.int_Tensor: _index_fill,
        aten._cdist_forward.default: _distances,
    }


def _in_floats(formula: Callable[..., Any]) -> Callable[..., Any]:
    """Return a formula of which 16-bit floats are rounded once, and whole numbers are floats."""

    @functools.wraps(formula)
    def computed(*args: Any, **kwargs: Any) -> Any:
        pytorch = torch()
        tensors = [each for each in args if isinstance(each, pytorch.Tensor)]
        if any(each.is_complex() for each in tensors):
            return NotImplemented
        kind = _float_kind(*tensors)
        wide = pytorch.promote_types(kind, pytorch.float32)
        args = tuple(each.to(wide) if isinstance(each, pytorch.Tensor) else each for each in args)
        return formula(*args, **kwargs).to(kind)

    return computed


def _float_kind(*tensors: Any) -> Any:
    """Return the type of a result of one or two tensors that is a float."""
    pytorch = torch()
    kind = pytorch.result_type(tensors[0], tensors[-1])
    return kind if kind.is_floating_point else pytorch.get_default_dtype()


def _number(value: float, like: Any) -> Any:
    """Return a number of Python as a tensor that does not widen the types of others."""
    pytorch = torch()
    kind = pytorch.result_type(like, value)
    return pytorch.full((), value, dtype=kind, device=like.device)


def _copysign(x: Any, sign: Any) -> Any:
    pytorch = torch()
    kind = _float_kind(x, sign)
    size = x.to(kind).abs()
    negative = sign < 0
    if sign.dtype.is_floating_point:  # the zero that is negative
        negative = negative | ((sign == 0) & (sign.reciprocal() < 0))
    return pytorch.where(negative, -size, size)


def _hypot(a: Any, b: Any) -> Any:
    pytorch = torch()
    a, b = a.abs(), b.abs()
    great, small = pytorch.maximum(a, b), pytorch.minimum(a, b)
    share = small / pytorch.where(great == 0, 1.0, great)
    finite = great * (1 + share * share).sqrt()
    return pytorch.where((a == math.inf) | (b == math.inf), math.inf, finite)


def _of_numbers(function: Callable[[Any, Any], Any], a: Any, b: Any) -> Any:
    """Return a function of two, or the one that is a number."""
    pytorch = torch()
    kind = pytorch.result_type(a, b)
    a, b = pytorch.broadcast_tensors(a, b)
    a, b = a.to(kind), b.to(kind)
    if not kind.is_floating_point:
        return function(a, b)
    return pytorch.where(a.isnan(), b, pytorch.where(b.isnan(), a, function(a, b)))


def _round(x: Any, *, decimals: int) -> Any:
    power = 10.0 ** abs(decimals)
    return (x * power).round() / power if decimals >= 0 else (x / power).round() * power


def _bucketize(x: Any, boundaries: Any, *, out_int32: bool = False, right: bool = False) -> Any:
    return _searchsorted(boundaries, x, out_int32=out_int32, right=right)


def _searchsorted(
    boundaries: Any, x: Any, *, out_int32: bool = False, right: bool = False,
    side: str | None = None, sorter: Any = None,
) -> Any:  # fmt: skip
    """Count the boundaries before a number; what is no number is behind all."""
    pytorch = torch()
    if boundaries.shape[-1] > _MOST_BOUNDARIES:
        return NotImplemented
    if sorter is not None:
        boundaries = boundaries.gather(-1, sorter)
    kind = pytorch.result_type(boundaries, x)
    boundaries, x = boundaries.to(kind), x.to(kind)
    own = boundaries if boundaries.dim() == 1 else boundaries[..., None, :]
    after = own > x[..., None] if right or side == "right" else own >= x[..., None]
    return (~after).sum(-1).to(pytorch.int32 if out_int32 else pytorch.int64)


def _index_fill(x: Any, dim: int, index: Any, value: Any) -> Any:
    """Write a number to places that, unlike those of `index_copy`, may count from the end."""
    whole = x.reshape(x.shape or (1,))
    places = [*[None] * (dim % whole.dim()), index.reshape(-1)]
    if not isinstance(value, torch().Tensor):
        value = torch().full((), value, dtype=x.dtype, device=x.device)
    return torch().ops.aten.index_put(whole, places, value.to(x.dtype)).reshape(x.shape)


def _distances(a: Any, b: Any, p: float, mode: int | None) -> Any:
    """Return the p-norm of the difference of each row of one and each of the other."""
    rows = max(a.shape[-2], b.shape[-2])
    if p == 2 and mode != _NEVER_BY_PRODUCT and (mode == 1 or rows > _BY_PRODUCT):
        squares = [(each * each).sum(-1) for each in (a, b)]
        made = squares[0][..., :, None] + squares[1][..., None, :] - 2 * (a @ b.mT)
        return made.clamp(min=0).sqrt()
    size = (a[..., :, None, :] - b[..., None, :, :]).abs()
    if p == 0:
        return (size != 0).to(a.dtype).sum(-1)
    if p == math.inf:
        return size.amax(-1)
    if p == 1:
        return size.sum(-1)
    return (size * size).sum(-1).sqrt() if p == 2 else size.pow(p).sum(-1).pow(1 / p)
