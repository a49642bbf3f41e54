"""How operators on 8-bit integers end: within limits, and in steps of the result's scale."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from autotune import te
from autotune.graph.operator import Operator, Pattern
from autotune.graph.ops.spelling import define
from autotune.graph.types import Array, TensorType
from autotune.ir import Expr, check_dtype
from autotune.ir.base import nearest_const
from autotune.te.tensor import Tensor

DATA, RESULTS = ("int8", "uint8"), ("int8", "uint8", "float32")


@dataclass(frozen=True)
class Requantised(Operator):
    """What is computed in steps of the result's scale is limited, and rounded if it is whole.

    Halves become even; then the zero point of the result is added.

    Attributes:
        low, high: limits, before the zero point of the result is added.
        out_zero: the zero point of the result.
        out_dtype: of the result: ``"float32"``, which is not rounded, ``"int8"`` or ``"uint8"``.
    """

    # What follows in integers is part of it; the operands of the rest would be before it.
    pattern: ClassVar[Pattern] = Pattern.OPAQUE
    low: float = -math.inf
    high: float = math.inf
    out_zero: int = 0
    out_dtype: str = "float32"

    @property
    def limits(self) -> tuple[float, float]:
        """Least and greatest number before the zero point is added."""
        if self.out_dtype == "float32":
            return self.low, self.high
        info = np.iinfo(self.out_dtype)
        low, high = info.min - self.out_zero, info.max - self.out_zero
        return min(max(low, self.low), high), max(min(high, self.high), low)

    def _result(self, shape: tuple[int, ...]) -> TensorType:
        """Return the type of results of a shape."""
        if check_dtype(self.out_dtype) not in RESULTS:
            self.refuse("out_dtype", f"one of {', '.join(RESULTS)}", self.out_dtype)
        return TensorType(shape, self.out_dtype)

    def _check_data(self, name: str, data: TensorType) -> None:
        if data.dtype not in DATA:
            self.refuse(name, " or ".join(DATA), data)

    def _finished(self, value: Expr) -> Expr:
        """Return the result of a float32 in steps of the result's scale."""
        low, high = (nearest_const(n, "float32") for n in self.limits)
        value = te.max(te.min(value, high), low)
        if self.out_dtype == "float32":
            return value
        whole = te.const(float(self.out_zero), "float32")
        return (te.nearbyint(value) + whole).astype(self.out_dtype)

    def unrounded(self, *inputs: Array) -> Array:
        """Return what is rounded to the result."""
        low, high = self.limits
        in_floats = replace(self, out_dtype="float32", low=low, high=high)
        steps: Any = in_floats.reference(*inputs)
        return np.asarray(steps + self.out_zero)

    def _rounded(self, value: Array) -> Array:
        """Return the results of numbers in steps of the result's scale."""
        value = np.clip(value, *self.limits)
        if self.out_dtype != "float32":
            value = (np.rint(value) + self.out_zero).astype(self.out_dtype)
        return np.asarray(value)


def centred(data: Tensor, zero: int) -> Tensor:
    """Return data without their zero point, in int32."""
    start = te.const(zero, "int32")
    return define(data.shape, lambda *i: data(*i).astype("int32") - start, "T_centred")
