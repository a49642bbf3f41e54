"""One call of an ATen operator, as the functions that convert it see it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn, TypeVar, cast

import numpy as np

from autotune.errors import GraphError
from autotune.graph import Array, Constant, Operator, TensorType, Value, apply, ops

Number = int | float | bool
# What torch passes for a tensor: a value of the graph, or a number.
Operand = Value | Number


@dataclass(frozen=True)
class Bound:
    """Between what the elements of an index are: torch raises an error where they are not.

    Attributes:
        index: whole numbers.
        first: the least that they may be; below 0 where places are counted from the end too.
        extent: of the axis, which they are below.
        origin: the layer of the model that reads or writes there.
    """

    index: Value
    first: int
    extent: int
    origin: str


@dataclass(frozen=True)
class Call:
    """One call of an ATen operator.

    Attributes:
        name: such as ``"aten.add.Tensor"``.
        types: of its results, as torch says; empty where a result is no tensor.
        origin: the layer of the model that makes the call.
        bounds: takes those of indices.
    """

    name: str
    types: tuple[TensorType, ...]
    origin: str
    bounds: list[Bound] = field(default_factory=list, repr=False, compare=False)

    @property
    def type(self) -> TensorType:
        """The type of the first result."""
        return self.types[0]

    def refuse(self, argument: str, expected: str, got: object) -> NoReturn:
        """Raise the error for an argument that is not supported."""
        raise GraphError(f"{self.origin}: {self.name}: {argument} must be {expected}, got {got!r}")

    def check_floats(self, value: Value) -> None:
        """Refuse whole numbers where torch rounds them by rules of its own."""
        if not value.dtype.startswith(("float", "bfloat")):
            self.refuse("input", "of floats", value.dtype)

    def within(self, index: Value, extent: int, from_end: bool = False) -> None:
        """Say that indices are places of an axis, counted from its front, or from its end too.

        Raises:
            GraphError: they are known, and one is not.
        """
        first = -extent if from_end else 0
        if not isinstance(index, Constant):
            self.bounds.append(Bound(index, first, extent, self.origin))
        elif (index.array < first).any() or (index.array >= extent).any():
            limits = int(index.array.min()), int(index.array.max())
            self.refuse("indices", f"{first} to {extent - 1}", limits)

    def apply(self, op: Operator, *inputs: Value) -> Value:
        """Apply an operator of one result."""
        return apply(op, *inputs, origin=self.origin)

    def constant(self, numbers: Any, dtype: str | None = None) -> Constant:
        """Return numbers as a value."""
        return Constant.of(np.asarray(numbers), dtype=dtype)

    def value(self, given: Operand, dtype: str | None = None) -> Value:
        """Return a tensor or a number as a value, of a dtype."""
        if isinstance(given, Value):
            return given if dtype is None else self.cast(given, dtype)
        return self.constant(given, dtype or self.type.dtype)

    def cast(self, value: Value, dtype: str) -> Value:
        """Convert elements where they are of another dtype."""
        if value.dtype == dtype:
            return value
        if dtype == "bool":
            zero = self.constant(0, value.dtype)
            return self.apply(ops.NotEqual(), value, zero)
        return self.apply(ops.Cast(dtype), value)

    def reshape(self, value: Value, shape: Sequence[int]) -> Value:
        """Return a value in another shape."""
        wanted = tuple(shape)
        return value if value.shape == wanted else self.apply(ops.Reshape(wanted), value)

    def transpose(self, value: Value, axes: Sequence[int]) -> Value:
        """Permute dimensions."""
        order = tuple(axis % value.type.ndim for axis in axes)
        if order == tuple(range(len(order))):
            return value
        return self.apply(ops.Transpose(order), value)

    def expand(self, value: Value, shape: Sequence[int]) -> Value:
        """Repeat a value to a shape that it broadcasts to."""
        wanted = tuple(shape)
        if value.shape == wanted:
            return value
        return self.apply(ops.BroadcastTo(wanted), value)

    def binary(self, op: Callable[[], Operator], a: Operand, b: Operand, dtype: str) -> Value:
        """Apply an operator of two operands in a dtype."""
        return self.apply(op(), self.value(a, dtype), self.value(b, dtype))

    def take(self, value: Value, axis: int, indices: Array) -> Value:
        """Take slices along an axis, at places that are known."""
        places = self.constant(np.ascontiguousarray(indices), "int32")
        return self.apply(ops.Take(axis), value, places)

    def slice(self, value: Value, axis: int, begin: int, end: int, step: int = 1) -> Value:
        """Return a part of a value along an axis."""
        if (begin, end, step) == (0, value.shape[axis], 1):
            return value
        before = value.shape[:axis]
        op = ops.StridedSlice((0,) * axis + (begin,), (*before, end), (1,) * axis + (step,))
        return self.apply(op, value)

    def write_slice(
        self, value: Value, source: Value, axis: int, begin: int, step: int = 1
    ) -> Value:
        """Write a tensor of as many dimensions to every step-th place of an axis."""
        begins, steps = [0] * value.type.ndim, [1] * value.type.ndim
        begins[axis], steps[axis] = begin, step
        return self.apply(ops.WriteSlice(tuple(begins), tuple(steps)), value, source)

    def concatenate(self, values: Sequence[Value], axis: int) -> Value:
        """Join values along an axis."""
        return values[0] if len(values) == 1 else self.apply(ops.Concatenate(axis), *values)


# Returns what a call computes: a value for each result; None where it has no rule for it.
Converter = Callable[..., "Value | Sequence[Value | None] | None"]
# Name of an ATen operator, with or without the name of the overload -> what converts its calls.
CONVERTERS: dict[str, Converter] = {}


F = TypeVar("F", bound=Converter)


def converts(*names: str) -> Callable[[F], F]:
    """Register a function for calls of ATen operators.

    It is called with the `Call` and with the operator's arguments in the order of its schema,
    defaults included.

    Args:
        names: such as ``"add.Tensor"``; without an overload for all of them. Those of other
            libraries have its name in front, and no overload: ``"torchvision.roi_align"``.
    """

    def register(function: F) -> F:
        for name in names:
            assert name not in CONVERTERS, name
            CONVERTERS[name] = function
        return function

    return register


def rounded_once(convert: F) -> F:
    """Return a converter that computes with 16-bit floats in float32, and rounds its results.

    So does torch. Rounded at each step, results of several steps lose digits, or overflow.
    """

    @functools.wraps(convert)
    def converted(call: Call, x: Value, *rest: Any) -> Value | Sequence[Value | None] | None:
        if x.dtype not in ("float16", "bfloat16"):
            return convert(call, x, *rest)
        wide = tuple(replace(each, dtype="float32") for each in call.types)
        made = convert(replace(call, types=wide), call.cast(x, "float32"), *rest)
        if made is None or isinstance(made, Value):
            return made if made is None else call.cast(made, call.type.dtype)
        return [
            each if each is None else call.cast(each, kind.dtype)
            for each, kind in zip(made, call.types, strict=True)
        ]

    return cast(F, converted)


def converter_of(operator: Any, own: Mapping[str, Converter] | None = None) -> Converter | None:
    """Return what converts an overload of an operator, such as torch.ops.aten.add.Tensor.

    Args:
        operator: the overload.
        own: converters that go before ours, by names such as ``"aten.add"`` or
            ``"mine.scale.default"``.
    """
    name = str(operator)
    packet = name.rpartition(".")[0]
    for each in (name, packet):
        if own and each in own:
            return own[each]
    if not name.startswith("aten."):
        return CONVERTERS.get(packet)
    short = name.removeprefix("aten.")
    return CONVERTERS.get(short) or CONVERTERS.get(packet.removeprefix("aten."))
