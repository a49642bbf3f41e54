"""Products of the same data by constant weights, as one product of concatenated weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from autotune.graph import ops
from autotune.graph.passes.composing import reshaped
from autotune.graph.value import Constant, Value, apply


@dataclass(frozen=True)
class Product:
    """``data * weight^T + bias``, the latter two known.

    Attributes:
        weight: [results, elements of a row of data].
        bias: a number for each result, in whatever shape; None where nothing is added.
    """

    weight: Constant
    bias: Constant | None

    def vector(self) -> Value:
        """Return the bias as a vector; zeros where nothing is added."""
        width = self.weight.shape[0]
        if self.bias is None:
            return Constant.of(np.zeros(width), dtype=self.weight.dtype)
        return reshaped(self.bias, (width,))


def joined(data: Value, products: Sequence[Product]) -> Value:
    """Return all products of the data, one behind the other in each row."""
    weights = [each.weight for each in products]
    weight = apply(ops.Concatenate(0), *weights)
    result = apply(ops.Dense(), data, weight)
    if all(each.bias is None for each in products):
        return result
    bias = apply(ops.Concatenate(0), *[each.vector() for each in products])
    return apply(ops.Add(), result, bias)
