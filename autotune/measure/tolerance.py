"""How far a computed result may be from its reference."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from autotune.kernel.kernel import Argument

# Distance from 1 to the next number.
_EPSILON = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-23, "float64": 2.0**-52}
# A sum of K rounded terms errs by about eps * sqrt(K) times its size when errors are random. The
# largest of many elements lies a few deviations out, and both sides err; the constant part is for
# exponentials, divisions and fused operations.
_STEPS = 16.0
_STEPS_PER_ROOT = 4.0

Array = npt.NDArray[np.generic]


@dataclass(frozen=True)
class Tolerance:
    """``|got - expected| <= rtol * max(|expected|, size) + atol``, element by element.

    ``size`` is the root mean square of the expected array: an element that is small because large
    terms cancelled carries the error of those terms.
    """

    rtol: float
    atol: float = 0.0


def tolerance(dtype: str, reduction: int) -> Tolerance:
    """Return what to allow for sums of ``reduction`` terms in ``dtype``; nothing for integers."""
    epsilon = _EPSILON.get(dtype)
    if epsilon is None:
        return Tolerance(0.0)
    return Tolerance(epsilon * (_STEPS + _STEPS_PER_ROOT * math.sqrt(max(1, reduction))))


def reduction_length(flop: float | None, outputs: tuple[Argument, ...]) -> int:
    """Guess the terms summed into one output element from the operations of the whole."""
    elements = sum(math.prod(a.shape) for a in outputs)
    return max(1, round((flop or 0) / (2 * max(1, elements))))


def mismatch(name: str, got: Array, expected: Array, allowed: Tolerance) -> str | None:
    """Describe how ``got`` differs from ``expected``, or return None if it is close enough."""
    if got.shape != expected.shape:
        return f"{name}: shape {got.shape}, the reference has {expected.shape}"
    left, right = (np.atleast_1d(a).astype(np.float64) for a in (got, expected))
    with np.errstate(all="ignore"):
        size = float(np.sqrt(np.mean(np.square(right), where=np.isfinite(right))))
        size = size if math.isfinite(size) else 0.0
        bound = allowed.rtol * np.maximum(np.abs(right), size) + allowed.atol
        bound[~np.isfinite(right)] = -1.0
        error = np.abs(left - right)
        wrong = ~(error <= bound)
    wrong &= ~((left == right) | (np.isnan(left) & np.isnan(right)))
    count = int(wrong.sum())
    if not count:
        return None
    error[~wrong] = -1.0
    error[np.isnan(error)] = np.inf
    at = np.unravel_index(int(np.argmax(error)), error.shape)
    place = ", ".join(str(int(i)) for i in at)
    return (
        f"{name}: {count} of {left.size} elements differ from the reference, worst at [{place}]: "
        f"got {left[at]:.8g}, expected {right[at]:.8g} (allowed: {allowed.rtol:.2g} relative)"
    )
