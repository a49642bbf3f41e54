"""Dense layers and products of batches of matrices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from autotune import topi
from autotune.graph.operator import Operator, Pattern
from autotune.graph.ops.sums import rounded, sums_of
from autotune.graph.types import Array, TensorType
from autotune.te.tensor import Tensor


@dataclass(frozen=True)
class Dense(Operator):
    """Multiply data [batch, in] by the transpose of weight [out, in]."""

    name: ClassVar[str] = "nn.dense"
    pattern: ClassVar[Pattern] = Pattern.OUT_ELEMWISE_FUSABLE

    def infer(self, *inputs: TensorType) -> TensorType:
        """Return [batch, out]."""
        self.take(inputs, 2)
        data, weight = inputs
        fits = data.ndim == weight.ndim == 2 and data.shape[1] == weight.shape[1]
        if not fits or data.dtype != weight.dtype:
            self.refuse("weight", f"[out, in] for data {data}", weight)
        return TensorType((data.shape[0], weight.shape[0]), data.dtype)

    def compute(self, *inputs: Tensor) -> Tensor:
        """Multiply."""
        data, weight = inputs
        total = topi.nn.dense(data, weight, out_dtype=sums_of(data.dtype))
        return rounded(total, data.dtype)

    def reference(self, *inputs: Array) -> Array:
        """Multiply."""
        return np.asarray(inputs[0] @ inputs[1].T)

    def flop(self, *types: TensorType) -> float:
        """Return two operations for each product."""
        return 2.0 * types[-1].size * types[0].shape[-1]


@dataclass(frozen=True)
class BatchMatmul(Operator):
    """Multiply batches of matrices, [batch, m, k] by [batch, n, k] if ``transpose_b``."""

    name: ClassVar[str] = "nn.batch_matmul"
    pattern: ClassVar[Pattern] = Pattern.OUT_ELEMWISE_FUSABLE
    transpose_a: bool = False
    transpose_b: bool = True

    def infer(self, *inputs: TensorType) -> TensorType:
        """Return [batch, m, n]."""
        self.take(inputs, 2)
        a, b = inputs
        if a.ndim != 3 or b.ndim != 3 or a.dtype != b.dtype:
            self.refuse("tensor_b", f"of 3 dimensions, as tensor_a {a}", b)
        ka, m = (a.shape[1:] if self.transpose_a else a.shape[:0:-1])[:2]
        n, kb = b.shape[1:] if self.transpose_b else b.shape[:0:-1]
        if ka != kb or (a.shape[0] != b.shape[0] and 1 not in (a.shape[0], b.shape[0])):
            self.refuse("tensor_b", f"of the batch and reduced extent of {a}", b)
        return TensorType((max(a.shape[0], b.shape[0]), m, n), a.dtype)

    def compute(self, *inputs: Tensor) -> Tensor:
        """Multiply."""
        a, b = inputs
        total = topi.batch_matmul(a, b, None, sums_of(a.dtype), self.transpose_a, self.transpose_b)
        return rounded(total, a.dtype)

    def reference(self, *inputs: Array) -> Array:
        """Multiply."""
        a, b = inputs
        a = a.swapaxes(1, 2) if self.transpose_a else a
        return np.asarray(a @ (b.swapaxes(1, 2) if self.transpose_b else b))

    def flop(self, *types: TensorType) -> float:
        """Return two operations for each product."""
        a, _, out = types
        return 2.0 * out.size * a.shape[1 if self.transpose_a else 2]
