"""Comparisons for scripts that check what they built."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from autotune.migration import resolver


def assert_allclose(actual: Any, desired: Any, rtol: float = 1e-7, atol: float = 1e-7) -> None:
    """Raise AssertionError unless two arrays agree in shape and in value.

    Args:
        actual: numpy array, `NDArray`, or anything numpy can read.
        desired: the same, what it should be.
        rtol: relative tolerance.
        atol: absolute tolerance.
    """
    left, right = (
        np.asanyarray(a.numpy() if hasattr(a, "numpy") else a) for a in (actual, desired)
    )
    if left.shape != right.shape:
        raise AssertionError(f"shapes differ: {left.shape} and {right.shape}")
    np.testing.assert_allclose(left, right, rtol=rtol, atol=atol, verbose=True)


if not TYPE_CHECKING:
    __getattr__ = resolver(__name__)
