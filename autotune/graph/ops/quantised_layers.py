"""Convolutions and products of 8-bit integers with all that follows: one kernel a layer."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from autotune import topi
from autotune.graph.ops.conv import Conv2d, convolve
from autotune.graph.ops.layout import arrange, by_letter, change_layout, check_layout
from autotune.graph.ops.requantise import Requantised, centred
from autotune.graph.ops.spelling import define
from autotune.graph.types import Array, TensorType
from autotune.ir import Expr
from autotune.te.tensor import Tensor

# Layouts of filters beside those of images: sums run along memory in either.
FILTERS = {"NCHW": "OIHW", "NHWC": "OHWI"}


@dataclass(frozen=True)
class QuantisedLayer(Requantised):
    """``sum((x - zero) * w) * scale + shift``, limited, and rounded where it is a whole number.

    Inputs are the data in int8 or uint8, a weight in int8, and of each channel the sum of its
    weights (by which the zero point is subtracted), a scale and a shift.

    Attributes:
        zero: the number in the data that stands for 0, which also pads images.
    """

    zero: int = 0

    def _check(self, inputs: tuple[TensorType, ...], channels: int) -> None:
        data, weight, sums, *rest = inputs
        self._check_data("data", data)
        if weight.dtype != "int8":
            self.refuse("weight", "int8", weight)
        if sums != TensorType((channels,), "int32"):
            self.refuse("sums", f"int32[{channels}]", sums)
        for name, each in zip(("scale", "shift"), rest, strict=True):
            if each != TensorType((channels,), "float32"):
                self.refuse(name, f"float32[{channels}]", each)

    def _scaled(self, sums: Tensor, scale: Tensor, shift: Tensor, axis: int) -> Tensor:
        def body(*i: Expr) -> Expr:
            value = sums(*i).astype("float32") * scale(i[axis]) + shift(i[axis])
            return self._finished(value)

        return define(sums.shape, body, "T_requantised")


@dataclass(frozen=True)
class QuantisedConv2d(QuantisedLayer):
    """Convolve images of 8-bit integers by filters.

    Attributes:
        strides, padding, dilation, groups: as of `Conv2d`.
        data_layout: ``NCHW``, with filters OIHW, or ``NHWC``, with OHWI.
    """

    name: ClassVar[str] = "qnn.conv2d"
    strides: tuple[int, ...] = (1,)
    padding: tuple[int, ...] = (0,)
    dilation: tuple[int, ...] = (1,)
    groups: int = 1
    data_layout: str = "NCHW"

    @property
    def kernel_layout(self) -> str:
        """The layout of the filters."""
        return FILTERS[self.data_layout]

    @property
    def plain(self) -> Conv2d:
        """The convolution alone, of images NCHW and filters OIHW."""
        return Conv2d(self.strides, self.padding, self.dilation, self.groups)

    def infer(self, *inputs: TensorType) -> TensorType:
        """Return the type of the images that come out."""
        self.take(inputs, 5)
        check_layout(self, "data_layout", self.data_layout, tuple(FILTERS))
        data, weight = inputs[:2]
        if data.ndim != 4 or weight.ndim != 4:
            self.refuse("data and weight", "of 4 dimensions", (data, weight))
        images, filters = by_letter(self.data_layout, data.shape), self.filters(weight)
        same = [
            TensorType(arrange("NCHW", images), "int32"), TensorType(filters, "int32")
        ]  # fmt: skip
        out = by_letter("NCHW", self.plain.infer(*same).shape)
        self._check(inputs, out["C"])
        return self._result(arrange(self.data_layout, out))

    def filters(self, weight: TensorType) -> tuple[int, ...]:
        """Return the extents of filters as OIHW."""
        return arrange("OIHW", by_letter(self.kernel_layout, weight.shape))

    def compute(self, *inputs: Tensor) -> Tensor:
        """Convolve in int32."""
        data, weight, _, scale, shift = inputs
        op, whole = self.plain, topi.cast(weight, "int32")
        if self.data_layout == "NHWC":
            own = self.groups > 1 and self.filters(TensorType.of(weight))[:2] == (self.groups, 1)
            layout = "HWOI" if own else "HWIO"
            axes = [self.kernel_layout.index(letter) for letter in layout]
            whole = topi.transpose(whole, axes)
            op = replace(op, data_layout="NHWC", kernel_layout=layout)
        sums = op.compute(centred(data, self.zero), whole)
        return self._scaled(sums, scale, shift, self.data_layout.index("C"))

    def reference(self, *inputs: Array) -> Array:
        """Convolve; sums are exact."""
        data = change_layout(inputs[0].astype("float64"), self.data_layout, "NCHW")
        weight = change_layout(inputs[1].astype("float64"), self.kernel_layout, "OIHW")
        op = self.plain
        sums = convolve(data - self.zero, weight, op.steps, op.sides, op.holes, self.groups)
        scale, shift = (each.reshape(-1, 1, 1) for each in inputs[3:])
        return change_layout(self._rounded(sums * scale + shift), "NCHW", self.data_layout)

    def flop(self, *types: TensorType) -> float:
        """Return two operations for each product."""
        return 2.0 * types[-1].size * types[1].size / self.filters(types[1])[0]


@dataclass(frozen=True)
class QuantisedDense(QuantisedLayer):
    """Multiply data [batch, in] of 8-bit integers by the transpose of weight [out, in]."""

    name: ClassVar[str] = "qnn.dense"

    def infer(self, *inputs: TensorType) -> TensorType:
        """Return [batch, out]."""
        self.take(inputs, 5)
        data, weight = inputs[:2]
        if data.ndim != 2 or weight.ndim != 2 or data.shape[1] != weight.shape[1]:
            self.refuse("weight", f"[out, in] for data {data}", weight)
        self._check(inputs, weight.shape[0])
        return self._result((data.shape[0], weight.shape[0]))

    def compute(self, *inputs: Tensor) -> Tensor:
        """Multiply in int32."""
        data, weight, _, scale, shift = inputs
        whole = topi.cast(weight, "int32")
        sums = topi.nn.dense(centred(data, self.zero), whole, out_dtype="int32")
        return self._scaled(sums, scale, shift, 1)

    def reference(self, *inputs: Array) -> Array:
        """Multiply; sums are exact."""
        data, weight = (each.astype("float64") for each in inputs[:2])
        return self._rounded((data - self.zero) @ weight.T * inputs[3] + inputs[4])

    def flop(self, *types: TensorType) -> float:
        """Return two operations for each product."""
        return 2.0 * types[-1].size * types[0].shape[1]
