"""Operators that move elements and compute nothing."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from autotune import te, topi
from autotune.errors import KernelError
from autotune.graph.operator import Operator, Pattern
from autotune.graph.ops.spelling import as_tensor, define
from autotune.graph.types import Array, TensorType
from autotune.ir import Expr
from autotune.kernel.layout import TiledLayout
from autotune.te.tensor import Tensor


@dataclass(frozen=True)
class Injective(Operator):
    """An operator each of whose elements is one of its inputs'."""

    pattern: ClassVar[Pattern] = Pattern.INJECTIVE


@dataclass(frozen=True)
class Reshape(Injective):
    """Give the elements another shape; 0 keeps an extent, one -1 is inferred."""

    name: ClassVar[str] = "reshape"
    newshape: tuple[int, ...] = ()

    def _shape(self, old: tuple[int, ...]) -> tuple[int, ...]:
        new = [old[i] if n == 0 and i < len(old) else n for i, n in enumerate(self.newshape)]
        if new.count(-1) == 1:
            new[new.index(-1)] = math.prod(old) // max(-math.prod(new), 1)
        if math.prod(new) != math.prod(old) or min([*new, 1]) < 1:
            self.refuse("newshape", f"extents of {math.prod(old)} elements", self.newshape)
        return tuple(new)

    def infer(self, *inputs: TensorType) -> TensorType:
        """Return the type of the new shape."""
        self.take(inputs, 1)
        return TensorType(self._shape(inputs[0].shape), inputs[0].dtype)

    def compute(self, *inputs: Tensor) -> Tensor:
        """Read the elements in order."""
        shape = tuple(n for n in inputs[0].shape if isinstance(n, int))
        return topi.reshape(inputs[0], self._shape(shape))

    def reference(self, *inputs: Array) -> Array:
        """Reshape."""
        return inputs[0].reshape(self._shape(inputs[0].shape))


@dataclass(frozen=True)
class TileLayout(Injective):
    """Put the elements in the order in which tiles read them: see `TiledLayout`.

    Attributes:
        parts: (dimension, extent), the outermost first.
    """

    name: ClassVar[str] = "layout_tile"
    parts: tuple[tuple[int, int], ...] = ()

    def _layout(self, shape: tuple[int, ...]) -> TiledLayout:
        try:
            return TiledLayout(shape, self.parts)
        except KernelError:
            self.refuse("parts", f"those of the shape {shape}", self.parts)

    def infer(self, *inputs: TensorType) -> TensorType:
        """Return the type of all parts, each a dimension."""
        self.take(inputs, 1)
        return TensorType(self._layout(inputs[0].shape).tiled_shape, inputs[0].dtype)

    def compute(self, *inputs: Tensor) -> Tensor:
        """Read each element at its index."""
        (data,) = inputs
        layout = self._layout(TensorType.of(data).shape)
        made: Tensor = te.compute(
            layout.tiled_shape, lambda *at: data(*layout.indices(at)), self.name, "injective"
        )
        return made

    def reference(self, *inputs: Array) -> Array:
        """Permute."""
        return self._layout(inputs[0].shape).forward(inputs[0])


@dataclass(frozen=True)
class BatchFlatten(Injective):
    """Join all dimensions but the first."""

    name: ClassVar[str] = "nn.batch_flatten"

    def infer(self, *inputs: TensorType) -> TensorType:
        """Return the type of two dimensions."""
        self.take(inputs, 1)
        first, *rest = inputs[0].shape
        return TensorType((first, math.prod(rest)), inputs[0].dtype)

    def compute(self, *inputs: Tensor) -> Tensor:
        """Read the elements in order."""
        return topi.reshape(inputs[0], self.infer(TensorType.of(inputs[0])).shape)

    def reference(self, *inputs: Array) -> Array:
        """Reshape."""
        return inputs[0].reshape(len(inputs[0]), -1)


@dataclass(frozen=True)
class Transpose(Injective):
    """Permute dimensions; without ``axes`` they are reversed."""

    name: ClassVar[str] = "transpose"
    axes: tuple[int, ...] | None = None

    def order(self, ndim: int) -> list[int]:
        """Return which axis of a tensor of ``ndim`` axes each axis of the result was."""
        if self.axes is None:
            return list(reversed(range(ndim)))
        order = [self.axis(axis, ndim, "axes") for axis in self.axes]
        if sorted(order) != list(range(ndim)):
            self.refuse("axes", f"a permutation of 0..{ndim - 1}", self.axes)
        return order

    def infer(self, *inputs: TensorType) -> TensorType:
        """Return the type with permuted extents."""
        self.take(inputs, 1)
        order = self.order(inputs[0].ndim)
        return TensorType(tuple(inputs[0].shape[i] for i in order), inputs[0].dtype)

    def compute(self, *inputs: Tensor) -> Tensor:
        """Permute."""
        return topi.transpose(inputs[0], self.order(inputs[0].ndim))

    def reference(self, *inputs: Array) -> Array:
        """Permute."""
        return np.transpose(inputs[0], self.order(inputs[0].ndim))


@dataclass(frozen=True)
class Squeeze(Injective):
    """Drop dimensions of extent 1: those given, or all."""

    name: ClassVar[str] = "squeeze"
    axes: tuple[int, ...] | None = None

    def _drop(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        ones = [i for i, n in enumerate(shape) if n == 1]
        drop = ones if self.axes is None else [self.axis(a, len(shape), "axis") for a in self.axes]
        if not set(drop) <= set(ones):
            self.refuse("axis", f"axes of extent 1 of {shape}", self.axes)
        return tuple(drop)

    def infer(self, *inputs: TensorType) -> TensorType:
        """Return the type without these dimensions."""
        self.take(inputs, 1)
        drop = self._drop(inputs[0].shape)
        left = tuple(n for i, n in enumerate(inputs[0].shape) if i not in drop)
        return TensorType(left, inputs[0].dtype)

    def compute(self, *inputs: Tensor) -> Tensor:
        """Read at 0."""
        shape = tuple(n for n in inputs[0].shape if isinstance(n, int))
        return topi.squeeze(inputs[0], list(self._drop(shape)))

    def reference(self, *inputs: Array) -> Array:
        """Squeeze."""
        return np.squeeze(inputs[0], self._drop(inputs[0].shape))


@dataclass(frozen=True)
class Concatenate(Injective):
    """Join tensors along an axis."""

    name: ClassVar[str] = "concatenate"
    along: int = 0

    def infer(self, *inputs: TensorType) -> TensorType:
        """Return the type with the extents added up."""
        self.take(inputs, 1, max(len(inputs), 1))
        first = inputs[0]
        at = self.axis(self.along, first.ndim)
        for other in inputs[1:]:
            fits = other.ndim == first.ndim and other.dtype == first.dtype
            if not fits or any(
                a != b
                for i, (a, b) in enumerate(zip(first.shape, other.shape, strict=True))
                if i != at
            ):
                self.refuse("data", f"tensors like {first}, except on axis {at}", other)
        shape = list(first.shape)
        shape[at] = sum(each.shape[at] for each in inputs)
        return TensorType(tuple(shape), first.dtype)

    def compute(self, *inputs: Tensor) -> Tensor:
        """Choose by the index."""
        return topi.concatenate(inputs, self.along)

    def reference(self, *inputs: Array) -> Array:
        """Join."""
        return np.concatenate(inputs, self.along)


@dataclass(frozen=True)
class Split(Injective):
    """Cut a tensor into ``sections`` equal parts along an axis."""

    name: ClassVar[str] = "split"
    sections: int = 1
    along: int = 0

    def infer(self, *inputs: TensorType) -> tuple[TensorType, ...]:
        """Return the types of the parts."""
        self.take(inputs, 1)
        at, shape = self.axis(self.along, inputs[0].ndim), list(inputs[0].shape)
        if self.sections < 1 or shape[at] % self.sections:
            self.refuse("sections", f"a number that divides {shape[at]}", self.sections)
        shape[at] //= self.sections
        return (TensorType(tuple(shape), inputs[0].dtype),) * self.sections

    def compute(self, *inputs: Tensor) -> list[Tensor]:
        """Read from where each part begins."""
        (x,) = inputs
        at, shape = self.axis(self.along, x.ndim), list(x.shape)
        size = TensorType.of(x).shape[at] // self.sections
        shape[at] = size

        def part(number: int) -> Tensor:
            def body(*i: Expr) -> Expr:
                return x(*i[:at], i[at] + number * size, *i[at + 1 :])

            return define(shape, body, "T_split_sections")

        return [part(number) for number in range(self.sections)]

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        """Cut."""
        return tuple(np.split(inputs[0], self.sections, self.along))


@dataclass(frozen=True)
class Stack(Injective):
    """Join tensors along a new axis."""

    name: ClassVar[str] = "stack"
    along: int = 0

    def infer(self, *inputs: TensorType) -> TensorType:
        """Return the type with the new axis."""
        self.take(inputs, 1, max(len(inputs), 1))
        if any(other != inputs[0] for other in inputs):
            self.refuse("data", f"tensors of one type, {inputs[0]}", tuple(map(str, inputs)))
        at = self.axis(self.along, inputs[0].ndim + 1)
        shape = inputs[0].shape
        return TensorType((*shape[:at], len(inputs), *shape[at:]), inputs[0].dtype)

    def compute(self, *inputs: Tensor) -> Tensor:
        """Join what has one more dimension."""
        parts = [as_tensor(each) for each in inputs]
        at = self.axis(self.along, parts[0].ndim + 1)
        return topi.concatenate([topi.expand_dims(each, at) for each in parts], at)

    def reference(self, *inputs: Array) -> Array:
        """Join."""
        return np.stack(inputs, self.along)


@dataclass(frozen=True)
class StridedSlice(Injective):
    """Take every ``strides``-th element from ``begin`` to ``end`` of the first dimensions."""

    name: ClassVar[str] = "strided_slice"
    begin: tuple[int, ...] = ()
    end: tuple[int, ...] = ()
    strides: tuple[int, ...] = ()

    def _slices(self) -> tuple[slice, ...]:
        steps = (*self.strides, *[1] * (len(self.begin) - len(self.strides)))
        return tuple(slice(*each) for each in zip(self.begin, self.end, steps, strict=True))

    def infer(self, *inputs: TensorType) -> TensorType:
        """Return the type of what is taken."""
        self.take(inputs, 1)
        shape = list(inputs[0].shape)
        for axis, part in enumerate(self._slices()):
            shape[axis] = len(range(*part.indices(shape[axis])))
        if min(shape) < 1:
            self.refuse("begin and end", f"what leaves something of {inputs[0]}", self.begin)
        return TensorType(tuple(shape), inputs[0].dtype)

    def compute(self, *inputs: Tensor) -> Tensor:
        """Read with an offset and a step."""
        return topi.strided_slice(inputs[0], self.begin, self.end, self.strides or None)

    def reference(self, *inputs: Array) -> Array:
        """Slice."""
        return inputs[0][self._slices()]


@dataclass(frozen=True)
class Pad(Injective):
    """Surround a tensor with a value: (before, after) for each dimension."""

    name: ClassVar[str] = "nn.pad"
    pad_width: tuple[tuple[int, int], ...] = ()
    pad_value: float = 0.0

    def infer(self, *inputs: TensorType) -> TensorType:
        """Return the larger type."""
        self.take(inputs, 1)
        if len(self.pad_width) != inputs[0].ndim:
            self.refuse("pad_width", f"a pair for each dimension of {inputs[0]}", self.pad_width)
        pairs = zip(inputs[0].shape, self.pad_width, strict=True)
        return TensorType(tuple(n + b + a for n, (b, a) in pairs), inputs[0].dtype)

    def compute(self, *inputs: Tensor) -> Tensor:
        """Choose by the index."""
        before, after = zip(*self.pad_width, strict=True)
        return topi.nn.pad(inputs[0], before, after, self.pad_value, name="T_pad")

    def reference(self, *inputs: Array) -> Array:
        """Surround."""
        return np.pad(inputs[0], self.pad_width, constant_values=self.pad_value)
