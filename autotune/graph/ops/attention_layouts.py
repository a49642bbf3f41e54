"""Attention of heads in the layouts that products of matrices write: after the rows, or packed."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from autotune import topi
from autotune.graph.ops.attention import Attention
from autotune.graph.types import Array, TensorType
from autotune.te.tensor import Tensor

_HEADS_FIRST = (0, 2, 1, 3)


@dataclass(frozen=True)
class RowsFirstAttention(Attention):
    """Attention of q (batch, queries, heads, size), k and v (batch, keys, kv_heads, size).

    The result is as q. A bias is as that of `Attention`.
    """

    name: ClassVar[str] = "nn.rows_first_attention"

    def infer(self, *inputs: TensorType) -> TensorType:
        """Return the type of q."""
        return _swapped(super().infer(*map(_swapped, inputs[:3]), *inputs[3:]))

    def compute(self, *inputs: Tensor) -> Tensor:
        """Turn inputs and result around."""
        heads_first = [topi.transpose(each, _HEADS_FIRST) for each in inputs[:3]]
        heads_first.extend(inputs[3:])
        result: Tensor = topi.transpose(super().compute(*heads_first), _HEADS_FIRST)
        return result

    def reference(self, *inputs: Array) -> Array:
        """Turn inputs and result around."""
        swapped = [x.swapaxes(1, 2) for x in inputs[:3]]
        heads_first = super().reference(*swapped, *inputs[3:])
        return np.asarray(heads_first.swapaxes(1, 2))

    def flop(self, *types: TensorType) -> float:
        """Return two operations for each product, of both multiplications, with keys seen."""
        return super().flop(*map(_swapped, types))


@dataclass(frozen=True)
class PackedAttention(Attention):
    """Attention of one array (batch, rows, heads + 2 * kv_heads, size), as one product leaves it.

    In its rows the heads of q are followed by those of k and of v. The result is (batch, rows,
    heads, size). A bias is as that of `Attention`.

    Attributes:
        kv_heads: of k and v; 0 for as many as q has, a third of all.
    """

    name: ClassVar[str] = "nn.packed_attention"
    kv_heads: int = 0

    def infer(self, *inputs: TensorType) -> TensorType:
        """Return the type with the heads of q only."""
        self.take(inputs, 1, 2)
        data, *biases = inputs
        if data.ndim != 4:
            self.refuse("data", "(batch, rows, heads + 2 * kv_heads, size)", data)
        batch, rows, every, size = data.shape
        kv_heads: object = self.kv_heads
        whole = isinstance(kv_heads, int) and not isinstance(kv_heads, bool) and kv_heads >= 0
        if not whole or self._heads(every) < 1:
            self.refuse(
                "kv_heads", f"a whole number from 0 on, less than half of {every}", kv_heads
            )
        if not self.kv_heads and every % 3:
            self.refuse("data", "of three heads, or a multiple, where kv_heads is 0", data)
        parts = [TensorType((batch, n, rows, size), data.dtype) for n in self._sizes(data.shape)]
        return _swapped(super().infer(*parts, *biases))

    def compute(self, *inputs: Tensor) -> Tensor:
        """Take heads apart, and turn them and the result around."""
        data, *biases = inputs
        shape = TensorType.of(data).shape
        parts = [topi.strided_slice(data, begin, end) for begin, end in self.parts(shape)]
        heads_first = [topi.transpose(each, _HEADS_FIRST) for each in parts]
        result: Tensor = topi.transpose(super().compute(*heads_first, *biases), _HEADS_FIRST)
        return result

    def reference(self, *inputs: Array) -> Array:
        """Take heads apart, and turn them and the result around."""
        parts = [inputs[0][:, :, a[2] : b[2]] for a, b in self.parts(inputs[0].shape)]
        heads_first = super().reference(*[x.swapaxes(1, 2) for x in parts], *inputs[1:])
        return np.asarray(heads_first.swapaxes(1, 2))

    def flop(self, *types: TensorType) -> float:
        """Return two operations for each product, of both multiplications, with keys seen."""
        batch, rows, _, size = types[0].shape
        q, k, _ = [
            TensorType((batch, n, rows, size), types[0].dtype) for n in self._sizes(types[0].shape)
        ]
        return super().flop(q, k)

    def parts(self, shape: tuple[int, ...]) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
        """Return where q, k and v begin and end in an array of a shape."""
        bounds = [0, *itertools.accumulate(self._sizes(shape))]
        return [((0, 0, a, 0), (*shape[:2], b, shape[3])) for a, b in itertools.pairwise(bounds)]

    def _heads(self, every: int) -> int:
        return every - 2 * (self.kv_heads or every // 3)

    def _sizes(self, shape: Sequence[int]) -> tuple[int, int, int]:
        """Return how many heads q, k and v have in an array of a shape."""
        kv_heads = self.kv_heads or shape[2] // 3
        return self._heads(shape[2]), kv_heads, kv_heads


def _swapped(kind: TensorType) -> TensorType:
    """Return a type with its second and third dimension exchanged."""
    if kind.ndim != 4:
        return kind
    batch, first, second, size = kind.shape
    return TensorType((batch, second, first, size), kind.dtype)
