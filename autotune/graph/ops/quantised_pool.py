"""Averages of 8-bit integers; maxima are those of `MaxPool2d`, as steps keep the order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from autotune import te, topi
from autotune.graph.ops.pool import GlobalAvgPool2d
from autotune.graph.ops.requantise import Requantised
from autotune.graph.ops.spelling import define
from autotune.graph.types import Array, TensorType
from autotune.ir import Expr
from autotune.ir.base import nearest_const
from autotune.te.tensor import Tensor


@dataclass(frozen=True)
class QuantisedGlobalAvgPool2d(Requantised):
    """``mean(x - zero) * scale`` of whole images, limited and rounded.

    Attributes:
        zero: the number in the data that stands for 0.
        scale: in steps of the result.
        layout: ``NCHW`` or ``NHWC``.
    """

    name: ClassVar[str] = "qnn.global_avg_pool2d"
    zero: int = 0
    scale: float = 1.0
    layout: str = "NCHW"

    def infer(self, *inputs: TensorType) -> TensorType:
        """Return the type with images of one element."""
        self.take(inputs, 1)
        self._check_data("data", inputs[0])
        return self._result(GlobalAvgPool2d(self.layout).infer(*inputs).shape)

    def pixels(self, data: TensorType) -> int:
        """Return the elements of an average."""
        return data.shape[self.layout.index("H")] * data.shape[self.layout.index("W")]

    def compute(self, *inputs: Tensor) -> Tensor:
        """Add up in int32."""
        (data,) = inputs
        pixels = self.pixels(TensorType.of(data))
        size = nearest_const(self.scale / pixels, "float32")
        whole = define(data.shape, lambda *i: data(*i).astype("int32"), "T_whole")
        sums = topi.sum(whole, [self.layout.index(axis) for axis in "HW"], keepdims=True)
        start = te.const(self.zero * pixels, "int32")

        def body(*i: Expr) -> Expr:
            return self._finished((sums(*i) - start).astype("float32") * size)

        return define(sums.shape, body, "T_quantised_average")

    def reference(self, *inputs: Array) -> Array:
        """Take the average; only the result is rounded."""
        axes = tuple(self.layout.index(axis) for axis in "HW")
        mean = np.mean(inputs[0].astype("float64"), axis=axes, keepdims=True)
        return self._rounded((mean - self.zero) * self.scale)

    def flop(self, *types: TensorType) -> float:
        """Return one operation for each element."""
        return float(types[0].size)
