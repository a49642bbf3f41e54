"""Operators on two tensors that broadcast as numpy's do, and what repeats a tensor."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from autotune import te, topi
from autotune.graph.operator import Operator, Pattern
from autotune.graph.ops.spelling import define
from autotune.graph.types import Array, TensorType
from autotune.ir import Expr
from autotune.te.broadcast import broadcast
from autotune.te.tensor import Tensor
from autotune.topi import tag


def broadcast_shape(op: Operator, a: TensorType, b: TensorType) -> tuple[int, ...]:
    """Return the shape to which two tensors broadcast."""
    try:
        return np.broadcast_shapes(a.shape, b.shape)
    except ValueError:
        op.refuse("rhs", f"of a shape that meets {a}", b)


@dataclass(frozen=True)
class Broadcast(Operator):
    """An operator on two tensors of one dtype."""

    pattern: ClassVar[Pattern] = Pattern.BROADCAST
    result_dtype: ClassVar[str | None] = None

    def infer(self, *inputs: TensorType) -> TensorType:
        """Return the type to which both broadcast."""
        self.take(inputs, 2)
        a, b = inputs
        if a.dtype != b.dtype:
            self.refuse("rhs", f"of dtype {a.dtype}, as lhs is", b)
        return TensorType(broadcast_shape(self, a, b), self.result_dtype or a.dtype)


def _binary(
    key: str,
    compute: Callable[[Tensor, Tensor], Tensor],
    reference: Callable[[Array, Array], Array],
    dtype: str | None = None,
) -> type[Broadcast]:
    """Make the operator of a function of two elements."""

    def write(self: Operator, a: Tensor, b: Tensor) -> Tensor:
        return compute(a, b)

    def run(self: Operator, a: Array, b: Array) -> Array:
        return reference(a, b)

    title = "".join(part.title() for part in key.split("_"))
    names = {"name": key, "compute": write, "reference": run, "result_dtype": dtype}
    doc = {"__doc__": f"Combine two tensors by ``{key}``.", "__module__": __name__}
    made: Any = type(title, (Broadcast,), {**names, **doc})
    result: type[Broadcast] = dataclass(frozen=True)(made)
    return result


def _truncated(a: Array, b: Array) -> Array:
    """Return the quotient of whole numbers, towards zero."""
    return np.asarray(np.abs(a) // np.abs(b) * (np.sign(a) * np.sign(b)))


Add = _binary("add", topi.add, np.add)
Subtract = _binary("subtract", topi.subtract, np.subtract)
Multiply = _binary("multiply", topi.multiply, np.multiply)
Divide = _binary("divide", topi.divide, np.divide)
# Of whole numbers: the quotient towards zero, as in C, and the one below.
TruncDivide = _binary("trunc_divide", topi.trunc_divide, _truncated)
FloorDivide = _binary("floor_divide", topi.floor_divide, np.floor_divide)
Power = _binary("power", topi.power, np.power)
# The angle of the point that has the second input beside the axis, and the first above it.
Atan2 = _binary("atan2", lambda y, x: broadcast(te.atan2, y, x, "T_atan2"), np.arctan2)
# The size of the first input with the sign of the second, zeros and what is no number included.
Copysign = _binary(
    "copysign", lambda x, y: broadcast(te.copysign, x, y, "T_copysign"), np.copysign
)
# The remainder with the sign of the dividend, as in C, and with that of the divisor.
Mod = _binary("mod", topi.mod, np.fmod)
FloorMod = _binary("floor_mod", topi.floor_mod, np.mod)
Maximum = _binary("maximum", topi.maximum, np.maximum)
Minimum = _binary("minimum", topi.minimum, np.minimum)
Equal = _binary("equal", topi.equal, np.equal, "bool")
NotEqual = _binary("not_equal", topi.not_equal, np.not_equal, "bool")
Less = _binary("less", topi.less, np.less, "bool")
LessEqual = _binary("less_equal", topi.less_equal, np.less_equal, "bool")
Greater = _binary("greater", topi.greater, np.greater, "bool")
GreaterEqual = _binary("greater_equal", topi.greater_equal, np.greater_equal, "bool")
LogicalAnd = _binary("logical_and", topi.logical_and, np.logical_and, "bool")
LogicalOr = _binary("logical_or", topi.logical_or, np.logical_or, "bool")
LogicalXor = _binary("logical_xor", topi.logical_xor, np.logical_xor, "bool")
BitwiseAnd = _binary("bitwise_and", topi.bitwise_and, np.bitwise_and)
BitwiseOr = _binary("bitwise_or", topi.bitwise_or, np.bitwise_or)
BitwiseXor = _binary("bitwise_xor", topi.bitwise_xor, np.bitwise_xor)
LeftShift = _binary("left_shift", topi.left_shift, np.left_shift)
RightShift = _binary("right_shift", topi.right_shift, np.right_shift)


def along(values: Array, axis: int, ndim: int) -> Array:
    """Return an array of one dimension with ones around, so that it broadcasts on an axis."""
    return values.reshape([-1 if i == axis else 1 for i in range(ndim)])


@dataclass(frozen=True)
class BiasAdd(Operator):
    """Add one number to each index of an axis: inputs are the data and a vector."""

    name: ClassVar[str] = "nn.bias_add"
    pattern: ClassVar[Pattern] = Pattern.BROADCAST
    axis_of_bias: int = 1

    def infer(self, *inputs: TensorType) -> TensorType:
        """Return the type of the data."""
        self.take(inputs, 2)
        data, bias = inputs
        at = self.axis(self.axis_of_bias, data.ndim)
        if bias != TensorType((data.shape[at],), data.dtype):
            self.refuse("bias", f"{data.dtype}[{data.shape[at]}]", bias)
        return data

    def compute(self, *inputs: Tensor) -> Tensor:
        """Add the vector."""
        data, bias = inputs
        return topi.nn.bias_add(data, bias, axis=self.axis(self.axis_of_bias, data.ndim))

    def reference(self, *inputs: Array) -> Array:
        """Add the vector."""
        data, bias = inputs
        return data + along(bias, self.axis(self.axis_of_bias, data.ndim), data.ndim)


@dataclass(frozen=True)
class Prelu(Operator):
    """Scale negative elements by a slope of their channel: inputs are the data and a vector."""

    name: ClassVar[str] = "nn.prelu"
    pattern: ClassVar[Pattern] = Pattern.BROADCAST
    axis_of_slope: int = 1

    def infer(self, *inputs: TensorType) -> TensorType:
        """Return the type of the data."""
        self.take(inputs, 2)
        data, slope = inputs
        at = self.axis(self.axis_of_slope, data.ndim)
        if slope != TensorType((data.shape[at],), data.dtype):
            self.refuse("alpha", f"{data.dtype}[{data.shape[at]}]", slope)
        return data

    def compute(self, *inputs: Tensor) -> Tensor:
        """Scale negative elements."""
        data, slope = inputs
        at = self.axis(self.axis_of_slope, data.ndim)

        def value(*i: Expr) -> Expr:
            x = data(*i)
            return te.Select(x > te.const(0, data.dtype), x, x * slope(i[at]))

        return define(data.shape, value, "T_prelu", tag.BROADCAST)

    def reference(self, *inputs: Array) -> Array:
        """Scale negative elements."""
        data, slope = inputs
        at = self.axis(self.axis_of_slope, data.ndim)
        return np.where(data > 0, data, data * along(slope, at, data.ndim))


@dataclass(frozen=True)
class ExpandDims(Operator):
    """Insert ``num_newaxis`` dimensions of extent 1 before ``at``."""

    name: ClassVar[str] = "expand_dims"
    pattern: ClassVar[Pattern] = Pattern.BROADCAST
    at: int = 0
    num_newaxis: int = 1

    def _shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        at = self.axis(self.at, len(shape) + 1)
        return (*shape[:at], *[1] * self.num_newaxis, *shape[at:])

    def infer(self, *inputs: TensorType) -> TensorType:
        """Return the type with the new dimensions."""
        self.take(inputs, 1)
        return TensorType(self._shape(inputs[0].shape), inputs[0].dtype)

    def compute(self, *inputs: Tensor) -> Tensor:
        """Read what is there."""
        return topi.expand_dims(inputs[0], self.at, self.num_newaxis)

    def reference(self, *inputs: Array) -> Array:
        """Reshape."""
        return inputs[0].reshape(self._shape(inputs[0].shape))


@dataclass(frozen=True)
class BroadcastTo(Operator):
    """Repeat a tensor to a larger shape."""

    name: ClassVar[str] = "broadcast_to"
    pattern: ClassVar[Pattern] = Pattern.BROADCAST
    shape: tuple[int, ...] = ()

    def infer(self, *inputs: TensorType) -> TensorType:
        """Return the type of the wanted shape."""
        self.take(inputs, 1)
        wanted = TensorType(self.shape, inputs[0].dtype)
        if broadcast_shape(self, inputs[0], wanted) != wanted.shape:
            self.refuse("shape", f"one that {inputs[0]} can be repeated to", self.shape)
        return wanted

    def compute(self, *inputs: Tensor) -> Tensor:
        """Repeat."""
        return topi.broadcast_to(inputs[0], self.shape)

    def reference(self, *inputs: Array) -> Array:
        """Repeat."""
        return np.broadcast_to(inputs[0], self.shape)


@dataclass(frozen=True)
class Where(Operator):
    """Take elements of the second input where the first is not 0, else of the third."""

    name: ClassVar[str] = "where"
    pattern: ClassVar[Pattern] = Pattern.BROADCAST

    def infer(self, *inputs: TensorType) -> TensorType:
        """Return the type of both branches."""
        self.take(inputs, 3)
        condition, x, y = inputs
        if y != x or condition.shape != x.shape:
            self.refuse("condition and y", f"of the shape of x, {x}", (condition.shape, y.shape))
        return x

    def compute(self, *inputs: Tensor) -> Tensor:
        """Choose; numbers without dimensions may be expressions, which are no tensors."""
        if all(isinstance(each, Tensor) for each in inputs):
            return topi.where(*inputs)
        parts = [each() if isinstance(each, Tensor) else each for each in inputs]
        return define((), lambda: te.Select(parts[0], *parts[1:]), "T_where", tag.BROADCAST)

    def reference(self, *inputs: Array) -> Array:
        """Choose."""
        return np.where(inputs[0] != 0, inputs[1], inputs[2])
