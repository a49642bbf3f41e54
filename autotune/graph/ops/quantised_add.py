"""Sums of two tensors of 8-bit integers with scales of their own: residuals of networks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from autotune import te
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
