"""The shape of a matrix multiplication, its arguments and its numpy reference."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from autotune import arg
from autotune.errors import TemplateError
from autotune.kernel import Argument

from .common import Array


@dataclass(frozen=True)
class Gemm:
    """c[m, n] = a[m, k] b[k, n], row-major."""

    m: int
    n: int
    k: int
    dtype: str = "float32"

    def __post_init__(self) -> None:
        if min(self.m, self.n, self.k) < 1:
            raise TemplateError(f"gemm_nn: extents must be at least 1, got {self}")

    @property
    def flop(self) -> int:
        """Multiplications and additions."""
        return 2 * self.m * self.n * self.k

    @property
    def bytes(self) -> int:
        """Bytes that must move at least once."""
        return sum(a.bytes for a in self.arguments())

    def arguments(self) -> list[Argument]:
        """Return a, b and c."""
        return [
            arg("a", (self.m, self.k), self.dtype),
            arg("b", (self.k, self.n), self.dtype),
            arg("c", (self.m, self.n), self.dtype, role="out"),
        ]

    def reference(self) -> Callable[..., Array]:
        """Return numpy in, numpy out; 16-bit floats are summed in float32."""
        if self.dtype == "float32":
            return lambda a, b: a @ b
        return lambda a, b: (a.astype(np.float32) @ b.astype(np.float32)).astype(a.dtype)
