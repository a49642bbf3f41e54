"""Activations of several operations as single operators; `compose` finds them in arithmetic."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from autotune import te
from autotune.graph.ops.elementwise import Elementwise
from autotune.graph.ops.sums import sums_of
from autotune.graph.types import Array, TensorType
from autotune.ir import Expr

# Of GELU's approximation.
_TANH_ROOT, _TANH_CUBE = math.sqrt(2 / math.pi), 0.044715


@dataclass(frozen=True)
class Activation(Elementwise):
    """An activation; 16-bit floats are computed with in float32."""

    def expression(self, value: Expr, dtype: str) -> Expr:
        """Return the result for one element."""
        kind = sums_of(dtype)
        result = self.of_float(value.astype(kind), kind)
        return result.astype(dtype) if kind != dtype else result

    def of_float(self, value: Expr, dtype: str) -> Expr:
        """Return the result for a float of 32 bits or more."""
        raise NotImplementedError


@dataclass(frozen=True)
class Gelu(Activation):
    """``x * normal_cdf(x)``: D. Hendrycks and K. Gimpel, "Gaussian Error Linear Units", 2016.

    Attributes:
        approximate: ``"none"``, or ``"tanh"`` for their approximation, as PyTorch has it:
            ``x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3)))``.
    """

    name: ClassVar[str] = "nn.gelu"
    approximate: str = "none"

    def infer(self, *inputs: TensorType) -> TensorType:
        """Return the type of the input."""
        if self.approximate not in ("none", "tanh"):
            self.refuse("approximate", "none or tanh", self.approximate)
        return super().infer(*inputs)

    def of_float(self, value: Expr, dtype: str) -> Expr:
        """Write it by ``erf``, or the approximation by the exponential in its ``tanh``."""
        if self.approximate == "tanh":
            shrunk = te.const(-2 * _TANH_ROOT, dtype) * value
            inner = shrunk * (te.const(1, dtype) + te.const(_TANH_CUBE, dtype) * value * value)
            return value / (te.exp(inner) + te.const(1, dtype))
        inner = te.erf(value * te.const(math.sqrt(0.5), dtype))
        return value * te.const(0.5, dtype) * (inner + te.const(1, dtype))

    def reference(self, *inputs: Array) -> Array:
        """Multiply by the normal distribution's function."""
        from scipy.special import ndtr  # takes half a second to load

        if self.approximate == "tanh":
            (x,) = inputs
            return np.asarray(x / 2 * (1 + np.tanh(_TANH_ROOT * (x + _TANH_CUBE * x**3))))
        return np.asarray(inputs[0] * ndtr(inputs[0]))


@dataclass(frozen=True)
class Silu(Activation):
    """``x * sigmoid(x)``."""

    name: ClassVar[str] = "nn.silu"

    def of_float(self, value: Expr, dtype: str) -> Expr:
        """Divide."""
        return value / (te.exp(-value) + te.const(1, dtype))

    def reference(self, *inputs: Array) -> Array:
        """Multiply by the logistic function."""
        from scipy.special import expit  # takes half a second to load

        return np.asarray(inputs[0] * expit(inputs[0]))
