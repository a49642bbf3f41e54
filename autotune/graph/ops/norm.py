"""Batch norm and dropout, which passes replace; softmax."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from autotune import topi
from autotune.graph.operator import Operator, Pattern
from autotune.graph.ops.broadcast import along
from autotune.graph.ops.sums import summed
from autotune.graph.types import Array, TensorType
from autotune.te.tensor import Tensor


@dataclass(frozen=True)
class Replaced(Operator):
    """An operator that `simplify_inference` replaces before kernels are made."""

    @property
    def has_compute(self) -> bool:
        """It is replaced by others, which have."""
        return False

    def compute(self, *inputs: Tensor) -> Tensor:
        """Refuse: a pass replaces it."""
        self.refuse("graph", "simplified by passes.simplify_inference first", self)


@dataclass(frozen=True)
class BatchNorm(Replaced):
    """Normalise by statistics of each channel.

    Inputs are data, gamma, beta, mean and variance; gamma is not used unless ``scale``, beta not
    unless ``center``.
    """

    name: ClassVar[str] = "nn.batch_norm"
    pattern: ClassVar[Pattern] = Pattern.OUT_ELEMWISE_FUSABLE
    channel_axis: int = 1
    epsilon: float = 1e-5
    center: bool = True
    scale: bool = True

    def infer(self, *inputs: TensorType) -> TensorType:
        """Return the type of the data."""
        self.take(inputs, 5)
        data, *vectors = inputs
        at = self.axis(self.channel_axis, data.ndim)
        expected = TensorType((data.shape[at],), data.dtype)
        for name, vector in zip(
            ("gamma", "beta", "moving_mean", "moving_var"), vectors, strict=True
        ):
            if vector != expected:
                self.refuse(name, str(expected), vector)
        return data

    def reference(self, *inputs: Array) -> Array:
        """Normalise."""
        data, *vectors = inputs
        at = self.axis(self.channel_axis, data.ndim)
        gamma, beta, mean, var = (along(v, at, data.ndim) for v in vectors)
        out = (data - mean) / np.sqrt(var + self.epsilon)
        out = out * gamma if self.scale else out
        return out + beta if self.center else out

    def flop(self, *types: TensorType) -> float:
        """Return a product and a sum for each element."""
        return 2.0 * types[0].size


@dataclass(frozen=True)
class Dropout(Replaced):
    """Return the data unchanged, as nothing is dropped at inference."""

    name: ClassVar[str] = "nn.dropout"
    rate: float = 0.5

    def infer(self, *inputs: TensorType) -> TensorType:
        """Return the type of the data."""
        self.take(inputs, 1)
        return inputs[0]

    def reference(self, *inputs: Array) -> Array:
        """Return the data."""
        return inputs[0]


@dataclass(frozen=True)
class Softmax(Operator):
    """Divide the powers of e by their sum along an axis."""

    name: ClassVar[str] = "nn.softmax"
    pattern: ClassVar[Pattern] = Pattern.OUT_ELEMWISE_FUSABLE
    axis_of_sum: int = -1

    def infer(self, *inputs: TensorType) -> TensorType:
        """Return the type of the data."""
        self.take(inputs, 1)
        self.axis(self.axis_of_sum, inputs[0].ndim)
        return inputs[0]

    def compute(self, *inputs: Tensor) -> Tensor:
        """Do it in four stages."""
        return summed(lambda x: topi.nn.softmax(x, self.axis_of_sum), inputs[0])

    def reference(self, *inputs: Array) -> Array:
        """Divide the powers of e by their sum."""
        (x,) = inputs
        powers = np.exp(x - x.max(self.axis_of_sum, keepdims=True))
        return np.asarray(powers / powers.sum(self.axis_of_sum, keepdims=True))

    def flop(self, *types: TensorType) -> float:
        """Return four operations for each element."""
        return 4.0 * types[0].size


@dataclass(frozen=True)
class LogSoftmax(Softmax):
    """Take the logarithm of `Softmax`."""

    name: ClassVar[str] = "nn.log_softmax"

    def compute(self, *inputs: Tensor) -> Tensor:
        """Do it without the quotient."""
        return summed(lambda x: topi.nn.log_softmax(x, self.axis_of_sum), inputs[0])

    def reference(self, *inputs: Array) -> Array:
        """Subtract the logarithm of the sum."""
        (x,) = inputs
        less = x - x.max(self.axis_of_sum, keepdims=True)
        return np.asarray(less - np.log(np.exp(less).sum(self.axis_of_sum, keepdims=True)))
