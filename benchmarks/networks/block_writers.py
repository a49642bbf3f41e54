"""Blocks of networks, written twice from one description: as a graph of ours and of PyTorch."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from autotune.graph import Constant, Value, apply, ops


class Writer(ABC):
    """The operators that a block is written with; images are NCHW.

    Args:
        seed: of the parameters, which are drawn in the order in which they are asked for.
    """

    def __init__(self, seed: int = 0) -> None:
        self._random = np.random.default_rng(seed)

    def drawn(self, *shape: int, around: float = 0.0) -> np.ndarray[Any, Any]:
        """Return numbers of which products with numbers near 1 are near 1."""
        depth = math.prod(shape[1:]) if len(shape) > 1 else 16
        numbers = self._random.standard_normal(shape) * depth**-0.5 + around
        return numbers.astype("float32")

    @abstractmethod
    def conv(
        self, x: Any, filters: int, size: int = 1, stride: int = 1, groups: int = 1, hole: int = 1
    ) -> Any:
        """Convolve with a bias, so that an image of stride 1 keeps its size."""

    @abstractmethod
    def unary(self, x: Any, name: str) -> Any:
        """Apply an activation."""

    @abstractmethod
    def add(self, x: Any, y: Any) -> Any:
        """Add."""

    @abstractmethod
    def multiply(self, x: Any, y: Any) -> Any:
        """Multiply."""

    @abstractmethod
    def scaled(self, x: Any) -> Any:
        """Multiply rows, or channels, by drawn numbers."""

    @abstractmethod
    def mean(self, x: Any) -> Any:
        """Return the mean of each channel, as an image of one pixel."""

    @abstractmethod
    def norm_channels(self, x: Any) -> Any:
        """Normalise the channels of each pixel."""

    @abstractmethod
    def shuffle(self, x: Any, groups: int) -> Any:
        """Deal channels of groups."""

    @abstractmethod
    def halves(self, x: Any) -> tuple[Any, Any]:
        """Return two halves of the channels."""

    @abstractmethod
    def joined(self, *parts: Any) -> Any:
        """Join channels."""

    @abstractmethod
    def upsampled(self, x: Any) -> Any:
        """Repeat each pixel twice in both directions."""

    @abstractmethod
    def spread(self, x: Any, filters: int, size: int) -> Any:
        """Convolve transposed, with stride 2, so that an image is twice as large."""

    @abstractmethod
    def pool(self, x: Any, size: int, stride: int) -> Any:
        """Take maxima of windows."""

    @abstractmethod
    def linear(self, x: Any, width: int) -> Any:
        """Multiply rows by drawn weights, and add a bias."""

    @abstractmethod
    def norm(self, x: Any) -> Any:
        """Normalise rows."""

    @abstractmethod
    def attention(self, x: Any, heads: int, causal: bool) -> Any:
        """Attend to the rows of one input, without the product that follows."""


class Ours(Writer):
    """Writes graphs."""

    def _of(self, *shape: int, around: float = 0.0) -> Value:
        return Constant.of(self.drawn(*shape, around=around))

    def conv(
        self,
        x: Value,
        filters: int,
        size: int = 1,
        stride: int = 1,
        groups: int = 1,
        hole: int = 1,
    ) -> Value:
        """Apply the operator."""
        weight = self._of(filters, x.shape[1] // groups, size, size)
        around = (size - 1) // 2 * hole
        op = ops.Conv2d((stride, stride), (around, around), (hole, hole), groups)
        return apply(ops.BiasAdd(), apply(op, x, weight), self._of(filters))

    def unary(self, x: Value, name: str) -> Value:
        """Write it as importers do."""
        if name in ("hardsigmoid", "hardswish"):
            shifted = apply(ops.Add(), x, Constant.of(3.0, dtype="float32"))
            gate = apply(ops.Clip(0.0, 6.0), shifted)
            gate = apply(ops.Multiply(), gate, Constant.of(1 / 6, dtype="float32"))
            return gate if name == "hardsigmoid" else apply(ops.Multiply(), x, gate)
        if name == "silu":
            return apply(ops.Multiply(), x, apply(ops.Sigmoid(), x))
        if name == "relu6":
            return apply(ops.Clip(0.0, 6.0), x)
        return apply({"relu": ops.Relu, "sigmoid": ops.Sigmoid, "gelu": ops.Gelu}[name](), x)

    def add(self, x: Value, y: Value) -> Value:
        """Apply the operator."""
        return apply(ops.Add(), x, y)

    def multiply(self, x: Value, y: Value) -> Value:
        """Apply the operator."""
        return apply(ops.Multiply(), x, y)

    def scaled(self, x: Value) -> Value:
        """Multiply by a constant."""
        return apply(ops.Multiply(), x, self._of(x.shape[-1], around=1.0))

    def mean(self, x: Value) -> Value:
        """Apply the operator."""
        return apply(ops.GlobalAvgPool2d(), x)

    def norm_channels(self, x: Value) -> Value:
        """Put channels last."""
        last = apply(ops.Transpose((0, 2, 3, 1)), x)
        return apply(ops.Transpose((0, 3, 1, 2)), self.norm(last))

    def shuffle(self, x: Value, groups: int) -> Value:
        """Transpose groups and channels."""
        n, c, h, w = x.shape
        apart = apply(ops.Reshape((n, groups, c // groups, h, w)), x)
        return apply(ops.Reshape((n, c, h, w)), apply(ops.Transpose((0, 2, 1, 3, 4)), apart))

    def halves(self, x: Value) -> tuple[Value, Value]:
        """Cut."""
        n, c, h, w = x.shape
        begins = ((0, c // 2), (c // 2, c))
        first, second = (apply(ops.StridedSlice((0, b, 0, 0), (n, e, h, w)), x) for b, e in begins)
        return first, second

    def joined(self, *parts: Value) -> Value:
        """Apply the operator."""
        return apply(ops.Concatenate(1), *parts)

    def upsampled(self, x: Value) -> Value:
        """Apply the operator."""
        return apply(ops.Upsampling(2), x)

    def spread(self, x: Value, filters: int, size: int) -> Value:
        """Apply the operator."""
        weight, around = self._of(x.shape[1], filters, size, size), (size - 2) // 2
        op = ops.Conv2dTranspose((2, 2), (around, around), (0, 0))
        return apply(ops.BiasAdd(), apply(op, x, weight), self._of(filters))

    def pool(self, x: Value, size: int, stride: int) -> Value:
        """Apply the operator."""
        around = size // 2
        return apply(ops.MaxPool2d((size, size), (stride, stride), (around, around)), x)

    def linear(self, x: Value, width: int) -> Value:
        """Multiply and add."""
        weights, bias = self._of(width, x.shape[1]), self._of(width)
        return apply(ops.Add(), apply(ops.Dense(), x, weights), bias)

    def norm(self, x: Value) -> Value:
        """Apply the operator."""
        width = x.shape[-1]
        return apply(ops.LayerNorm(), x, self._of(width, around=1.0), self._of(width))

    def attention(self, x: Value, heads: int, causal: bool) -> Value:
        """Multiply three times, and take heads apart."""
        rows, width = x.shape
        apart = ops.Reshape((1, rows, heads, width // heads))
        turned = ops.Transpose((0, 2, 1, 3))
        parts = [apply(turned, apply(apart, self.linear(x, width))) for _ in range(3)]
        seen = apply(ops.Attention(causal=causal), *parts)
        return apply(ops.Reshape((rows, width)), apply(turned, seen))


class Torch(Writer):
    """Writes PyTorch's functions.

    Args:
        torch: the module.
        dtype: of all numbers.
        last: whether images and filters lie in memory as NHWC.
    """

    def __init__(self, torch: Any, dtype: Any, last: bool, seed: int = 0) -> None:
        super().__init__(seed)
        self._torch, self._f, self._dtype, self._last = torch, torch.nn.functional, dtype, last
        # Parameters are made by the first run, and met in the same order by all.
        self.made: list[Any] = []
        self._met = 0

    def begin(self) -> None:
        """Begin another run."""
        self._met = 0

    def tensor(self, array: np.ndarray[Any, Any]) -> Any:
        """Return numbers as a tensor."""
        made = self._torch.from_numpy(np.array(array)).to(self._dtype)
        if self._last and made.ndim == 4:
            made = made.to(memory_format=self._torch.channels_last)
        return made

    def _of(self, *shape: int, around: float = 0.0) -> Any:
        if self._met == len(self.made):
            self.made.append(self.tensor(self.drawn(*shape, around=around)))
        self._met += 1
        return self.made[self._met - 1]

    def conv(
        self, x: Any, filters: int, size: int = 1, stride: int = 1, groups: int = 1, hole: int = 1
    ) -> Any:
        """Call the function."""
        weight, bias = self._of(filters, x.shape[1] // groups, size, size), self._of(filters)
        return self._f.conv2d(x, weight, bias, stride, (size - 1) // 2 * hole, hole, groups)

    def unary(self, x: Any, name: str) -> Any:
        """Call the function."""
        return self._torch.sigmoid(x) if name == "sigmoid" else getattr(self._f, name)(x)

    def add(self, x: Any, y: Any) -> Any:
        """Add."""
        return x + y

    def multiply(self, x: Any, y: Any) -> Any:
        """Multiply."""
        return x * y

    def scaled(self, x: Any) -> Any:
        """Multiply by a parameter."""
        return x * self._of(x.shape[-1], around=1.0)

    def mean(self, x: Any) -> Any:
        """Call the function."""
        return x.mean((2, 3), keepdim=True)

    def norm_channels(self, x: Any) -> Any:
        """Put channels last."""
        return self.norm(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)

    def shuffle(self, x: Any, groups: int) -> Any:
        """Call the function."""
        return self._f.channel_shuffle(x, groups)

    def halves(self, x: Any) -> tuple[Any, Any]:
        """Cut."""
        first, second = x.chunk(2, 1)
        return first, second

    def joined(self, *parts: Any) -> Any:
        """Call the function."""
        return self._torch.cat(parts, 1)

    def upsampled(self, x: Any) -> Any:
        """Call the function."""
        return self._f.interpolate(x, scale_factor=2, mode="nearest")

    def spread(self, x: Any, filters: int, size: int) -> Any:
        """Call the function."""
        weight, bias = self._of(x.shape[1], filters, size, size), self._of(filters)
        return self._f.conv_transpose2d(x, weight, bias, 2, (size - 2) // 2)

    def pool(self, x: Any, size: int, stride: int) -> Any:
        """Call the function."""
        return self._f.max_pool2d(x, size, stride, size // 2)

    def linear(self, x: Any, width: int) -> Any:
        """Call the function."""
        weights, bias = self._of(width, x.shape[1]), self._of(width)
        return self._f.linear(x, weights, bias)

    def norm(self, x: Any) -> Any:
        """Call the function."""
        width = x.shape[-1]
        gamma, beta = self._of(width, around=1.0), self._of(width)
        return self._f.layer_norm(x, (width,), gamma, beta, 1e-5)

    def attention(self, x: Any, heads: int, causal: bool) -> Any:
        """Multiply three times; heads are views."""
        rows, width = x.shape
        parts = [self.linear(x, width).view(1, rows, heads, -1).transpose(1, 2) for _ in range(3)]
        seen = self._f.scaled_dot_product_attention(*parts, is_causal=causal)
        return seen.transpose(1, 2).reshape(rows, width)
