"""Operators that read where an index says, and that repeat elements of images."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from autotune import te
from autotune.graph.operator import Operator, Pattern
from autotune.graph.ops.layout import DATA, arrange, by_letter, check_layout
from autotune.graph.ops.spelling import as_tensor, define
from autotune.graph.types import Array, TensorType
from autotune.ir import Expr, as_expr
from autotune.te.tensor import Tensor

# Indices whose numbers are not all numbers of int32.
_WIDE = ("int64", "uint32", "uint64")


@dataclass(frozen=True)
class Take(Operator):
    """Take slices along an axis, at the indices of the second input.

    Attributes:
        along: the axis.
        wrap: whether indices beyond its ends are counted on from the other end; else they are
            limited to it.
    """

    name: ClassVar[str] = "take"
    pattern: ClassVar[Pattern] = Pattern.INJECTIVE
    along: int = 0
    wrap: bool = False

    def infer(self, *inputs: TensorType) -> TensorType:
        """Return the type with the shape of the indices in place of the axis."""
        self.take(inputs, 2)
        data, indices = inputs
        at = self.axis(self.along, data.ndim)
        if not indices.dtype.startswith(("int", "uint")):
            self.refuse("indices", "whole numbers", indices)
        shape = (*data.shape[:at], *indices.shape, *data.shape[at + 1 :])
        return TensorType(shape, data.dtype)

    def compute(self, *inputs: Tensor) -> Tensor:
        """Read at the index."""
        data, indices = inputs[0], as_tensor(inputs[1])
        at = self.axis(self.along, data.ndim)
        own = (*data.shape[:at], *indices.shape, *data.shape[at + 1 :])
        last = data.shape[at] - 1

        def body(*i: Expr) -> Expr:
            where = indices(*i[at : at + indices.ndim])
            if self.wrap:
                number = as_expr(last + 1).astype(_signed(indices.dtype))
                where = te.floormod(where.astype(number.dtype), number).astype("int32")
            elif indices.dtype in _WIDE:  # limited first: another number would be left of it
                where = te.min(where, as_expr(last).astype(indices.dtype))
                where = te.max(where, te.const(0, indices.dtype)).astype("int32")
            else:
                where = te.max(te.min(where.astype("int32"), last), 0)
            return data(*i[:at], where, *i[at + indices.ndim :])

        return define(own, body, "T_take")

    def reference(self, *inputs: Array) -> Array:
        """Take."""
        data, places = inputs[0], inputs[1].astype(np.int64)
        if self.wrap:
            return np.take(data, places, axis=self.along, mode="wrap")
        return np.take(data, places, axis=self.along, mode="clip")


def _signed(dtype: str) -> str:
    """Return a dtype with a sign for the remainders of indices of another."""
    return "int64" if dtype in _WIDE else "int32"


@dataclass(frozen=True)
class Upsampling(Operator):
    """Repeat each element of images ``scale`` times in both directions."""

    name: ClassVar[str] = "nn.upsampling"
    pattern: ClassVar[Pattern] = Pattern.INJECTIVE
    scale: int = 2
    layout: str = "NCHW"

    def infer(self, *inputs: TensorType) -> TensorType:
        """Return the larger type."""
        self.take(inputs, 1)
        check_layout(self, "layout", self.layout, DATA[2])
        if inputs[0].ndim != 4 or self.scale < 1:
            self.refuse("data", "of 4 dimensions, and scale at least 1", inputs[0])
        images = by_letter(self.layout, inputs[0].shape)
        larger = {axis: images[axis] * self.scale for axis in "HW"}
        return TensorType(arrange(self.layout, {**images, **larger}), inputs[0].dtype)

    def compute(self, *inputs: Tensor) -> Tensor:
        """Read at the quotient."""
        (x,) = inputs
        out = self.infer(TensorType.of(x))

        def body(*i: Expr) -> Expr:
            at = [
                te.indexdiv(index, self.scale) if letter in "HW" else index
                for letter, index in zip(self.layout, i, strict=True)
            ]
            return x(*at)

        return define(out.shape, body, "T_upsampling")

    def reference(self, *inputs: Array) -> Array:
        """Repeat."""
        rows, columns = self.layout.index("H"), self.layout.index("W")
        return inputs[0].repeat(self.scale, rows).repeat(self.scale, columns)
