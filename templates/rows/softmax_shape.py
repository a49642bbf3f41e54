"""The shape of a softmax over rows, its arguments and its numpy reference."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from autotune import arg
from autotune.errors import TemplateError
from autotune.kernel import Argument

from ..common import Array


@dataclass(frozen=True)
class Softmax:
    """Softmax of each of ``rows`` rows of ``columns`` elements."""

    rows: int
    columns: int

    def __post_init__(self) -> None:
        if min(self.rows, self.columns) < 1:
            raise TemplateError(f"softmax: extents must be at least 1, got {self}")
        if max(self.rows, self.columns) >= 2**31:
            raise TemplateError(f"softmax: kernels take extents below 2^31, got {self}")

    @property
    def flop(self) -> int:
        """Operations an element: maximum, subtraction, exponential, sum, and scaling."""
        return 5 * self.rows * self.columns

    @property
    def bytes(self) -> int:
        """Bytes of float32 that must move at least once: one read and one write."""
        return 8 * self.rows * self.columns

    def arguments(self) -> list[Argument]:
        """Return data and out."""
        shape = (self.rows, self.columns)
        return [arg("data", shape), arg("out", shape, role="out")]

    def reference(self) -> Callable[..., Array]:
        """Return numpy in, numpy out."""

        def softmax(data: Array) -> Array:
            powers = np.exp(data - data.max(axis=1, keepdims=True))
            quotients: Array = powers / powers.sum(axis=1, keepdims=True)
            return quotients

        return softmax
