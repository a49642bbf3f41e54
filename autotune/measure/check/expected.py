"""The expected results of a kernel: values in its own dtype, and the tolerance of each."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from autotune.measure.check.rounding import EPSILON
from autotune.measure.run.value_files import Array
from autotune.runtime.arrays.array import numpy_dtype

# Elements worked on at a time: the memory for so many is not asked of the system each time.
CHUNK = 1 << 14
# A bound is some six standard deviations of a long sum, and the most of a single rounding, whose
# root mean square is 0.58 of it.
SPREAD_OF_BOUNDS = 0.6
# How far the root mean square of n errors is from that of many, in parts of 1 / sqrt(n).
_UNCERTAIN = 2.0
# The part of an output's elements of which a comparison may say nothing, if it is verified.
MOST_UNTOLD = 0.1


@dataclass(frozen=True)
class Expected:
    """The values of one output.

    Attributes:
        values: in the dtype of the output.
        bounds: float32, how far each element may be off, infinite where nothing is known; None
            where every element must be the same.
        spread: what the root mean square of errors may be, relative to the bounds: honest errors
            do not all come near them.
        basis: what was taken for granted, for messages.
    """

    values: Array
    bounds: Array | None = None
    spread: float = SPREAD_OF_BOUNDS
    basis: str = ""

    def untold(self) -> int:
        """Return how many elements may all be off by as much as they are large, and as most are.

        Zeros would pass there, one by one and in the root mean square: a comparison says nothing
        of them. Such bounds are those of recurrences, whose errors may grow from step to step, and
        of numbers beyond a dtype.
        """
        if self.bounds is None:
            return 0
        values, bounds = np.ravel(self.values), np.ravel(self.bounds)
        squares, count, known = 0.0, 0, 0
        for part in chunks(values.size):
            finite = values[part].astype(np.float64)
            finite = finite[np.isfinite(finite)]
            with np.errstate(over="ignore"):
                squares += float(np.dot(finite, finite))
            count += finite.size
            known += int(np.count_nonzero(np.isfinite(bounds[part]) & np.greater(bounds[part], 0)))
        # Where all is 0, numbers as large as inputs are told from it.
        usual = math.sqrt(squares / count) if squares else 1.0
        limit = most_spread(self.spread, known)
        found = 0
        for part in chunks(values.size):
            sizes = np.abs(values[part].astype(np.float64))
            sizes[np.isnan(sizes)] = np.inf
            likely = bounds[part].astype(np.float64) * limit
            found += int(np.count_nonzero(likely >= np.maximum(sizes, usual)))
        return found


def most_spread(spread: float, count: int) -> float:
    """Return what the root mean square of ``count`` errors may be, relative to their bounds."""
    return min(1.0, spread * (1 + _UNCERTAIN / math.sqrt(count))) if count else 1.0


def expected(values: Array, errors: Array | None, dtype: str) -> Expected:
    """Round exact values to the dtype of an output, and add what that moves them to the errors.

    Args:
        values: in double precision, or integers of the output's own dtype.
        errors: how far a kernel may be from them; None for nowhere.
        dtype: of the output.
    """
    if dtype not in EPSILON:
        bounds = None if errors is None or not np.any(errors) else rounded_up(np.asarray(errors))
        return Expected(np.array(values, numpy_dtype(dtype), order="C"), bounds)
    flat, made = np.ravel(values), np.empty(values.size, numpy_dtype(dtype))
    bounds = np.empty(values.size, np.float32)
    for part in chunks(values.size):
        exact = flat[part].astype(np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            made[part] = exact
            moved = np.abs(made[part].astype(np.float64) - exact)
        moved[~np.isfinite(moved)] = 0.0
        error = 0.0 if errors is None else np.ravel(errors)[part]
        bounds[part] = rounded_up(moved + error)
    shaped = made.reshape(values.shape)
    if not bounds.any():
        return Expected(shaped)
    return Expected(shaped, bounds.reshape(values.shape))


def chunks(size: int) -> Iterator[slice]:
    """Return slices by which a number of elements is processed in parts."""
    return (slice(start, start + CHUNK) for start in range(0, size, CHUNK))


def rounded_up(errors: npt.NDArray[np.floating]) -> Array:
    """Return errors as float32, rounded up; NaN means unknown."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        near = errors.astype(np.float32)
        raised = np.nextafter(near, np.float32(np.inf), dtype=np.float32)
    return np.where(np.isnan(near), np.float32(np.inf), np.where(near < errors, raised, near))
