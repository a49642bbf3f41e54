"""Numbers with a fraction as whole numbers of few bits, and back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from autotune import te
from autotune.graph.operator import Operator, Pattern
from autotune.graph.ops.broadcast import along as lined_up
from autotune.graph.ops.spelling import define
from autotune.graph.types import Array, TensorType
from autotune.ir import Expr, check_dtype
from autotune.ir.base import nearest_const
from autotune.te.tensor import Tensor
from autotune.topi import tag

WHOLE = ("int8", "uint8", "int16", "uint16", "int32", "uint32")


@dataclass(frozen=True)
class _Scaled(Operator):
    """What both have in common: the inputs are the data, a scale, and the whole number of 0.

    Attributes:
        along: the axis of which each index has a scale and a zero point of its own, where these
            are vectors; else they have no dimension.
        dtype: of the result.
    """

    pattern: ClassVar[Pattern] = Pattern.ELEMWISE
    along: int = 0
    dtype: str = "int8"

    def _check(self, inputs: tuple[TensorType, ...], real: TensorType, whole: TensorType) -> None:
        self.take(inputs, 3)
        data, scale, zero = inputs
        if not real.dtype.startswith(("float", "bfloat")) or whole.dtype not in WHOLE:
            self.refuse("data and dtype", f"floats and one of {', '.join(WHOLE)}", (data, zero))
        own = (data.shape[self.axis(self.along, data.ndim, "along")],) if data.ndim else ()
        for name, each, kind in (("scale", scale, real.dtype), ("zero", zero, whole.dtype)):
            if each.shape not in ((), own) or each.dtype != kind:
                self.refuse(name, f"{kind}, without dimensions or {list(own)}", each)

    def _element(self, given: Tensor | Expr, i: tuple[Expr, ...]) -> Expr:
        """Return the scale or the zero point of an element."""
        if not isinstance(given, Tensor):
            return given
        element: Expr = given(i[self.along % len(i)]) if given.ndim else given()
        return element

    def _lined_up(self, given: Array, data: Array) -> Array:
        given = np.asarray(given)
        return lined_up(given, self.along % data.ndim, data.ndim) if given.ndim else given


def _limits(dtype: str, real: str) -> tuple[Expr, Expr]:
    """Return the least and the greatest number of a type of float that a whole number can be."""
    info = np.iinfo(dtype)
    high = np.asarray(info.max, real)
    if int(high) > info.max:
        high = np.nextafter(high, np.asarray(0, real))
    return nearest_const(float(info.min), real), nearest_const(float(high), real)


@dataclass(frozen=True)
class Quantize(_Scaled):
    """Return ``round(x / scale) + zero`` within the limits of a dtype; halves become even."""

    name: ClassVar[str] = "qnn.quantize"

    def infer(self, *inputs: TensorType) -> TensorType:
        """Return the type of the whole numbers."""
        out = TensorType(inputs[0].shape if inputs else (), check_dtype(self.dtype))
        self._check(inputs, inputs[0], out)
        return out

    def compute(self, *inputs: Tensor) -> Tensor:
        """Quantise each element."""
        x, scale, zero = inputs
        # Floats of 16 bits have not all whole numbers of 16 bits.
        wide = x.dtype if x.dtype == "float64" else "float32"
        low, high = _limits(self.dtype, wide)

        def body(*i: Expr) -> Expr:
            steps = x(*i).astype(wide) / self._element(scale, i).astype(wide)
            steps = te.nearbyint(steps) + self._element(zero, i).astype(wide)
            return te.max(te.min(steps, high), low).astype(self.dtype)

        return define(x.shape, body, "T_quantize", tag.BROADCAST)

    def unrounded(self, *inputs: Array) -> Array:
        """Return what is rounded to the result, without limits."""
        x = np.asarray(inputs[0], "float64")
        scale, zero = (self._lined_up(each, x) for each in inputs[1:])
        with np.errstate(all="ignore"):
            return np.asarray(x / scale.astype("float64") + zero)

    def reference(self, *inputs: Array) -> Array:
        """Quantise; what is no number becomes the zero point."""
        x = np.asarray(inputs[0])
        scale, zero = (self._lined_up(each, x) for each in inputs[1:])
        limits = np.iinfo(self.dtype)
        with np.errstate(all="ignore"):
            wide = np.result_type(x.dtype, "float32")
            steps = np.rint(x.astype(wide) / scale.astype(wide))
            steps = np.nan_to_num(steps, posinf=np.inf, neginf=-np.inf)
        steps = np.clip(steps + zero.astype("float64"), limits.min, limits.max)
        return np.asarray(steps.astype(self.dtype))


@dataclass(frozen=True)
class Dequantize(_Scaled):
    """Return ``(x - zero) * scale``."""

    name: ClassVar[str] = "qnn.dequantize"
    dtype: str = "float32"

    def infer(self, *inputs: TensorType) -> TensorType:
        """Return the type of the floats."""
        out = TensorType(inputs[0].shape if inputs else (), check_dtype(self.dtype))
        self._check(inputs, out, inputs[0])
        return out

    def compute(self, *inputs: Tensor) -> Tensor:
        """Scale each element."""
        x, scale, zero = inputs

        def body(*i: Expr) -> Expr:
            steps = x(*i).astype(self.dtype) - self._element(zero, i).astype(self.dtype)
            return steps * self._element(scale, i)

        return define(x.shape, body, "T_dequantize", tag.BROADCAST)

    def reference(self, *inputs: Array) -> Array:
        """Scale each element."""
        x = np.asarray(inputs[0])
        scale, zero = (self._lined_up(each, x) for each in inputs[1:])
        return np.asarray((x.astype(scale.dtype) - zero.astype(scale.dtype)) * scale)
