"""Operators on each element by itself."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from autotune import te
from autotune.graph.operator import Operator, Pattern
from autotune.graph.ops.spelling import define, each_element
from autotune.graph.types import Array, TensorType
from autotune.ir import Expr, check_dtype
from autotune.ir.base import nearest_const
from autotune.te.tensor import Tensor
from autotune.topi import tag


@dataclass(frozen=True)
class Elementwise(Operator):
    """An operator of one input, whose result has its type."""

    pattern: ClassVar[Pattern] = Pattern.ELEMWISE

    def infer(self, *inputs: TensorType) -> TensorType:
        """Return the type of the input."""
        self.take(inputs, 1)
        return inputs[0]

    def compute(self, *inputs: Tensor) -> Tensor:
        """Apply `expression` to each element."""
        (x,) = inputs
        name = f"T_{self.name.split('.')[-1]}"
        return each_element(x, lambda v: self.expression(v, x.dtype), name)

    def expression(self, value: Expr, dtype: str) -> Expr:
        """Return the result for one element."""
        raise NotImplementedError


def _unary(
    key: str, expression: Callable[[Expr], Expr], reference: Callable[[Array], Array]
) -> type[Operator]:
    """Make the operator of a function of one element."""

    def write(self: Operator, value: Expr, dtype: str) -> Expr:
        return expression(value)

    def run(self: Operator, x: Array) -> Array:
        return reference(x)

    title = "".join(part.title() for part in key.split("_"))
    names = {"name": key, "expression": write, "reference": run, "__module__": __name__}
    made = type(title, (Elementwise,), {**names, "__doc__": f"Take ``{key}`` of each element."})
    return dataclass(frozen=True)(made)


def _special(name: str) -> Callable[[Array], Array]:
    """Return a function of `scipy.special`."""

    def function(x: Array) -> Array:
        from scipy import special  # takes half a second to load

        found: Array = getattr(special, name)(x)
        return found

    return function


def _negated(value: Expr) -> Expr:
    """Return a number with the other sign; of an unsigned one, what wraps around, in its dtype."""
    unsigned = value.dtype.startswith("uint")
    return te.const(0, value.dtype) - value if unsigned else -value


Exp = _unary("exp", te.exp, np.exp)
Exp2 = _unary("exp2", te.exp2, np.exp2)
Log = _unary("log", te.log, np.log)
# Of powers of 2 it is a whole number, unlike a multiple of another logarithm.
Log2 = _unary("log2", te.log2, np.log2)
Log10 = _unary("log10", te.log10, np.log10)
Log1p = _unary("log1p", te.log1p, np.log1p)
Sqrt = _unary("sqrt", te.sqrt, np.sqrt)
Rsqrt = _unary("rsqrt", te.rsqrt, lambda x: 1 / np.sqrt(x))
Tanh = _unary("tanh", te.tanh, np.tanh)
Sigmoid = _unary("sigmoid", te.sigmoid, _special("expit"))
Erf = _unary("erf", te.erf, _special("erf"))
Sin = _unary("sin", te.sin, np.sin)
Cos = _unary("cos", te.cos, np.cos)
Tan = _unary("tan", te.tan, np.tan)
Sinh = _unary("sinh", te.sinh, np.sinh)
Cosh = _unary("cosh", te.cosh, np.cosh)
Asin = _unary("asin", te.asin, np.arcsin)
Acos = _unary("acos", te.acos, np.arccos)
Atan = _unary("atan", te.atan, np.arctan)
Asinh = _unary("asinh", te.asinh, np.arcsinh)
Acosh = _unary("acosh", te.acosh, np.arccosh)
Atanh = _unary("atanh", te.atanh, np.arctanh)
Floor = _unary("floor", te.floor, np.floor)
Ceil = _unary("ceil", te.ceil, np.ceil)
Trunc = _unary("trunc", te.trunc, np.trunc)
# Halves become even numbers, as in numpy, ONNX and PyTorch; TVM's ``round`` takes the farther one.
Nearbyint = _unary("nearbyint", te.nearbyint, np.rint)
Abs = _unary("abs", te.abs, np.abs)
Negative = _unary("negative", _negated, np.negative)
Copy = _unary("copy", lambda v: v, np.copy)


@dataclass(frozen=True)
class Sign(Elementwise):
    """Replace each element by -1, 0 or 1."""

    name: ClassVar[str] = "sign"

    def expression(self, value: Expr, dtype: str) -> Expr:
        """Compare with 0; what is not a number stays."""
        zero, one = te.const(0, dtype), te.const(1, dtype)
        if dtype.startswith("uint"):
            return te.Select(value > zero, one, zero)
        return te.Select(value > zero, one, te.Select(value < zero, -one, value * zero))

    def reference(self, *inputs: Array) -> Array:
        """Take the sign."""
        return np.asarray(np.sign(inputs[0]))


@dataclass(frozen=True)
class Relu(Elementwise):
    """Clear negative elements."""

    name: ClassVar[str] = "nn.relu"

    def expression(self, value: Expr, dtype: str) -> Expr:
        """Take the greater of an element and 0."""
        return te.max(value, te.const(0, dtype))

    def reference(self, *inputs: Array) -> Array:
        """Take the greater of each element and 0."""
        return np.maximum(inputs[0], 0)


@dataclass(frozen=True)
class LeakyRelu(Elementwise):
    """Scale negative elements by ``alpha``."""

    name: ClassVar[str] = "nn.leaky_relu"
    alpha: float = 0.01

    def expression(self, value: Expr, dtype: str) -> Expr:
        """Scale a negative element."""
        return te.Select(value > te.const(0, dtype), value, value * te.const(self.alpha, dtype))

    def reference(self, *inputs: Array) -> Array:
        """Scale negative elements."""
        return np.where(inputs[0] > 0, inputs[0], inputs[0] * self.alpha)


@dataclass(frozen=True)
class Clip(Elementwise):
    """Limit each element to ``a_min`` .. ``a_max``."""

    name: ClassVar[str] = "clip"
    a_min: float = -math.inf
    a_max: float = math.inf

    def expression(self, value: Expr, dtype: str) -> Expr:
        """Limit an element."""
        low, high = nearest_const(self.a_min, dtype), nearest_const(self.a_max, dtype)
        return te.max(te.min(value, high), low)

    def reference(self, *inputs: Array) -> Array:
        """Limit each element."""
        return np.clip(inputs[0], self.a_min, self.a_max)


@dataclass(frozen=True)
class Cast(Operator):
    """Convert each element to another dtype."""

    name: ClassVar[str] = "cast"
    pattern: ClassVar[Pattern] = Pattern.ELEMWISE
    dtype: str = "float32"

    def infer(self, *inputs: TensorType) -> TensorType:
        """Return the type with the other dtype."""
        self.take(inputs, 1)
        return TensorType(inputs[0].shape, check_dtype(self.dtype))

    def compute(self, *inputs: Tensor) -> Tensor:
        """Convert each element."""
        return each_element(inputs[0], lambda v: v.astype(self.dtype), "T_cast")

    def reference(self, *inputs: Array) -> Array:
        """Convert; from one float to another the precision of the reference stays."""
        (x,) = inputs
        both = x.dtype.kind not in "iub" and self.dtype.startswith(("float", "bfloat"))
        return x if both else x.astype(self.dtype)


@dataclass(frozen=True)
class Full(Operator):
    """A tensor of one value, given as the only input, without dimensions."""

    name: ClassVar[str] = "full"
    pattern: ClassVar[Pattern] = Pattern.ELEMWISE
    shape: tuple[int, ...] = ()

    def infer(self, *inputs: TensorType) -> TensorType:
        """Return the type with the wanted shape."""
        self.take(inputs, 1)
        if inputs[0].shape:
            self.refuse("fill_value", "a tensor without dimensions", inputs[0])
        return TensorType(self.shape, inputs[0].dtype)

    def compute(self, *inputs: Tensor) -> Tensor:
        """Write the value everywhere."""
        (value,) = inputs
        return define(
            self.shape, lambda *_: value() if callable(value) else value, "T_full", tag.ELEMWISE
        )

    def reference(self, *inputs: Array) -> Array:
        """Write the value everywhere."""
        return np.full(self.shape, inputs[0])
