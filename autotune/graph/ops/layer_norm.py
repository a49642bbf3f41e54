"""Normalisations by statistics of the data itself: layer, group, instance and RMS norm."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeVar

import numpy as np

from autotune import te, topi
from autotune.graph.operator import Operator, Pattern
from autotune.graph.ops.broadcast import along
from autotune.graph.ops.sums import sums_of
from autotune.graph.types import Array, TensorType
from autotune.te.tensor import Tensor

T = TypeVar("T")
_FLOATS = ("float16", "bfloat16", "float32", "float64")


@dataclass(frozen=True)
class Norm(Operator):
    """A normalisation: less the mean if that is taken off, over a root, times gamma, plus beta.

    A subclass says which axes are normalised, and which axis gamma and beta have a number for.
    Statistics of 16-bit floats are in float32.
    """

    pattern: ClassVar[Pattern] = Pattern.OPAQUE
    centred: ClassVar[bool] = True

    @property
    def epsilon(self) -> float:
        """The constant added to the variance, or to the mean of the squares."""
        raise NotImplementedError

    @property
    def scale(self) -> bool:
        """Whether gamma follows."""
        raise NotImplementedError

    def channel(self, ndim: int) -> int:
        """Return the axis that vectors have a number for each index of."""
        raise NotImplementedError

    def seen_as(self, shape: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the shape in which data of a shape is normalised, and the axes along which."""
        raise NotImplementedError

    def vectors(self) -> tuple[str, ...]:
        """Return the names of the vectors that are used, of gamma and beta."""
        return ("gamma",) if self.scale else ()

    def small(self) -> float:
        """Return epsilon as a float."""
        return float(self.epsilon)

    def infer(self, *inputs: TensorType) -> TensorType:
        """Return the type of the data."""
        names = self.vectors()
        if len(inputs) != 1 + len(names) and not self._has_all(len(inputs)):
            self.take(inputs, 1 + len(names))
        data, *vectors = inputs
        if data.dtype not in _FLOATS:
            self.refuse("data", f"of {', '.join(_FLOATS)}", data)
        if not 0 <= self.small() < math.inf:
            self.refuse("epsilon", "a number from 0 on", self.small())
        at = self.channel(data.ndim)
        expected = TensorType((data.shape[at],), data.dtype)
        given = names if len(vectors) == len(names) else ("gamma", "beta")
        for name, vector in zip(given, vectors, strict=True):
            if vector != expected:
                self.refuse(name, str(expected), vector)
        return data

    def _has_all(self, count: int) -> bool:
        """Return whether gamma and beta are given whether they are used or not, as TVM does."""
        return False

    def used(self, vectors: Sequence[T]) -> dict[str, T]:
        """Return the vectors that are used, of those that are given, by name."""
        names = self.vectors()
        given = names if len(vectors) == len(names) else ("gamma", "beta")
        return {name: v for name, v in zip(given, vectors, strict=True) if name in names}

    def compute(self, *inputs: Tensor) -> Tensor:
        """Normalise in stages: statistics, and what is made of them."""
        data, *vectors = inputs
        shape = TensorType.of(data).shape
        kind = sums_of(data.dtype)
        half = kind != data.dtype
        seen, over = self.seen_as(shape)
        x = topi.cast(data, kind) if half else data
        x = x if seen == shape else topi.reshape(x, seen)
        if self.centred:
            x = topi.subtract(x, topi.mean(x, over, True))
        squares = topi.mean(topi.multiply(x, x), over, True)
        x = topi.divide(x, topi.sqrt(topi.add(squares, te.const(self.small(), kind))))
        x = x if seen == shape else topi.reshape(x, shape)
        at = self.channel(len(shape))
        along_channel = [n if i == at else 1 for i, n in enumerate(shape)]
        used = self.used(vectors)
        for name, combine in (("gamma", topi.multiply), ("beta", topi.add)):
            if name in used:
                vector = topi.reshape(used[name], along_channel)
                x = combine(x, topi.cast(vector, kind) if half else vector)
        return topi.cast(x, data.dtype) if half else x

    def reference(self, *inputs: Array) -> Array:
        """Normalise."""
        data, *vectors = inputs
        seen, over = self.seen_as(data.shape)
        x = data.reshape(seen)
        if self.centred:
            x = x - x.mean(over, keepdims=True)
        x = x / np.sqrt((x * x).mean(over, keepdims=True) + self.small())
        x = x.reshape(data.shape)
        at = self.channel(data.ndim)
        used = self.used(vectors)
        if "gamma" in used:
            x = x * along(used["gamma"], at, data.ndim)
        if "beta" in used:
            x = x + along(used["beta"], at, data.ndim)
        return np.asarray(x)

    def flop(self, *types: TensorType) -> float:
        """Return five operations for each element."""
        return 5.0 * types[0].size


@dataclass(frozen=True)
class _Affine(Norm):
    """A norm with a mean, after which gamma and beta may follow."""

    @property
    def center(self) -> bool:
        """Whether beta follows."""
        raise NotImplementedError

    def vectors(self) -> tuple[str, ...]:
        """Return those that are asked for."""
        flags = (("gamma", self.scale), ("beta", self.center))
        return tuple(name for name, wanted in flags if wanted)

    def _has_all(self, count: int) -> bool:
        return count == 3


@dataclass(frozen=True)
class _AlongAxis(Norm):
    """A norm along one axis, of which gamma and beta have a number for each index."""

    @property
    def axis_of_norm(self) -> int:
        """The axis; negative ones count from the end."""
        raise NotImplementedError

    def channel(self, ndim: int) -> int:
        """Return the axis that is normalised."""
        return self.axis(self.axis_of_norm, ndim)

    def seen_as(self, shape: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the shape as it is, and the axis."""
        return shape, (self.channel(len(shape)),)


@dataclass(frozen=True)
class LayerNorm(_AlongAxis, _Affine):
    """Normalise along an axis; inputs are data, gamma if ``scale``, and beta if ``center``.

    Both vectors may be given in any case, as TVM does.
    """

    name: ClassVar[str] = "nn.layer_norm"
    axis_of_norm: int = -1
    epsilon: float = 1e-5
    center: bool = True
    scale: bool = True


@dataclass(frozen=True)
class RmsNorm(_AlongAxis):
    """Divide by the root of the mean of squares along an axis; inputs are data and gamma.

    Without ``scale`` there is no gamma. B. Zhang and R. Sennrich, "Root Mean Square Layer
    Normalization", 2019.
    """

    name: ClassVar[str] = "nn.rms_norm"
    centred: ClassVar[bool] = False
    axis_of_norm: int = -1
    epsilon: float = 1e-6
    scale: bool = True


@dataclass(frozen=True)
class GroupNorm(_Affine):
    """Normalise groups of neighbouring channels, which are axis 1, over all that follows.

    Inputs are data, gamma if ``scale``, and beta if ``center``: one number a channel. Both may be
    given in any case, as TVM does.
    """

    name: ClassVar[str] = "nn.group_norm"
    num_groups: int = 1
    epsilon: float = 1e-5
    center: bool = True
    scale: bool = True

    def channel(self, ndim: int) -> int:
        """Return the axis of channels."""
        return 1

    def groups(self, channels: int) -> int:
        """Return how many groups there are of so many channels."""
        return self.num_groups

    def seen_as(self, shape: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return images, groups, and what is in a group as one axis."""
        groups = self.groups(shape[1])
        return (shape[0], groups, math.prod(shape[1:]) // groups), (2,)

    def infer(self, *inputs: TensorType) -> TensorType:
        """Return the type of the data."""
        if inputs and inputs[0].ndim < 2:
            self.refuse("data", "of at least 2 dimensions: images, channels, pixels", inputs[0])
        groups = self.groups(inputs[0].shape[1]) if inputs else 1
        whole = isinstance(groups, int) and not isinstance(groups, bool) and groups > 0
        if not whole or (inputs and inputs[0].shape[1] % groups):
            channels = inputs[0].shape[1] if inputs else "the channels"
            self.refuse("num_groups", f"a divisor of {channels}", groups)
        return super().infer(*inputs)


@dataclass(frozen=True)
class InstanceNorm(_Affine):
    """Normalise each channel of each image, channels being axis 1: as many groups as channels."""

    name: ClassVar[str] = "nn.instance_norm"
    epsilon: float = 1e-5
    center: bool = True
    scale: bool = True

    def channel(self, ndim: int) -> int:
        """Return the axis of channels."""
        return 1

    def seen_as(self, shape: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return images, channels, and pixels as one axis."""
        return (*shape[:2], math.prod(shape[2:])), (2,)

    def infer(self, *inputs: TensorType) -> TensorType:
        """Return the type of the data."""
        if inputs and inputs[0].ndim < 3:
            self.refuse("data", "of at least 3 dimensions: images, channels, pixels", inputs[0])
        return super().infer(*inputs)
