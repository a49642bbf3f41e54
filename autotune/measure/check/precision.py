"""The precision in which a kernel computes, and how much of its reference was followed."""

from __future__ import annotations

import numpy as np


class NotTracked(TypeError):
    """An operation whose error is not known here."""


class Work:
    """The precision in which a kernel computes, and how much of its reference was followed.

    Args:
        sums: dtype in which sums are kept; by default that of their terms, or float32 where it is
            shorter.
        widest: dtype beyond which the kernel does not go, whatever a reference does to be exact.
        operations: that are followed before it is given up: a loop in Python over elements takes
            many times as long with arrays that carry bounds.
    """

    def __init__(
        self, sums: str | None = None, widest: str = "float64", operations: int = 20_000
    ) -> None:
        self.sums = sums
        self._widest = np.dtype(widest)
        self._left = operations

    def count(self) -> None:
        """Count an operation."""
        self._left -= 1
        if self._left < 0:
            raise NotTracked("that many operations")

    def narrowed(self, dtype: np.dtype[np.generic]) -> np.dtype[np.generic]:
        """Return the dtype that the kernel has where its reference has this one."""
        return self._widest if dtype == np.float64 else dtype
