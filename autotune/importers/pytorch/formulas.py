"""Operators of torch written as arithmetic of torch, where it has no such rule itself."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

from autotune.errors import GraphError
from autotune.importers.pytorch import special
from autotune.utils.lazy_torch import torch

# Numbers that are compared with each other, as for a sort.
_MOST_BOUNDARIES = 4096
# Rows from which on distances are computed by a product, as torch does.
_BY_PRODUCT, _NEVER_BY_PRODUCT = 25, 2
# Powers of 2 that take the least number beyond the greatest, by the bytes of a float.
_MOST_POWER = {4: 300, 8: 2200}


def formulas() -> dict[Any, Callable[..., Any]]:
    """Return what computes a call, by overloads of operators, for ``run_decompositions``."""
    aten = torch("importers", GraphError).ops.aten
    return {
        aten.erfc.default: _in_floats(special.erfc),
        aten.lgamma.default: _in_floats(special.lgamma),
        aten.digamma.default: _in_floats(special.digamma),
        aten.ldexp.Tensor: _ldexp,
        aten.addbmm.default: _addbmm,
        aten.dist.default: lambda a, b, p=2: torch().linalg.vector_norm(a - b, p),
        aten.narrow_copy.default: lambda x, *part: x.narrow(*part).clone(),
        aten._trilinear.default: _trilinear,
        aten.masked_scatter.default: _masked_scatter,
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
        aten.index_reduce.default: _index_reduce,
        aten.nanmedian.default: lambda x: _nanmedian(x.reshape(-1), 0)[0],
        aten.nanmedian.dim: _nanmedian,
        aten.mode.default: _mode,
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
        made = formula(*args, **kwargs)
        return made if made is NotImplemented else made.to(kind)

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


def _ldexp(x: Any, power: Any) -> Any:
    """Multiply by a power of 2, in four steps, since it may be no number of that type itself."""
    pytorch = torch()
    kind = _float_kind(x, power)
    wide = pytorch.promote_types(kind, pytorch.float32)
    # Beyond this everything is infinite, or zero; infinite powers have no parts.
    most = _MOST_POWER[wide.itemsize]
    power = power.to(wide).clamp(-most, most)
    part = (power / 4).floor()
    step = pytorch.exp2(part)
    return (x.to(wide) * step * step * step * pytorch.exp2(power - 3 * part)).to(kind)


def _addbmm(x: Any, a: Any, b: Any, *, beta: float = 1, alpha: float = 1) -> Any:
    """Add the sum of a batch's products: one product of all their columns."""
    count, rows, shared = a.shape
    if not (a.is_floating_point() or a.is_complex()):  # fractions are cut off
        beta, alpha = int(beta), int(alpha)
    left = a.transpose(0, 1).reshape(rows, count * shared)
    product = left @ b.reshape(count * shared, b.shape[2])
    product = product if alpha == 1 else product * alpha
    if beta == 0:
        return product
    return product + (x if beta == 1 else x * beta)


def _trilinear(
    a: Any, b: Any, c: Any, new_a: Any, new_b: Any, new_c: Any, summed: Any, unroll_dim: int = 1
) -> Any:
    """Multiply three tensors, each of which lacks some dimensions, and add up along others."""
    for axis in new_a:
        a = a.unsqueeze(axis)
    for axis in new_b:
        b = b.unsqueeze(axis)
    for axis in new_c:
        c = c.unsqueeze(axis)
    return (a * b * c).sum(tuple(summed))


def _masked_scatter(x: Any, mask: Any, source: Any) -> Any:
    """Write the elements of a source, in their order, where a mask is true."""
    pytorch = torch()
    shape = pytorch.broadcast_shapes(x.shape, mask.shape)
    x, mask = x.expand(shape), mask.expand(shape)
    places = mask.reshape(-1).long().cumsum(0) - 1
    places = pytorch.where(mask.reshape(-1), places, 0)
    return pytorch.where(mask, source.reshape(-1)[places].reshape(shape), x)


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


def _index_reduce(
    x: Any, dim: int, index: Any, source: Any, reduce: str, *, include_self: bool = True
) -> Any:
    """Combine rows with those at places along an axis."""
    if not index.numel():
        return x.clone()
    whole = x.reshape(x.shape or (1,))
    source = source.reshape(source.shape or (1,))
    axis = dim % whole.dim()
    line = [-1 if i == axis else 1 for i in range(whole.dim())]
    index = index.reshape(line).expand(source.shape)
    made = whole.scatter_reduce(axis, index, source, reduce, include_self=include_self)
    return made.reshape(x.shape)


def _nanmedian(x: Any, dim: int, keepdim: bool = False) -> tuple[Any, Any]:
    """Return the lower median of the numbers along an axis, and where it is."""
    if not x.shape:
        return x.clone(), torch().zeros((), dtype=torch().int64, device=x.device)
    values, places = x.sort(dim=dim, stable=True)  # what is no number comes last
    count = (~x.isnan()).sum(dim, keepdim=True)
    return _at(values, places, dim, (count - 1).clamp(min=0) // 2, keepdim)


def _mode(x: Any, dim: int = -1, keepdim: bool = False) -> Any:
    """Return the least of the most frequent elements along an axis, and its last place."""
    if not x.shape:
        return x.clone(), torch().zeros((), dtype=torch().int64, device=x.device)
    if x.shape[dim] > _MOST_BOUNDARIES:
        return NotImplemented
    values, places = x.sort(dim=dim, stable=True)
    last = values.movedim(dim, -1)
    count = (last[..., None] == last[..., None, :]).sum(-1)
    # The first of the greatest counts is that of the least element, whose last place is wanted.
    extent = x.shape[dim]
    first = count.argmax(-1, keepdim=True)
    more = (count.gather(-1, first) - 1).clamp(min=0)
    index = (first + more).clamp(max=extent - 1).movedim(-1, dim)
    return _at(values, places, dim, index, keepdim)


def _at(values: Any, places: Any, dim: int, index: Any, keepdim: bool) -> tuple[Any, Any]:
    """Return what is at one index of each line along an axis."""
    found = values.gather(dim, index), places.gather(dim, index)
    return found if keepdim else (found[0].squeeze(dim), found[1].squeeze(dim))


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
