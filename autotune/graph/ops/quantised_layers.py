"""Convolutions and products of 8-bit integers with all that follows: one kernel a layer."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from autotune import te, topi
from autotune.graph.operator import Operator, Pattern
from autotune.graph.ops.conv import Conv2d, convolve
from autotune.graph.ops.spelling import define
from autotune.graph.types import Array, TensorType
from autotune.ir import Expr, check_dtype
from autotune.ir.base import nearest_const
from autotune.te.tensor import Tensor

DATA, RESULTS = ("int8", "uint8"), ("int8", "uint8", "float32")


@dataclass(frozen=True)
class _Requantised(Operator):
    """``sum((x - zero) * w) * scale + shift``, limited, and rounded where it is a whole number.

    Inputs are the data in int8 or uint8, a weight in int8, and of each channel the sum of its
    weights (by which the zero point is subtracted), a scale and a shift.

    Attributes:
        zero: the number in the data that stands for 0, which also pads images.
        low, high: limits, before the zero point of the result is added.
        out_zero: the zero point of the result.
        out_dtype: of the result: ``"float32"``, which is not rounded, ``"int8"`` or ``"uint8"``.
    """

    # What follows in integers is part of it; the operands of the rest would be before it.
    pattern: ClassVar[Pattern] = Pattern.OPAQUE
    zero: int = 0
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

    def _check(self, inputs: tuple[TensorType, ...], channels: int) -> None:
        data, weight, sums, *rest = inputs
        if data.dtype not in DATA or weight.dtype != "int8":
            self.refuse("data and weight", "int8 or uint8, and int8", (data, weight))
        if sums != TensorType((channels,), "int32"):
            self.refuse("sums", f"int32[{channels}]", sums)
        for name, each in zip(("scale", "shift"), rest, strict=True):
            if each != TensorType((channels,), "float32"):
                self.refuse(name, f"float32[{channels}]", each)
        if check_dtype(self.out_dtype) not in RESULTS:
            self.refuse("out_dtype", f"one of {', '.join(RESULTS)}", self.out_dtype)

    def _finished(self, sums: Tensor, scale: Tensor, shift: Tensor, axis: int) -> Tensor:
        low, high = (nearest_const(n, "float32") for n in self.limits)

        def body(*i: Expr) -> Expr:
            value = sums(*i).astype("float32") * scale(i[axis]) + shift(i[axis])
            value = te.max(te.min(value, high), low)
            if self.out_dtype == "float32":
                return value
            whole = te.const(float(self.out_zero), "float32")
            return (te.nearbyint(value) + whole).astype(self.out_dtype)

        return define(sums.shape, body, "T_requantised")

    def _rounded(self, sums: Array, scale: Array, shift: Array) -> Array:
        value = np.clip(sums * scale + shift, *self.limits)
        if self.out_dtype != "float32":
            value = (np.rint(value) + self.out_zero).astype(self.out_dtype)
        return np.asarray(value)

    def _centred(self, data: Tensor) -> Tensor:
        zero = te.const(self.zero, "int32")
        return define(data.shape, lambda *i: data(*i).astype("int32") - zero, "T_centred")


@dataclass(frozen=True)
class QuantisedConv2d(_Requantised):
    """Convolve images NCHW of 8-bit integers by filters OIHW.

    Attributes:
        strides, padding, dilation, groups: as of `Conv2d`.
    """

    name: ClassVar[str] = "qnn.conv2d"
    strides: tuple[int, ...] = (1,)
    padding: tuple[int, ...] = (0,)
    dilation: tuple[int, ...] = (1,)
    groups: int = 1

    @property
    def plain(self) -> Conv2d:
        """The convolution alone."""
        return Conv2d(self.strides, self.padding, self.dilation, self.groups)

    def infer(self, *inputs: TensorType) -> TensorType:
        """Return the type of the images that come out."""
        self.take(inputs, 5)
        same = [TensorType(each.shape, "int32") for each in inputs[:2]]
        out = self.plain.infer(*same)
        self._check(inputs, out.shape[1])
        return TensorType(out.shape, self.out_dtype)

    def compute(self, *inputs: Tensor) -> Tensor:
        """Convolve in int32."""
        data, weight, _, scale, shift = inputs
        sums = self.plain.compute(self._centred(data), topi.cast(weight, "int32"))
        return self._finished(sums, scale, shift, 1)

    def reference(self, *inputs: Array) -> Array:
        """Convolve; sums are exact."""
        data, weight = (each.astype("float64") for each in inputs[:2])
        op = self.plain
        sums = convolve(data - self.zero, weight, op.steps, op.sides, op.holes, self.groups)
        scale, shift = (each.reshape(-1, 1, 1) for each in inputs[3:])
        return self._rounded(sums, scale, shift)

    def flop(self, *types: TensorType) -> float:
        """Return two operations for each product."""
        return 2.0 * types[-1].size * types[1].size / types[1].shape[0]


@dataclass(frozen=True)
class QuantisedDense(_Requantised):
    """Multiply data [batch, in] of 8-bit integers by the transpose of weight [out, in]."""

    name: ClassVar[str] = "qnn.dense"

    def infer(self, *inputs: TensorType) -> TensorType:
        """Return [batch, out]."""
        self.take(inputs, 5)
        data, weight = inputs[:2]
        if data.ndim != 2 or weight.ndim != 2 or data.shape[1] != weight.shape[1]:
            self.refuse("weight", f"[out, in] for data {data}", weight)
        self._check(inputs, weight.shape[0])
        return TensorType((data.shape[0], weight.shape[0]), self.out_dtype)

    def compute(self, *inputs: Tensor) -> Tensor:
        """Multiply in int32."""
        data, weight, _, scale, shift = inputs
        whole = topi.cast(weight, "int32")
        sums = topi.nn.dense(self._centred(data), whole, out_dtype="int32")
        return self._finished(sums, scale, shift, 1)

    def reference(self, *inputs: Array) -> Array:
        """Multiply; sums are exact."""
        data, weight = (each.astype("float64") for each in inputs[:2])
        return self._rounded((data - self.zero) @ weight.T, inputs[3], inputs[4])

    def flop(self, *types: TensorType) -> float:
        """Return two operations for each product."""
        return 2.0 * types[-1].size * types[0].shape[1]
