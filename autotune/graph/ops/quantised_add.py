"""Sums of two tensors of 8-bit integers with scales of their own: residuals of networks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from autotune import te
from autotune.graph.ops.quantised_layers import QuantisedConv2d
from autotune.graph.ops.requantise import Requantised
from autotune.graph.ops.spelling import define
from autotune.graph.types import Array, TensorType
from autotune.ir import Expr
from autotune.ir.base import nearest_const
from autotune.te.tensor import Tensor


@dataclass(frozen=True)
class QuantisedAdd(Requantised):
    """``(a - zeros[0]) * scales[0] + (b - zeros[1]) * scales[1]``, limited and rounded.

    Attributes:
        scales: of both, in steps of the result.
        zeros: the numbers in both that stand for 0.
    """

    name: ClassVar[str] = "qnn.add"
    scales: tuple[float, float] = (1.0, 1.0)
    zeros: tuple[int, int] = (0, 0)

    def infer(self, *inputs: TensorType) -> TensorType:
        """Return the type of the sums."""
        self.take(inputs, 2)
        for name, each in zip(("lhs", "rhs"), inputs, strict=True):
            self._check_data(name, each)
        if inputs[0].shape != inputs[1].shape:
            self.refuse("rhs", f"of the shape of {inputs[0]}", inputs[1])
        return self._result(inputs[0].shape)

    def compute(self, *inputs: Tensor) -> Tensor:
        """Add in float32."""

        def body(*i: Expr) -> Expr:
            left, right = (
                (data(*i).astype("int32") - te.const(zero, "int32")).astype("float32")
                * nearest_const(scale, "float32")
                for data, scale, zero in zip(inputs, self.scales, self.zeros, strict=True)
            )
            return self._finished(left + right)

        return define(inputs[0].shape, body, "T_quantised_add")

    def reference(self, *inputs: Array) -> Array:
        """Add; only the result is rounded."""
        left, right = (
            (data.astype("float64") - zero) * scale
            for data, scale, zero in zip(inputs, self.scales, self.zeros, strict=True)
        )
        return self._rounded(left + right)

    def flop(self, *types: TensorType) -> float:
        """Return two products and a sum for each element."""
        return 3.0 * types[-1].size


@dataclass(frozen=True)
class QuantisedConv2dAdd(QuantisedConv2d):
    """A convolution, rounded, and the sum of that and a residual: one kernel instead of two.

    Results are those of `QuantisedConv2d` and `QuantisedAdd`. Its last input is the residual.

    Attributes:
        low, high, out_zero, out_dtype: of the sum.
        conv_low, conv_high: limits of the convolution, in its steps, before it is rounded.
        scales: of the convolution and of the residual, in steps of the sum.
        residual_zero: the number in the residual that stands for 0.
    """

    name: ClassVar[str] = "qnn.conv2d_add"
    conv_low: float = -128.0
    conv_high: float = 127.0
    scales: tuple[float, float] = (1.0, 1.0)
    residual_zero: int = 0

    @staticmethod
    def of(conv: QuantisedConv2d, add: QuantisedAdd) -> QuantisedConv2dAdd:
        """Return the operator of a convolution that is rounded, and a sum that it begins."""
        low, high = conv.limits
        window = {name: getattr(conv, name) for name in _OF_WINDOWS}
        return QuantisedConv2dAdd(
            low=add.low, high=add.high, out_zero=add.out_zero, out_dtype=add.out_dtype,
            conv_low=low, conv_high=high, scales=add.scales, residual_zero=add.zeros[1], **window,
        )  # fmt: skip

    @property
    def conv(self) -> QuantisedConv2d:
        """The convolution alone; its result is in floats, that are whole numbers once rounded."""
        window = {name: getattr(self, name) for name in _OF_WINDOWS}
        return QuantisedConv2d(low=self.conv_low, high=self.conv_high, **window)

    def infer(self, *inputs: TensorType) -> TensorType:
        """Return the type of the sum."""
        self.take(inputs, 6)
        shape = self.conv.infer(*inputs[:5]).shape
        self._check_data("residual", inputs[5])
        if inputs[5].shape != shape:
            self.refuse("residual", f"of the shape {list(shape)}", inputs[5])
        return self._result(shape)

    def compute(self, *inputs: Tensor) -> Tensor:
        """Convolve in int32, round, and add."""
        sums, residual = self.conv.compute(*inputs[:5]), inputs[5]
        zero = te.const(self.residual_zero, "int32")
        left, right = (nearest_const(scale, "float32") for scale in self.scales)

        def body(*i: Expr) -> Expr:
            other = (residual(*i).astype("int32") - zero).astype("float32")
            return self._finished(te.nearbyint(sums(*i)) * left + other * right)

        return define(sums.shape, body, "T_quantised_residual")

    def reference(self, *inputs: Array) -> Array:
        """Convolve, round, and add."""
        steps = np.rint(self.conv.reference(*inputs[:5])) * self.scales[0]
        other = (inputs[5].astype("float64") - self.residual_zero) * self.scales[1]
        return self._rounded(steps + other)


_OF_WINDOWS = ("zero", "strides", "padding", "dilation", "groups", "data_layout")
