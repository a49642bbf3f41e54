"""Compares what a kernel wrote with what was expected, and says how they differ."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from autotune.measure.check.expected import Expected, chunks, most_spread
from autotune.measure.run.value_files import Array
from autotune.runtime.arrays.buffers import POISONS

Doubles = npt.NDArray[np.float64]


def mismatch(name: str, got: Array, expected: Expected, fresh: bool = False) -> str | None:
    """Describe how ``got`` differs from what was expected, or return None if it does not.

    Args:
        name: of the argument.
        got: what a kernel wrote.
        expected: what it should have written.
        fresh: whether the memory held poison before, which is NaN as floats, and no values.
    """
    if got.shape != expected.values.shape:
        return f"{name}: shape {got.shape}, the reference has {expected.values.shape}"
    found = _find(got, expected)
    basis = f" {expected.basis}" if expected.basis else ""
    if found.wrong:
        place = ", ".join(str(int(i)) for i in np.unravel_index(found.at, got.shape))
        left, right = _plain(got), _plain(expected.values)
        bound = 0.0 if expected.bounds is None else float(np.ravel(expected.bounds)[found.at])
        guess = _unwritten(left, right) or (_added_to(left, right) if fresh else "")
        return (
            f"{name}: {found.wrong} of {got.size} elements differ from the reference{guess}, "
            f"worst at [{place}]: got {_shown(left[found.at])}, "
            f"expected {_shown(right[found.at])} (allowed: {bound:.2g}{basis})"
        )
    limit = most_spread(expected.spread, found.counted)
    if found.root_mean_square > limit:
        return (
            f"{name}: differs from the reference by {found.root_mean_square:.2g} of what is "
            "allowed for an element in the root mean square, as if terms were missing (allowed: "
            f"{limit:.2g}{basis})"
        )
    return None


@dataclass(frozen=True)
class _Found:
    """The number of wrong elements, the position of the worst, and the spread of the error.

    ``counted`` are the elements that have a bound, over which the root mean square goes.
    """

    wrong: int
    at: int
    counted: int
    root_mean_square: float


def _find(got: Array, expected: Expected) -> _Found:
    left, right = _plain(got), _plain(expected.values)
    bounds = None if expected.bounds is None else np.ravel(expected.bounds)
    wrong = at = counted = 0
    largest, squares = -1.0, 0.0
    for part in chunks(left.size):
        error = _error(left[part], right[part])
        bound = 0.0 if bounds is None else bounds[part].astype(np.float64)
        beyond = error > bound
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            ratio = error / np.maximum(bound, 1e-300)
        if beyond.any():
            here = int(np.argmax(np.where(beyond, ratio, -1.0)))
            if ratio[here] > largest:
                largest, at = float(ratio[here]), part.start + here
            wrong += int(np.count_nonzero(beyond))
        usual = np.isfinite(ratio) & (bound > 0) & np.isfinite(bound)
        squares += float(np.sum(np.square(ratio[usual])))
        counted += int(np.count_nonzero(usual))
    return _Found(wrong, at, counted, math.sqrt(squares / counted) if counted else 0.0)


def _plain(values: Array) -> Array:
    """Return the values in one row; truth values as bytes, for a byte that is neither 0 nor 1."""
    row = np.ravel(values)
    return row.view(np.uint8) if row.dtype == np.bool_ else row


def _unwritten(got: Array, wanted: Array) -> str:
    """Say how many elements still hold what was there before the kernel ran, if any do.

    Bytes alone are no sign: as numbers, those of the poison are common.
    """
    if got.itemsize < 2:
        return ""
    raw, right = (each.view(np.uint8).reshape(each.size, -1) for each in (got, wanted))
    count = max(
        int(np.count_nonzero((raw == byte).all(axis=1) & (right != byte).any(axis=1)))
        for byte in POISONS
    )
    if not count:
        return ""
    return f" ({count} are not written: does the grid reach them? is its role 'inout'?)"


def _added_to(got: Array, wanted: Array) -> str:
    """Say how many floats are NaN, as sums that begin with poison are, and should be numbers."""
    if got.dtype.kind in "iub":
        return ""
    left, right = got.astype(np.float32), wanted.astype(np.float32)
    count = int(np.count_nonzero(np.isnan(left) & ~np.isnan(right)))
    if not count:
        return ""
    return f" ({count} are NaN: does it add to what it finds there? then its role is 'inout')"


def _shown(value: np.generic) -> str:
    return str(value) if value.dtype.kind in "iu" else f"{float(value):.8g}"


def _error(left: Array, right: Array) -> Doubles:
    """Return the distances between values; infinity if only one of the two is NaN.

    Neighbouring large integers may be equal in double precision, so integers are compared exactly.
    """
    got, wanted = left.astype(np.float64), right.astype(np.float64)
    with np.errstate(all="ignore"):
        error = np.abs(got - wanted)
    if left.dtype.kind in "iu" and right.dtype.kind in "iu":
        return np.where(left != right, np.maximum(error, 1.0), 0.0)
    odd = ~np.isfinite(error)
    if odd.any():
        same = (got == wanted) | (np.isnan(got) & np.isnan(wanted))
        error[odd] = np.where(same[odd], 0.0, np.inf)
    return error
