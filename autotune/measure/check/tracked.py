"""Follows numpy's functions over arrays that carry a bound on the error of a kernel.

A reference written in numpy is called with these in place of its inputs: values are computed in
double precision, and each operation adds to the bound what a kernel's may err, as
`autotune.measure.check.rounding` says. A kernel written by hand may use formulas of its own, such
as a power of two for an exponential, or rescale a sum: `OWN_FORMULAS` times the bound.

What numpy does by itself without asking - ``np.asarray``, a comparison that rounding could decide,
a function that is not in the tables - raises `NotTracked`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from autotune.measure.check.precision import NotTracked
from autotune.measure.check.rounding import (
    LEAST_DRIFT,
    SHORT,
    TRUNCATING_DRIFT,
    ULPS,
    growths,
    unit,
)
from autotune.measure.check.tracked_array import (
    Doubles,
    Mask,
    Reduced,
    Rules,
    Tracked,
    sum_of,
    together,
)

OWN_FORMULAS = 2.0
# Roundings of a function's argument where a formula is rewritten.
_REWRITTEN = 3.0


def _add(apply: np.ufunc) -> Callable[[Tracked, Tracked], Tracked]:
    return lambda a, b: a.with_values(apply(a.value, b.value), a.error + b.error).rounded()


def _multiply(a: Tracked, b: Tracked) -> Tracked:
    with np.errstate(all="ignore"):
        value = a.value * b.value
        error = np.abs(a.value) * b.error + np.abs(b.value) * a.error + a.error * b.error
    if not np.isfinite(value).all():  # else no operand is infinite or NaN
        error = np.where(_certain(a, b), 0.0, error)
    return a.with_values(value, error).rounded()


def _divide(a: Tracked, b: Tracked) -> Tracked:
    with np.errstate(all="ignore"):
        value = a.value / b.value
        least = np.maximum(np.abs(b.value) - b.error, 0.0)
        error = (a.error + np.abs(value) * b.error) / least
    exact = (a.error == 0) & (b.error == 0) | _certain(a, b)
    return a.with_values(value, np.where(exact, 0.0, error)).rounded(4.0)


def _certain(a: Tracked, b: Tracked) -> Mask:
    """Return where an operand is infinite or NaN, so that no error changes the result."""
    known = np.isfinite(a.error) & np.isfinite(b.error)
    sided = [(np.abs(one.value) > one.error) | (one.error == 0) for one in (a, b)]
    infinite = np.isinf(a.value) & sided[1] | np.isinf(b.value) & sided[0]
    certain: Mask = known & (infinite | np.isnan(a.value) | np.isnan(b.value))
    return certain


def _either(choose: np.ufunc) -> Callable[[Tracked, Tracked], Tracked]:
    return lambda a, b: a.with_values(choose(a.value, b.value), np.maximum(a.error, b.error))


def _exact(function: np.ufunc) -> Callable[[Tracked], Tracked]:
    return lambda a: a.with_values(function(a.value), a.error)


def _function(name: str, function: np.ufunc) -> Callable[[Tracked], Tracked]:
    """A function that rises or falls all the way: its error follows from both ends."""

    def rule(a: Tracked) -> Tracked:
        finite = np.where(np.isfinite(a.value), a.value, 0.0)  # exp(-inf) is 0, and known to be
        rewritten = a.error + _REWRITTEN * unit(a.dtype.name) * np.abs(finite)
        with np.errstate(all="ignore"):
            value = function(a.value)
            low, high = function(a.value - rewritten), function(a.value + rewritten)
            error = np.maximum(np.abs(low - value), np.abs(high - value))
        known = np.where(np.isfinite(value) & ~np.isfinite(error), np.inf, error)
        return a.with_values(value, np.where(np.isfinite(value), known, 0.0)).rounded(
            2 * ULPS[name]
        )

    return rule


def _wave(name: str, function: np.ufunc) -> Callable[[Tracked], Tracked]:
    def rule(a: Tracked) -> Tracked:
        value = function(a.value)
        return a.with_values(value, np.minimum(a.error, 2.0)).rounded(2 * ULPS[name])

    return rule


def _power(a: Tracked, b: Tracked) -> Tracked:
    exponent = b.value if b.value.ndim == 0 else None
    if exponent is None or exponent != int(exponent) or not 1 <= exponent <= 8:
        raise NotTracked("a power that is no small whole number")
    made = a
    for _ in range(int(exponent) - 1):
        made = _multiply(made, a)
    return made


def _matmul(a: Tracked, b: Tracked) -> Tracked:
    return _summed_products(a, b, a.shape[-1], np.matmul)


def _summed_products(
    a: Tracked, b: Tracked, terms: int, of: Callable[[Doubles, Doubles], Reduced]
) -> Tracked:
    """Return what a function computes of two arrays: sums of a number of products."""
    squares = np.sqrt(of(np.square(a.value), np.square(b.value)))
    # The roundings of the products: the sum of sizes is at most this often the root.
    error = unit("float32" if a.dtype.name in SHORT else a.dtype.name) * math.sqrt(terms) * squares
    if a.error.any() or b.error.any():
        error = error + of(np.abs(a.value), b.error) + of(a.error, np.abs(b.value))
    return sum_of(a, of(a.value, b.value), error, squares, terms)


def _einsum(subscripts: object, *operands: object, **options: object) -> Tracked:
    """Two factors: a product summed over the letters that the result lacks."""
    if not isinstance(subscripts, str) or "->" not in subscripts or "." in subscripts or options:
        raise NotTracked("einsum in this form")
    made = together(operands)
    if len(made) != 2:
        raise NotTracked("einsum of other than two operands")
    a, b = made
    factors, _, result = subscripts.replace(" ", "").partition("->")
    extents: dict[str, int] = {}
    for letters, one in zip(factors.split(","), made, strict=True):
        extents.update(zip(letters, one.shape, strict=True))
    terms = math.prod(n for letter, n in extents.items() if letter not in result)

    form: str = subscripts

    def of(x: Doubles, y: Doubles) -> Reduced:
        product: Reduced = np.einsum(form, x, y, optimize=True)
        return product

    return _summed_products(a, b, terms, of)


def _tensordot(left: object, right: object, axes: tuple[Sequence[int], Sequence[int]]) -> Tracked:
    """Sums over pairs of axes, which are given as two lists."""
    if not (isinstance(axes, tuple) and all(isinstance(each, Sequence) for each in axes)):
        raise NotTracked("tensordot in this form")
    a, b = together((left, right))
    terms = math.prod(a.shape[axis] for axis in axes[0])
    return _summed_products(a, b, terms, lambda x, y: np.tensordot(x, y, axes))


def _cumsum(a: Tracked, axis: object = None, dtype: object = None) -> Tracked:
    """Sums as `Tracked.sum` has them, each of the terms up to its own."""
    if not isinstance(axis, int) or dtype not in (None, a.dtype):
        raise NotTracked("cumsum in this form")
    name = a.dtype.name
    kept = a.work.sums or ("float32" if name in SHORT else name)
    shape = [1] * a.ndim
    shape[axis] = a.shape[axis]
    least = TRUNCATING_DRIFT if name in SHORT else LEAST_DRIFT
    grown = growths(a.shape[axis], kept, least).reshape(shape)
    value = np.cumsum(a.value, axis=axis)
    error = grown * (np.abs(value) + np.sqrt(np.cumsum(np.square(a.value), axis=axis)))
    error += np.cumsum(a.error, axis=axis)
    odd = np.logical_or.accumulate(~np.isfinite(a.value), axis=axis)
    known = np.logical_and.accumulate(np.isfinite(a.error), axis=axis)
    made = a.with_values(value, np.where(odd & known & ~np.isfinite(value), 0.0, error))
    return made.rounded() if name in SHORT else made


def _pad(
    array: Tracked,
    pad_width: npt.ArrayLike,
    mode: str = "constant",
    constant_values: npt.ArrayLike = 0,
) -> Tracked:
    if mode != "constant":
        raise NotTracked(f"pad in mode {mode!r}")
    width = np.asarray(pad_width, np.intp)
    value = np.pad(array.value, width, mode="constant", constant_values=constant_values)
    return array.with_values(value, np.pad(array.error, width, mode="constant"))


def _split(
    split: Callable[[Doubles, Any, int], list[Doubles]],
) -> Callable[..., list[Tracked]]:
    """Follow a function that moves elements to several arrays."""

    def rule(a: Tracked, sections: object, axis: int = 0) -> list[Tracked]:
        parts = zip(split(a.value, sections, axis), split(a.error, sections, axis), strict=True)
        return [a.with_values(value, error) for value, error in parts]

    return rule


def _where(condition: npt.ArrayLike | Tracked, a: object, b: object) -> Tracked:
    if isinstance(condition, Tracked):
        raise NotTracked("a condition")
    one, other = together((a, b))
    return one.with_values(
        np.where(condition, one.value, other.value), np.where(condition, one.error, other.error)
    )


def _compare(ufunc: np.ufunc) -> Callable[[Tracked, Tracked], object]:
    def rule(a: Tracked, b: Tracked) -> object:
        both = a.error + b.error
        if np.any((both > 0) & (np.abs(a.value - b.value) <= both)):
            raise NotTracked("a comparison that rounding may decide")
        decided: object = ufunc(a.value, b.value)
        return decided

    return rule


def _of_scipy(ulps: str, name: str, absolute: float = 0.0) -> Callable[[Tracked], Tracked]:
    """Return the rule of a function of scipy that rises all the way.

    Args:
        ulps: the function of `ULPS` it errs as.
        name: its name in ``scipy.special``.
        absolute: ulps of 1 that it errs besides.
    """

    def rule(a: Tracked) -> Tracked:
        from scipy import special  # loaded already: the reference has called it

        made = _function(ulps, getattr(special, name))(a)
        return made.with_values(made.value, made.error + absolute * unit(a.dtype.name))

    return rule


def _kind(ask: np.ufunc) -> Callable[[Tracked], object]:
    """Say if elements are infinite, NaN or finite, which bounded errors do not change."""

    def rule(a: Tracked) -> object:
        if not np.all(np.isfinite(a.error)):
            raise NotTracked(f"{ask.__name__} of what may overflow")
        return ask(a.value)

    return rule


_UFUNCS: dict[object, Callable[..., object]] = {
    np.add: _add(np.add),
    np.subtract: _add(np.subtract),
    np.multiply: _multiply,
    np.divide: _divide,
    np.matmul: _matmul,
    np.power: _power,
    np.square: lambda a: _multiply(a, a),
    np.reciprocal: lambda a: _divide(a.with_values(np.ones(()), 0.0), a),
    np.maximum: _either(np.maximum),
    np.minimum: _either(np.minimum),
    np.negative: _exact(np.negative),
    np.positive: _exact(np.positive),
    np.absolute: _exact(np.absolute),
    **{
        getattr(np, numpy_name): _function(name, getattr(np, numpy_name))
        for numpy_name, name in {
            "exp": "exp", "exp2": "exp2", "expm1": "exp", "log": "log", "log2": "log2",
            "log10": "log10", "log1p": "log1p", "sqrt": "sqrt", "tanh": "tanh", "sinh": "sinh",
            "arcsin": "asin", "arccos": "acos", "arctan": "atan",
            "arcsinh": "asinh", "arccosh": "acosh", "arctanh": "atanh",
        }.items()
    },
    **{one: _kind(one) for one in (np.isinf, np.isnan, np.isfinite)},
    np.sin: _wave("sin", np.sin),
    np.cos: _wave("cos", np.cos),
    **{
        one: _compare(one)
        for one in (np.greater, np.greater_equal, np.less, np.less_equal, np.equal, np.not_equal)
    },
}  # fmt: skip
_OF_SCIPY = {
    "erf": _of_scipy("erf", "erf"),
    "expit": _of_scipy("sigmoid", "expit"),
    # Kernels add 1 to an ``erf``, which rounds to what 1 has.
    "ndtr": _of_scipy("erf", "ndtr", 2 * ULPS["erf"]),
}
_MOVES = {
    np.transpose, np.reshape, np.squeeze, np.expand_dims, np.broadcast_to, np.moveaxis,
    np.swapaxes, np.flip, np.roll, np.repeat, np.tile, np.concatenate, np.stack, np.take,
    np.ravel, np.copy, np.lib.stride_tricks.sliding_window_view,
}  # fmt: skip
_FUNCTIONS: dict[object, Callable[..., object]] = {
    np.sum: lambda a, axis=None, keepdims=False, **more: a.sum(axis, keepdims, **more),
    np.mean: lambda a, axis=None, keepdims=False, **more: a.mean(axis, keepdims, **more),
    np.max: lambda a, axis=None, keepdims=False, **more: a.max(axis, keepdims, **more),
    np.min: lambda a, axis=None, keepdims=False, **more: a.min(axis, keepdims, **more),
    np.amax: lambda a, axis=None, keepdims=False, **more: a.max(axis, keepdims, **more),
    np.amin: lambda a, axis=None, keepdims=False, **more: a.min(axis, keepdims, **more),
    np.clip: lambda a, low, high, **_: a.clip(low, high),
    np.cumsum: _cumsum,
    np.dot: lambda a, b: _matmul(*together((a, b))),
    np.einsum: _einsum,
    np.tensordot: _tensordot,
    np.pad: _pad,
    np.split: _split(np.split),
    np.array_split: _split(np.array_split),
    np.where: _where,
}

Tracked.rules = Rules(_UFUNCS, _OF_SCIPY, frozenset(_MOVES), _FUNCTIONS)

__all__ = ["OWN_FORMULAS", "Tracked"]
