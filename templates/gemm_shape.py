"""The shape of a matrix multiplication, its arguments and its numpy reference."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from autotune.errors import TemplateError
from autotune.kernel import Argument, arg

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Gemm:
    """c[m, n] = a[m, k] b[k, n], row-major."""

    m: int
    n: int
    k: int

    def __post_init__(self) -> None:
        if min(self.m, self.n, self.k) < 1:
            raise TemplateError(f"gemm_nn: extents must be at least 1, got {self}")

    @property
    def flop(self) -> int:
        """Multiplications and additions."""
        return 2 * self.m * self.n * self.k

    @property
    def bytes(self) -> int:
        """Bytes of float32 that must move at least once."""
        return 4 * (self.m * self.k + self.k * self.n + self.m * self.n)

    def arguments(self) -> list[Argument]:
        """Return a, b and c."""
        return [
            arg("a", (self.m, self.k)),
            arg("b", (self.k, self.n)),
            arg("c", (self.m, self.n), role="out"),
        ]

    def reference(self) -> Callable[..., Array]:
        """Return numpy in, numpy out."""
        return lambda a, b: np.asarray(a @ b)
