"""numpy arrays that carry a bound on the error of the same computation in their own dtype.

`autotune.measure.check.tracked` defines numpy's functions of them; a function that is not defined
there raises `NotTracked`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import EllipsisType
from typing import ClassVar, NoReturn

import numpy as np
import numpy.typing as npt
from numpy.lib.mixins import NDArrayOperatorsMixin

from autotune.measure.check.precision import NotTracked, Work
from autotune.measure.check.rounding import (
    FLUSHED,
    LEAST_DRIFT,
    SHORT,
    TRUNCATING_DRIFT,
    growth,
    unit,
)

Doubles = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
# What comes of a reduction: an array, or one number.
Reduced = Doubles | np.float64
Axis = int | tuple[int, ...] | None
Place = int | slice | EllipsisType | None | npt.NDArray[np.integer] | Mask
# Reduces, or computes elements, of plain arrays.
Plain = Callable[..., object]
# Of numpy's options of a reduction those that change what it computes.
_OTHER_SUMS = frozenset(("where", "initial", "out"))


@dataclass(frozen=True)
class Rules:
    """Error rules of numpy's functions.

    Attributes:
        elementwise: ufunc -> what it makes of operands that were brought to one dtype.
        of_scipy: the same by the names of those of ``scipy.special``, which takes long to load.
        moves: functions that only move elements.
        functions: any other -> what it makes of its arguments.
    """

    elementwise: Mapping[object, Callable[..., object]]
    of_scipy: Mapping[str, Callable[..., object]]
    moves: frozenset[object]
    functions: Mapping[object, Callable[..., object]]


class Tracked(NDArrayOperatorsMixin):
    """Values in double precision, the dtype a kernel has them in, and their bounds.

    Args:
        value: the values.
        error: their bounds; 0 for none.
        dtype: of the kernel's values.
        work: how the kernel computes.
    """

    # `autotune.measure.check.tracked` has them all.
    rules: ClassVar[Rules] = Rules({}, {}, frozenset(), {})
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

    def __array__(self, *_: object, **__: object) -> NoReturn:
        raise NotTracked("numpy asks for plain values")

    def __len__(self) -> int:
        return len(self.value)

    def __bool__(self) -> bool:
        raise NotTracked("a condition")

    def __float__(self) -> float:
        raise NotTracked("a number")

    def __array_ufunc__(
        self, ufunc: np.ufunc, method: str, *inputs: object, **options: object
    ) -> object:
        if method == "reduce" and ufunc in _REDUCED:
            reduced: object = getattr(self, _REDUCED[ufunc])(**options)
            return reduced
        rule = self.rules.elementwise.get(ufunc) or self.rules.of_scipy.get(ufunc.__name__)
        if method != "__call__" or rule is None or options:
            raise NotTracked(f"{ufunc.__name__}.{method}")
        return rule(*together(inputs))

    def __array_function__(
        self, function: Plain, _: object, args: Sequence[object], options: Mapping[str, object]
    ) -> object:
        if function in self.rules.moves:
            return self._move(function, args, options)
        rule = self.rules.functions.get(function)
        if rule is None:
            raise NotTracked(function.__name__)
        return rule(*args, **options)

    def _move(
        self, function: Plain, args: Sequence[object], options: Mapping[str, object]
    ) -> Tracked:
        """Apply what only moves elements to values and to bounds."""
        found = [one for one in _flat(args) if isinstance(one, Tracked)]
        plain = any(isinstance(one, np.ndarray) for one in _flat(args))
        if plain or len({one.dtype for one in found}) != 1:
            raise NotTracked(f"{function.__name__} of several kinds")
        value = function(*_map(args, lambda one: one.value), **options)
        error = function(*_map(args, lambda one: one.error), **options)
        return found[0].with_values(value, error)

    def with_values(
        self, value: object, error: object, dtype: npt.DTypeLike | None = None
    ) -> Tracked:
        """Return other values of the same kernel, by default of the same dtype."""
        return Tracked(value, error, self.dtype if dtype is None else dtype, self.work)

    def __getitem__(self, index: Place | tuple[Place, ...]) -> Tracked:
        return self.with_values(self.value[index], self.error[index])

    def reshape(self, *shape: int | Sequence[int]) -> Tracked:
        """As of an array."""
        new = _numbers(shape)
        return self.with_values(self.value.reshape(new), self.error.reshape(new))

    def transpose(self, *axes: int | Sequence[int] | None) -> Tracked:
        """As of an array."""
        order = _numbers([one for one in axes if one is not None]) or None
        return self.with_values(np.transpose(self.value, order), np.transpose(self.error, order))

    def swapaxes(self, one: int, other: int) -> Tracked:
        """As of an array."""
        return self.with_values(self.value.swapaxes(one, other), self.error.swapaxes(one, other))

    def ravel(self) -> Tracked:
        """As of an array."""
        return self.reshape(-1)

    def squeeze(self, axis: Axis = None) -> Tracked:
        """As of an array."""
        return self.with_values(self.value.squeeze(axis), self.error.squeeze(axis))

    flatten = ravel

    def copy(self) -> Tracked:
        """As of an array."""
        return self.with_values(self.value, self.error)

    def astype(self, dtype: npt.DTypeLike, **_: object) -> Tracked:
        """Take the values into another dtype; rounding to a shorter one counts."""
        made = self.with_values(self.value, self.error, dtype)
        if made.dtype.itemsize >= self.dtype.itemsize and made.dtype.name != "bfloat16":
            return made
        return made.rounded()

    def rounded(self, units: float = 1.0) -> Tracked:
        """Return the values with the error of rounding added, by default that of one rounding."""
        size = np.abs(self.value)
        name = self.dtype.name
        roundoff = np.where(size < FLUSHED[name], size, units * unit(name) * size)
        return self.with_values(
            self.value, self.error + np.where(np.isfinite(roundoff), roundoff, 0.0)
        )

    def sum(self, axis: Axis = None, keepdims: bool = False, **options: object) -> Tracked:
        """As of an array, in any order of the terms."""
        _check_options("sum", options)
        value = np.sum(self.value, axis=axis, keepdims=keepdims)
        terms = self.size // max(1, np.size(value))
        squares = np.sqrt(np.sum(np.square(self.value), axis=axis, keepdims=keepdims))
        error = np.sum(self.error, axis=axis, keepdims=keepdims)
        made = sum_of(self, value, error, squares, terms)
        odd = np.any(~np.isfinite(self.value), axis=axis, keepdims=keepdims)
        known = np.all(np.isfinite(self.error), axis=axis, keepdims=keepdims)
        certain = odd & known & ~np.isfinite(value)
        return self.with_values(made.value, np.where(certain, 0.0, made.error))

    def mean(self, axis: Axis = None, keepdims: bool = False, **options: object) -> Tracked:
        """As of an array."""
        total = self.sum(axis, keepdims, **options)
        made: Tracked = total / float(self.size // max(1, total.size))
        return made

    def max(self, axis: Axis = None, keepdims: bool = False, **options: object) -> Tracked:
        """As of an array."""
        return self._extreme(np.max, axis, keepdims, options)

    def min(self, axis: Axis = None, keepdims: bool = False, **options: object) -> Tracked:
        """As of an array."""
        return self._extreme(np.min, axis, keepdims, options)

    def _extreme(
        self, choose: Plain, axis: Axis, keepdims: bool, options: Mapping[str, object]
    ) -> Tracked:
        _check_options("an extreme", options)
        value = choose(self.value, axis=axis, keepdims=keepdims)
        return self.with_values(value, np.max(self.error, axis=axis, keepdims=keepdims))

    def clip(self, low: object, high: object) -> Tracked:
        """As of an array."""
        return self._combine(np.maximum, low)._combine(np.minimum, high)

    def _combine(self, ufunc: np.ufunc, other: object) -> Tracked:
        made = self.rules.elementwise[ufunc](*together((self, other)))
        assert isinstance(made, Tracked)
        return made


def _check_options(what: str, options: Mapping[str, object]) -> None:
    """Refuse options of a reduction by which other elements count."""
    odd = {name for name, value in options.items() if name in _OTHER_SUMS and value is not None}
    if odd - ({"where"} if options.get("where") is True else set()):
        raise NotTracked(f"{what} with {', '.join(sorted(odd))}")


def _numbers(given: Sequence[int | Sequence[int]]) -> tuple[int, ...]:
    """Return numbers that were given one by one, or as a list."""
    return tuple([n for one in given for n in (one if isinstance(one, Sequence) else (one,))])


def sum_of(like: Tracked, value: Reduced, error: Reduced, squares: Reduced, terms: int) -> Tracked:
    """A sum of terms with these errors; ``squares`` is the root of their sum of squares."""
    name = like.dtype.name
    kept = like.work.sums or ("float32" if name in SHORT else name)
    least = TRUNCATING_DRIFT if name in SHORT else LEAST_DRIFT
    rounded = growth(terms, kept, least) * (np.abs(value) + squares)
    made = like.with_values(value, error + rounded)
    return made.rounded() if name in SHORT else made


def together(values: Sequence[object]) -> list[Tracked]:
    """Bring operands to one dtype, as numpy does; numbers take that of the others."""
    found = [one for one in values if isinstance(one, Tracked)]
    dtypes = [one.dtype for one in found]
    for one in values:
        if isinstance(one, np.ndarray | np.generic) and one.dtype.kind in "fiub":
            # Kernels turn whole numbers into the float at hand; numpy takes float64 for int32.
            dtypes += [one.dtype] if one.dtype.kind == "f" and not isinstance(one, float) else []
        elif not isinstance(one, Tracked | int | float):
            raise NotTracked(f"an operand of {type(one).__name__}")
    dtype, work = np.result_type(*dtypes), found[0].work
    return [_like(one, dtype, work) for one in values]


def _like(one: object, dtype: npt.DTypeLike, work: Work) -> Tracked:
    """Return an operand in the dtype of an operation; a constant is rounded to it."""
    if isinstance(one, Tracked):
        return Tracked(one.value, one.error, dtype, work)
    plain = np.asarray(one)
    value = plain.astype(np.float64)
    if not (isinstance(one, float) or plain.dtype == np.float64):
        return Tracked(value, 0.0, dtype, work)
    finite = np.where(np.isfinite(value), value, 0.0)
    return Tracked(value, unit(work.narrowed(np.dtype(dtype)).name) * np.abs(finite), dtype, work)


def _flat(args: object) -> list[object]:
    if isinstance(args, list | tuple):
        return [one for each in args for one in _flat(each)]
    return [args]


def _map(args: Sequence[object], part: Callable[[Tracked], object]) -> list[object]:
    """Return arguments with a part of what is tracked in its place, in lists as well."""
    found: list[object] = []
    for one in args:
        if isinstance(one, list | tuple):
            found.append(type(one)(_map(one, part)))
        else:
            found.append(part(one) if isinstance(one, Tracked) else one)
    return found


_REDUCED = {np.add: "sum", np.maximum: "max", np.minimum: "min"}
