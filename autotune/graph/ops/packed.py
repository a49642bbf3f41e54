"""Weights of linear layers in the order in which a CPU's kernels read them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from autotune.graph.operator import Operator
from autotune.graph.types import Array, TensorType
from autotune.te.tensor import Tensor


@dataclass(frozen=True)
class PackedWeight(Operator):
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

    @property
    def has_compute(self) -> bool:
        """Weights are packed ahead, in numpy."""
        return False

    def compute(self, *inputs: Tensor) -> Tensor:
        """Refuse: weights are packed ahead."""
        self.refuse("weight", "known before the network runs", inputs[0])

    def reference(self, *inputs: Array) -> Array:
        """Pack."""
        (weight,) = inputs
        padded = np.pad(weight, ((0, -len(weight) % self.outputs), (0, 0)))
        blocks = padded.reshape(-1, self.outputs, weight.shape[1])
        return np.ascontiguousarray(blocks.transpose(0, 2, 1))
