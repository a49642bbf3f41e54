"""numpy arrays that carry a bound on the error of whoever computes the same in its own dtype.

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
from numpy.lib.mixins import NDArrayOperatorsMixin

from autotune.measure.check.rounding import (
    FLUSHED,
    LEAST_DRIFT,
    SHORT,
    TRUNCATING_DRIFT,
    ULPS,
    growth,
    unit,
)
from autotune.measure.check.work import NotTracked, Work

OWN_FORMULAS = 2.0
# Roundings of a function's argument where a formula is rewritten.
_REWRITTEN = 3.0
Doubles = npt.NDArray[np.float64]


class Tracked(NDArrayOperatorsMixin):
    """Values in double precision, the dtype a kernel has them in, and their bounds.

    Args:
        value: the values.
        error: their bounds; 0 for none.
        dtype: of the kernel's values.
        work: how the kernel computes.
    """

    # Left alone by numpy's own coercions: see `__array__`.
    __array_priority__ = 1000

    def __init__(
        self, value: object, error: object, dtype: npt.DTypeLike, work: Work | None = None
    ) -> None:
        self.value: Doubles = np.asarray(value, np.float64)
        self.error: Doubles = np.broadcast_to(np.asarray(error, np.float64), self.value.shape)
        self.work = work or Work()
        self.work.count()
        self.dtype = self.work.narrowed(np.dtype(dtype))
        if self.dtype.name not in ("float16", "bfloat16", "float32", "float64"):
            raise NotTracked(f"{self.dtype} is no float")

    shape = property(lambda self: self.value.shape)
    ndim = property(lambda self: self.value.ndim)
    size = property(lambda self: self.value.size)
    T = property(lambda self: self.transpose())

    def __array__(self, *_: object, **__: Any) -> Any:
        raise NotTracked("numpy asks for plain values")

    def __bool__(self) -> bool:
        raise NotTracked("a condition")

    def __float__(self) -> float:
        raise NotTracked("a number")

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        if method == "reduce" and ufunc in _REDUCED:
            return getattr(self, _REDUCED[ufunc])(
                **{k: options[k] for k in options if k in ("axis", "keepdims")}
            )
        rule = _UFUNCS.get(ufunc)
        if method != "__call__" or rule is None or options:
            raise NotTracked(f"{ufunc.__name__}.{method}")
        return rule(*_together(inputs))

    def __array_function__(self, function: Any, _: Any, args: Any, options: Any) -> Any:
        if function in _MOVES:
            return self._moved(function, args, options)
        rule = _FUNCTIONS.get(function)
        if rule is None:
            raise NotTracked(function.__name__)
        return rule(*args, **options)

    def _moved(self, function: Any, args: Any, options: Any) -> Tracked:
        """Apply what only moves elements to values and to bounds."""
        found = [one for one in _flat(args) if isinstance(one, Tracked)]
        plain = any(isinstance(one, np.ndarray) for one in _flat(args))
        if plain or len({one.dtype for one in found}) != 1:
            raise NotTracked(f"{function.__name__} of several kinds")
        value = function(*_map(args, lambda one: one.value), **options)
        error = function(*_map(args, lambda one: one.error), **options)
        return found[0]._with(value, error)

    def _with(self, value: object, error: object, dtype: npt.DTypeLike | None = None) -> Tracked:
        return Tracked(value, error, self.dtype if dtype is None else dtype, self.work)

    def __getitem__(self, index: Any) -> Tracked:
        return self._with(self.value[index], self.error[index])

    def reshape(self, *shape: Any, **options: Any) -> Tracked:
        """As of an array."""
        return self._with(self.value.reshape(*shape), self.error.reshape(*shape))

    def transpose(self, *axes: Any) -> Tracked:
        """As of an array."""
        return self._with(self.value.transpose(*axes), self.error.transpose(*axes))

    def ravel(self) -> Tracked:
        """As of an array."""
        return self.reshape(-1)

    def squeeze(self, axis: Any = None) -> Tracked:
        """As of an array."""
        return self._with(self.value.squeeze(axis), self.error.squeeze(axis))

    flatten = ravel

    def copy(self) -> Tracked:
        """As of an array."""
        return self._with(self.value, self.error)

    def astype(self, dtype: npt.DTypeLike, **_: object) -> Tracked:
        """Take the values into another dtype; rounding to a shorter one counts."""
        made = self._with(self.value, self.error, dtype)
        if made.dtype.itemsize >= self.dtype.itemsize and made.dtype.name != "bfloat16":
            return made
        return made._rounded()

    def _rounded(self, units: float = 1.0) -> Tracked:
        size = np.abs(self.value)
        name = self.dtype.name
        roundoff = np.where(size < FLUSHED[name], size, units * unit(name) * size)
        return self._with(self.value, self.error + np.where(np.isfinite(roundoff), roundoff, 0.0))

    def sum(self, axis: Any = None, keepdims: bool = False, **_: Any) -> Tracked:
        """As of an array, in any order of the terms."""
        over = {"axis": axis, "keepdims": keepdims}
        value = np.sum(self.value, **over)
        terms = self.size // max(1, np.size(value))
        squares = np.sqrt(np.sum(np.square(self.value), **over))
        made = _sum(self, value, np.sum(self.error, **over), squares, terms)
        odd = np.any(~np.isfinite(self.value), **over) & np.all(np.isfinite(self.error), **over)
        return self._with(made.value, np.where(odd & ~np.isfinite(value), 0.0, made.error))

    def mean(self, axis: object = None, keepdims: bool = False, **_: object) -> Tracked:
        """As of an array."""
        total = self.sum(axis, keepdims)
        made: Tracked = total / float(self.size // max(1, total.size))
        return made

    def max(self, axis: Any = None, keepdims: bool = False, **_: Any) -> Tracked:
        """As of an array."""
        over = {"axis": axis, "keepdims": keepdims}
        return self._with(np.max(self.value, **over), np.max(self.error, **over))

    def min(self, axis: Any = None, keepdims: bool = False, **_: Any) -> Tracked:
        """As of an array."""
        over = {"axis": axis, "keepdims": keepdims}
        return self._with(np.min(self.value, **over), np.max(self.error, **over))

    def clip(self, low: Any, high: Any) -> Tracked:
        """As of an array."""
        made: Tracked = np.minimum(np.maximum(self, low), high)
        return made


def _sum(like: Tracked, value: Any, error: Any, squares: Any, terms: int) -> Tracked:
    """A sum of terms with these errors; ``squares`` is the root of their sum of squares."""
    name = like.dtype.name
    kept = like.work.sums or ("float32" if name in SHORT else name)
    least = TRUNCATING_DRIFT if name in SHORT else LEAST_DRIFT
    rounded = growth(terms, kept, least) * (np.abs(value) + squares)
    made = like._with(value, error + rounded)
    return made._rounded() if name in SHORT else made


def _together(values: Sequence[Any]) -> list[Tracked]:
    """Bring operands to one dtype, as numpy does; numbers take that of the others."""
    found = [one for one in values if isinstance(one, Tracked)]
    dtypes = [one.dtype for one in found]
    made = []
    for one in values:
        if isinstance(one, np.ndarray | np.generic) and one.dtype.kind in "fiub":
            # Kernels turn whole numbers into the float at hand; numpy takes float64 for int32.
            dtypes += [one.dtype] if one.dtype.kind == "f" and not isinstance(one, float) else []
        elif not isinstance(one, Tracked | int | float):
            raise NotTracked(f"an operand of {type(one).__name__}")
    dtype, work = np.result_type(*dtypes), found[0].work
    for one in values:
        same = isinstance(one, Tracked)
        value, error = (one.value, one.error) if same else (np.asarray(one, np.float64), 0.0)
        if not same and (isinstance(one, float) or np.asarray(one).dtype == np.float64):
            finite = np.where(np.isfinite(value), value, 0.0)  # a constant is rounded
            error = unit(work.narrowed(dtype).name) * np.abs(finite)
        made.append(Tracked(value, error, dtype, work))
    return made


def _add(apply: Any) -> Callable[[Tracked, Tracked], Tracked]:
    return lambda a, b: a._with(apply(a.value, b.value), a.error + b.error)._rounded()


def _multiply(a: Tracked, b: Tracked) -> Tracked:
    with np.errstate(all="ignore"):
        value = a.value * b.value
        error = np.abs(a.value) * b.error + np.abs(b.value) * a.error + a.error * b.error
    return a._with(value, np.where(_certain(a, b), 0.0, error))._rounded()


def _divide(a: Tracked, b: Tracked) -> Tracked:
    with np.errstate(all="ignore"):
        value = a.value / b.value
        least = np.maximum(np.abs(b.value) - b.error, 0.0)
        error = (a.error + np.abs(value) * b.error) / least
    exact = (a.error == 0) & (b.error == 0) | _certain(a, b)
    return a._with(value, np.where(exact, 0.0, error))._rounded(4.0)


def _certain(a: Tracked, b: Tracked) -> Any:
    """Where an operand is infinite or no number, and no error can change what comes of that."""
    known = np.isfinite(a.error) & np.isfinite(b.error)
    sided = [(np.abs(one.value) > one.error) | (one.error == 0) for one in (a, b)]
    infinite = np.isinf(a.value) & sided[1] | np.isinf(b.value) & sided[0]
    return known & (infinite | np.isnan(a.value) | np.isnan(b.value))


def _either(choose: Any) -> Callable[[Tracked, Tracked], Tracked]:
    return lambda a, b: a._with(choose(a.value, b.value), np.maximum(a.error, b.error))


def _exact(function: Any) -> Callable[[Tracked], Tracked]:
    return lambda a: a._with(function(a.value), a.error)


def _function(name: str, function: Any) -> Callable[[Tracked], Tracked]:
    """A function that rises or falls all the way: its error follows from both ends."""

    def rule(a: Tracked) -> Tracked:
        finite = np.where(np.isfinite(a.value), a.value, 0.0)  # exp(-inf) is 0, and known to be
        rewritten = a.error + _REWRITTEN * unit(a.dtype.name) * np.abs(finite)
        with np.errstate(all="ignore"):
            value = function(a.value)
            low, high = function(a.value - rewritten), function(a.value + rewritten)
            error = np.maximum(np.abs(low - value), np.abs(high - value))
        known = np.where(np.isfinite(value) & ~np.isfinite(error), np.inf, error)
        return a._with(value, np.where(np.isfinite(value), known, 0.0))._rounded(2 * ULPS[name])

    return rule


def _wave(name: str, function: Any) -> Callable[[Tracked], Tracked]:
    def rule(a: Tracked) -> Tracked:
        value = function(a.value)
        return a._with(value, np.minimum(a.error, 2.0))._rounded(2 * ULPS[name])

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
    value = a.value @ b.value
    terms = a.shape[-1]
    squares = np.sqrt(np.square(a.value) @ np.square(b.value))
    # The roundings of the products: the sum of sizes is at most this often the root.
    error = unit("float32" if a.dtype.name in SHORT else a.dtype.name) * math.sqrt(terms) * squares
    if a.error.any() or b.error.any():
        error = error + np.abs(a.value) @ b.error + a.error @ np.abs(b.value)
    return _sum(a, value, error, squares, terms)


def _einsum(subscripts: object, *operands: object, **options: object) -> Tracked:
    """Two factors: a product summed over the letters that the result lacks."""
    if not isinstance(subscripts, str) or "->" not in subscripts or "." in subscripts or options:
        raise NotTracked("einsum in this form")
    made = _together(operands)
    if len(made) != 2:
        raise NotTracked("einsum of other than two operands")
    a, b = made
    factors, _, result = subscripts.replace(" ", "").partition("->")
    extents: dict[str, int] = {}
    for letters, one in zip(factors.split(","), made, strict=True):
        extents.update(zip(letters, one.shape, strict=True))
    terms = math.prod(n for letter, n in extents.items() if letter not in result)

    def of(x: Doubles, y: Doubles) -> Any:
        return np.einsum(subscripts, x, y, optimize=True)

    squares = np.sqrt(of(np.square(a.value), np.square(b.value)))
    error = unit("float32" if a.dtype.name in SHORT else a.dtype.name) * math.sqrt(terms) * squares
    if a.error.any() or b.error.any():
        error = error + of(np.abs(a.value), b.error) + of(a.error, np.abs(b.value))
    return _sum(a, of(a.value, b.value), error, squares, terms)


def _pad(array: Tracked, pad_width: Any, mode: str = "constant", **options: Any) -> Tracked:
    if mode != "constant":
        raise NotTracked(f"pad in mode {mode!r}")
    value = np.pad(array.value, pad_width, mode="constant", **options)
    return array._with(value, np.pad(array.error, pad_width, mode="constant"))


def _where(condition: Any, a: Any, b: Any) -> Tracked:
    if isinstance(condition, Tracked):
        raise NotTracked("a condition")
    one, other = _together((a, b))
    return one._with(
        np.where(condition, one.value, other.value), np.where(condition, one.error, other.error)
    )


def _compare(ufunc: Any) -> Callable[[Tracked, Tracked], Any]:
    def rule(a: Tracked, b: Tracked) -> Any:
        both = a.error + b.error
        if np.any((both > 0) & (np.abs(a.value - b.value) <= both)):
            raise NotTracked("a comparison that rounding may decide")
        return ufunc(a.value, b.value)

    return rule


def _flat(args: object) -> list[object]:
    if isinstance(args, list | tuple):
        return [one for each in args for one in _flat(each)]
    return [args]


def _map(args: object, part: Callable[[Tracked], Any]) -> Any:
    if isinstance(args, list | tuple):
        return type(args)([_map(one, part) for one in args])
    return part(args) if isinstance(args, Tracked) else args


_REDUCED = {np.add: "sum", np.maximum: "max", np.minimum: "min"}
_UFUNCS: dict[object, Callable[..., object]] = {
    np.add: _add(np.add),
    np.subtract: _add(np.subtract),
    np.multiply: _multiply,
    np.divide: _divide,
    np.matmul: _matmul,
    np.power: _power,
    np.square: lambda a: _multiply(a, a),
    np.reciprocal: lambda a: _divide(a._with(np.ones(()), 0.0), a),
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
        }.items()
    },
    np.sin: _wave("sin", np.sin),
    np.cos: _wave("cos", np.cos),
    **{
        one: _compare(one)
        for one in (np.greater, np.greater_equal, np.less, np.less_equal, np.equal, np.not_equal)
    },
}  # fmt: skip
_MOVES = {
    np.transpose, np.reshape, np.squeeze, np.expand_dims, np.broadcast_to, np.moveaxis,
    np.swapaxes, np.flip, np.roll, np.repeat, np.tile, np.concatenate, np.stack, np.take,
    np.ravel, np.copy, np.lib.stride_tricks.sliding_window_view,
}  # fmt: skip
_FUNCTIONS: dict[Any, Callable[..., Any]] = {
    np.sum: lambda a, axis=None, keepdims=False, **_: a.sum(axis, keepdims),
    np.mean: lambda a, axis=None, keepdims=False, **_: a.mean(axis, keepdims),
    np.max: lambda a, axis=None, keepdims=False, **_: a.max(axis, keepdims),
    np.min: lambda a, axis=None, keepdims=False, **_: a.min(axis, keepdims),
    np.amax: lambda a, axis=None, keepdims=False, **_: a.max(axis, keepdims),
    np.amin: lambda a, axis=None, keepdims=False, **_: a.min(axis, keepdims),
    np.clip: lambda a, low, high, **_: a.clip(low, high),
    np.dot: lambda a, b: _matmul(*_together((a, b))),
    np.einsum: _einsum,
    np.pad: _pad,
    np.where: _where,
}
