"""Cumulative sums."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from autotune import te, topi
from autotune.graph.operator import Operator, Pattern
from autotune.graph.ops.sums import sums_of
from autotune.graph.types import Array, TensorType
from autotune.ir import Expr
from autotune.te.tensor import Tensor


@dataclass(frozen=True)
class Cumsum(Operator):
    """Sums of the first 1, 2, ... elements along an axis."""

    name: ClassVar[str] = "cumsum"
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
        """Add up pieces of about the root of the extent, their sums, and both.

        To add up all elements before each one would take the square of the extent.
        """
        (x,) = inputs
        shape, at = TensorType.of(x).shape, self.axis(self.along, len(x.shape), "along")
        extent, kind = shape[at], sums_of(x.dtype)
        piece = max(1, math.isqrt(extent))
        pieces = -(-extent // piece)
        zero, outside = te.const(0, kind), (shape[:at], shape[at + 1 :])
        inner, before = te.reduce_axis((0, piece), "k"), te.reduce_axis((0, pieces), "p")
        rank = len(shape)

        def within(*i: Expr) -> Expr:
            where = i[at] * piece + inner.var
            element = x(*i[:at], where, *i[at + 2 :]).astype(kind)
            # Nothing is read beyond the last element.
            known = te.if_then_else(te.all(inner.var <= i[at + 1], where < extent), element, zero)
            return te.sum(known, axis=inner)

        sums = te.compute((*outside[0], pieces, piece, *outside[1]), within, "T_within")

        def earlier(*i: Expr) -> Expr:
            whole = sums(*i[:at], before.var, piece - 1, *i[at + 1 :])
            return te.sum(te.Select(before.var < i[at], whole, zero), axis=before)

        ahead = te.compute((*outside[0], pieces, *outside[1]), earlier, "T_before")

        def both(*i: Expr) -> Expr:
            number, place = te.indexdiv(i[at], piece), te.indexmod(i[at], piece)
            rest = i[at + 1 :]
            total: Expr = ahead(*i[:at], number, *rest) + sums(*i[:at], number, place, *rest)
            return total.astype(x.dtype)

        names = topi.utils.axis_names(rank)
        result: Tensor = te.compute(shape, both, "T_cumsum", varargs_names=names)
        return result

    def reference(self, *inputs: Array) -> Array:
        """Add up."""
        (x,) = inputs
        return np.cumsum(x, axis=self.along, dtype=x.dtype)

    def flop(self, *types: TensorType) -> float:
        """Return one operation for each element."""
        return float(types[0].size)
