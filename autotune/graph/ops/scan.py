"""Cumulative sums, products and extremes."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from operator import mul
from typing import ClassVar

import numpy as np

from autotune import te, topi
from autotune.graph.operator import Operator, Pattern
from autotune.graph.ops.sums import sums_of
from autotune.graph.types import Array, TensorType
from autotune.ir import Expr, is_float
from autotune.te.tensor import Tensor

_PRODUCT = te.comm_reducer(mul, lambda t: te.const(1, t), name="prod")


def _greater(x: Expr, y: Expr) -> Expr:
    """Return the greater number; NaN where one of them is."""
    return te.Select(_is_nan(x, x >= y), x, y)


def _smaller(x: Expr, y: Expr) -> Expr:
    """Return the smaller number; NaN where one of them is."""
    return te.Select(_is_nan(x, x <= y), x, y)


def _is_nan(x: Expr, otherwise: Expr) -> Expr:
    return te.any(te.isnan(x), otherwise) if is_float(x.dtype) else otherwise


def _identity(number: float, dtype: str) -> Expr:
    """Return a number; of an infinite one the last that a type of whole numbers has."""
    if math.isfinite(number) or is_float(dtype):
        return te.const(number, dtype)
    return te.max_value(dtype) if number > 0 else te.min_value(dtype)


_GREATEST = te.comm_reducer(_greater, lambda t: _identity(-math.inf, t), name="greatest")
_SMALLEST = te.comm_reducer(_smaller, lambda t: _identity(math.inf, t), name="smallest")


def _log_of_both(x: Expr, y: Expr) -> Expr:
    """Return log(exp(x) + exp(y)) by the greater of both."""
    # Infinities less themselves are no numbers.
    most = te.const(float(np.finfo(np.float32).max) / 2, x.dtype)
    high, low = (te.max(te.min(each(x, y), most), -most) for each in (_greater, _smaller))
    return _greater(x, y) + te.log1p(te.exp(low - high))


_LOG_OF_SUM = te.comm_reducer(_log_of_both, lambda t: te.const(-math.inf, t), name="log_of_sum")


@dataclass(frozen=True)
class _Prefixes(Operator):
    """What the first 1, 2, ... elements along an axis combine to.

    Attributes:
        neutral: the number that changes nothing that it is combined with.
        reducer: combines values along an axis of a reduction, or two values.
        of_numpy: combines two arrays.
        along: the axis.
    """

    neutral: ClassVar[float]
    reducer: ClassVar[Callable[..., Expr]]
    of_numpy: ClassVar[np.ufunc]
    pattern: ClassVar[Pattern] = Pattern.OPAQUE
    along: int = -1

    def infer(self, *inputs: TensorType) -> TensorType:
        """Return the type of the data."""
        self.take(inputs, 1)
        (data,) = inputs
        self.axis(self.along, data.ndim, "along")
        if data.dtype == "bool":
            self.refuse("data", "numbers", data)
        return data

    def compute(self, *inputs: Tensor) -> Tensor:
        """Combine pieces of about the root of the extent, their results, and both.

        To combine all elements before each one would take the square of the extent.
        """
        (x,) = inputs
        shape, at = TensorType.of(x).shape, self.axis(self.along, len(x.shape), "along")
        extent, kind = shape[at], sums_of(x.dtype)
        piece = max(1, math.isqrt(extent))
        pieces = -(-extent // piece)
        neutral, outside = _identity(self.neutral, kind), (shape[:at], shape[at + 1 :])
        inner, before = te.reduce_axis((0, piece), "k"), te.reduce_axis((0, pieces), "p")
        rank = len(shape)

        def within(*i: Expr) -> Expr:
            where = i[at] * piece + inner.var
            element = x(*i[:at], where, *i[at + 2 :]).astype(kind)
            # Nothing is read beyond the last element.
            is_within = te.all(inner.var <= i[at + 1], where < extent)
            known = te.if_then_else(is_within, element, neutral)
            return self.reducer(known, axis=inner)

        sums = te.compute((*outside[0], pieces, piece, *outside[1]), within, "T_within")

        def earlier(*i: Expr) -> Expr:
            whole = sums(*i[:at], before.var, piece - 1, *i[at + 1 :])
            return self.reducer(te.Select(before.var < i[at], whole, neutral), axis=before)

        ahead = te.compute((*outside[0], pieces, *outside[1]), earlier, "T_before")

        def both(*i: Expr) -> Expr:
            number, place = te.indexdiv(i[at], piece), te.indexmod(i[at], piece)
            rest = i[at + 1 :]
            earlier_ones = ahead(*i[:at], number, *rest)
            total = self.reducer(earlier_ones, sums(*i[:at], number, place, *rest))
            return total.astype(x.dtype)

        names = topi.utils.axis_names(rank)
        result: Tensor = te.compute(shape, both, f"T_{self.name}", varargs_names=names)
        return result

    def flop(self, *types: TensorType) -> float:
        """Return one operation for each element."""
        return float(types[0].size)

    def reference(self, *inputs: Array) -> Array:
        """Combine one element after another."""
        (x,) = inputs
        found: Array = self.of_numpy.accumulate(x, axis=self.along, dtype=x.dtype)
        return found


@dataclass(frozen=True)
class Cumsum(_Prefixes):
    """Sums of the first 1, 2, ... elements along an axis."""

    name: ClassVar[str] = "cumsum"
    neutral: ClassVar[float] = 0
    reducer: ClassVar[Callable[..., Expr]] = staticmethod(te.sum)
    of_numpy: ClassVar[np.ufunc] = np.add


@dataclass(frozen=True)
class Cumprod(_Prefixes):
    """Products of the first 1, 2, ... elements along an axis."""

    name: ClassVar[str] = "cumprod"
    neutral: ClassVar[float] = 1
    reducer: ClassVar[Callable[..., Expr]] = staticmethod(_PRODUCT)
    of_numpy: ClassVar[np.ufunc] = np.multiply


@dataclass(frozen=True)
class Cummax(_Prefixes):
    """The greatest of the first 1, 2, ... elements along an axis; NaN from the first one on."""

    name: ClassVar[str] = "cummax"
    neutral: ClassVar[float] = -math.inf
    reducer: ClassVar[Callable[..., Expr]] = staticmethod(_GREATEST)
    of_numpy: ClassVar[np.ufunc] = np.maximum


@dataclass(frozen=True)
class Cummin(_Prefixes):
    """The least of the first 1, 2, ... elements along an axis; NaN from the first one on."""

    name: ClassVar[str] = "cummin"
    neutral: ClassVar[float] = math.inf
    reducer: ClassVar[Callable[..., Expr]] = staticmethod(_SMALLEST)
    of_numpy: ClassVar[np.ufunc] = np.minimum


@dataclass(frozen=True)
class Logcumsumexp(_Prefixes):
    """Logarithms of the sums of powers of e of the first 1, 2, ... elements along an axis."""

    name: ClassVar[str] = "logcumsumexp"
    neutral: ClassVar[float] = -math.inf
    reducer: ClassVar[Callable[..., Expr]] = staticmethod(_LOG_OF_SUM)
    of_numpy: ClassVar[np.ufunc] = np.logaddexp

    def infer(self, *inputs: TensorType) -> TensorType:
        """Return the type of the data, which are floats."""
        found = super().infer(*inputs)
        if not is_float(found.dtype):
            self.refuse("data", "floats", found)
        return found
