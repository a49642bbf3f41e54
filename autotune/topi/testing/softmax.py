"""Softmax in numpy."""

from __future__ import annotations

import numpy as np

from autotune.topi.types import Array


def softmax_python(a_np: Array, axis: int = -1) -> Array:
    """Divide powers of e by their sum along an axis."""
    powers = np.exp(a_np - a_np.max(axis=axis, keepdims=True))
    return np.asarray(powers / powers.sum(axis=axis, keepdims=True))


def log_softmax_python(a_np: Array, axis: int = -1) -> Array:
    """Take the logarithm of softmax."""
    shifted = a_np - a_np.max(axis=axis, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(axis=axis, keepdims=True)))
