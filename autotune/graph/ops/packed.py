"""Weights of linear layers and filters in the order in which a CPU's kernels read them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from autotune.graph.operator import Operator
from autotune.graph.types import Array, TensorType
from autotune.te.tensor import Tensor


@dataclass(frozen=True)
class OfKnownWeights(Operator):
    """An operator on weights, which is computed ahead in numpy, before a network runs."""

    @property
    def has_compute(self) -> bool:
        """No kernel computes it."""
        return False

    def compute(self, *inputs: Tensor) -> Tensor:
        """Refuse: weights have to be known."""
        self.refuse("weight", "known before the network runs", inputs[0])


@dataclass(frozen=True)
class PackedWeight(OfKnownWeights):
    """Lay weights (out, in) out as [blocks of outputs, in, outputs of a block], padded with zeros.

    Attributes:
        outputs: of a block.
    """

    name: ClassVar[str] = "nn.packed_weight"
    outputs: int = 16

    def infer(self, *inputs: TensorType) -> TensorType:
        """Return the type of the blocks."""
        self.take(inputs, 1)
        if inputs[0].ndim != 2 or self.outputs < 1:
            self.refuse("weight", "(out, in), and outputs at least 1", inputs[0])
        width, depth = inputs[0].shape
        return TensorType((-(-width // self.outputs), depth, self.outputs), inputs[0].dtype)

    def reference(self, *inputs: Array) -> Array:
        """Pack."""
        (weight,) = inputs
        padded = np.pad(weight, ((0, -len(weight) % self.outputs), (0, 0)))
        blocks = padded.reshape(-1, self.outputs, weight.shape[1])
        return np.ascontiguousarray(blocks.transpose(0, 2, 1))


@dataclass(frozen=True)
class PackedFilters(OfKnownWeights):
    """Lay filters OIHW of 8-bit integers out as blocks of 16, four terms of a sum in a word.

    The result is [blocks, parts, taps, 16, words, 4], padded with zeros: a word has four channels
    of an element of a filter. With ``by_columns`` it has four neighbours of a row instead, of
    which rows, channels and quarters of the rows are in order, and there is one tap.

    Attributes:
        groups: of filters, which blocks do not share.
        words: of a part.
        by_columns: whether words have neighbours of a row.
    """

    name: ClassVar[str] = "nn.packed_filters"
    groups: int = 1
    words: int = 16
    by_columns: bool = False

    @property
    def block(self) -> int:
        """Filters of a block."""
        return 16

    def infer(self, *inputs: TensorType) -> TensorType:
        """Return the type of the blocks."""
        self.take(inputs, 1)
        (weight,) = inputs
        if weight.ndim != 4 or self.groups < 1 or weight.shape[0] % self.groups or self.words < 1:
            self.refuse("weight", "OIHW in groups, and words at least 1", weight)
        filters, channels, kh, kw = weight.shape
        blocks = self.groups * -(-filters // self.groups // self.block)
        taps = 1 if self.by_columns else kh * kw
        words = kh * channels * -(-kw // 4) if self.by_columns else -(-channels // 4)
        parts = -(-words // self.words)
        return TensorType((blocks, parts, taps, self.block, self.words, 4), weight.dtype)

    def reference(self, *inputs: Array) -> Array:
        """Pack."""
        (weight,) = inputs
        blocks, parts, taps, *_ = self.infer(TensorType(weight.shape, "int8")).shape
        filters, channels, _, kw = weight.shape
        if self.by_columns:
            whole = np.pad(weight, ((0, 0), (0, 0), (0, 0), (0, -kw % 4)))
            rows = whole.transpose(0, 2, 1, 3).reshape(filters, 1, -1)
        else:
            rows = weight.reshape(filters, channels, taps).transpose(0, 2, 1)
        rows = np.pad(rows, ((0, 0), (0, 0), (0, 4 * parts * self.words - rows.shape[2])))
        each = filters // self.groups
        rows = rows.reshape(self.groups, each, taps, parts, self.words, 4)
        rows = np.pad(rows, ((0, 0), (0, -each % self.block), *((0, 0),) * 4))
        rows = rows.reshape(blocks, self.block, taps, parts, self.words, 4)
        return np.ascontiguousarray(rows.transpose(0, 3, 2, 1, 4, 5))
