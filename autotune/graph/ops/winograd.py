"""Winograd's convolution, as the pass that chooses it puts it in place of a plain one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from autotune import topi
from autotune.graph.operator import Operator, Pattern
from autotune.graph.ops.conv import Conv2d, Convolution
from autotune.graph.ops.packed import OfKnownWeights
from autotune.graph.ops.sums import rounded, sums_of
from autotune.graph.types import Array, TensorType
from autotune.te.tensor import Tensor
from autotune.topi.nn import transform_fractions


def _matrices(tile: int, kernel: int) -> list[Array]:
    matrices = transform_fractions(tile, kernel)
    return [np.array([[float(x) for x in row] for row in matrix]) for matrix in matrices]


def _type(array: Array) -> TensorType:
    return TensorType(array.shape)


@dataclass(frozen=True)
class WinogradWeight(OfKnownWeights):
    """Transform filters to [alpha, alpha, out, in], alpha = tile + k - 1."""

    name: ClassVar[str] = "nn.winograd_weight_nhwc"
    tile_size: int = 4
    kernel_layout: str = "HWIO"

    def infer(self, *inputs: TensorType) -> TensorType:
        """Return the type of the transformed filters."""
        self.take(inputs, 1)
        kh, kw, ci, co = (inputs[0].shape[self.kernel_layout.index(axis)] for axis in "HWIO")
        if kh != kw:
            self.refuse("weight", "square filters", inputs[0])
        alpha = self.tile_size + kh - 1
        return TensorType((alpha, alpha, co, ci), inputs[0].dtype)

    def reference(self, *inputs: Array) -> Array:
        """Transform."""
        weight = inputs[0].transpose([self.kernel_layout.index(axis) for axis in "HWIO"])
        _, _, g = _matrices(self.tile_size, len(weight))
        return np.asarray(np.einsum("er,ns,rsio->enoi", g, g, weight, optimize=True))


@dataclass(frozen=True)
class WinogradConv2d(Operator):
    """Convolve data NHWC by filters of `WinogradWeight`; stride and dilation are 1."""

    name: ClassVar[str] = "nn.conv2d_winograd_nhwc"
    pattern: ClassVar[Pattern] = Pattern.OUT_ELEMWISE_FUSABLE
    tile_size: int = 4
    padding: tuple[int, ...] = (0,)

    def _plain(self, data: TensorType, weight: TensorType) -> tuple[Convolution, TensorType]:
        """Return the convolution that it stands for, and the type of its filters."""
        size = weight.shape[0] - self.tile_size + 1
        filters = TensorType((size, size, weight.shape[3], weight.shape[2]), weight.dtype)
        op = Conv2d(padding=self.padding, data_layout="NHWC", kernel_layout="HWIO")
        return op, filters

    def infer(self, *inputs: TensorType) -> TensorType:
        """Return the type of the convolution."""
        self.take(inputs, 2)
        op, filters = self._plain(*inputs)
        return op.infer(inputs[0], filters)

    def compute(self, *inputs: Tensor) -> Tensor:
        """Transform, multiply, and transform back."""
        data, weight = inputs
        (top, bottom), (left, right) = self._plain(*[TensorType.of(one) for one in inputs])[
            0
        ].sides
        total = topi.nn.conv2d_winograd_nhwc(
            data, weight, 1, [top, left, bottom, right], out_dtype=sums_of(data.dtype),
            pre_computed=True, tile_size=self.tile_size,
        )  # fmt: skip
        return rounded(total, data.dtype)

    def reference(self, *inputs: Array) -> Array:
        """Transform tiles of the data, multiply each point, and transform back."""
        data, weight = inputs
        tile, alpha = self.tile_size, len(weight)
        a, b, _ = _matrices(tile, alpha - tile + 1)
        op, filters = self._plain(_type(data), _type(weight))
        out = op.infer(_type(data), filters)
        _, rows, columns, _ = out.shape
        (top, _), (left, _) = op.sides
        tiles = -(-rows // tile), -(-columns // tile)
        # The last tiles may reach beyond the images, and the images beyond the last tiles.
        ends = [n * tile + alpha - tile for n in tiles]
        below, right = ends[0] - top - data.shape[1], ends[1] - left - data.shape[2]
        around = ((0, 0), (top, max(below, 0)), (left, max(right, 0)), (0, 0))
        padded = np.pad(data, around)[:, : ends[0], : ends[1]]
        windows = np.lib.stride_tricks.sliding_window_view(padded, (alpha, alpha), axis=(1, 2))
        windows = windows[:, ::tile, ::tile]
        packed = np.einsum("nhwcrs,re,sf->efnhwc", windows, b, b, optimize=True)
        shape = packed.shape[2:5]
        product = packed.reshape(alpha, alpha, -1, packed.shape[5]) @ weight.swapaxes(2, 3)
        product = product.reshape(alpha, alpha, *shape, weight.shape[2])
        inverse = np.einsum("rsnhwo,rx,sy->nhxwyo", product, a, a, optimize=True)
        n, h, _, w, _, channels = inverse.shape
        joined = inverse.reshape(n, h * tile, w * tile, channels)
        return np.asarray(joined[:, :rows, :columns])

    def flop(self, *types: TensorType) -> float:
        """Return the operations of the convolution that it stands for."""
        data, weight, out = types
        op, filters = self._plain(data, weight)
        return op.flop(data, filters, out)
