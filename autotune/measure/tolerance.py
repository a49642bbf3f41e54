"""How far a computed result may be from its reference.

Both sides round, so they differ; what is allowed is what rounding explains, not more. With
``eps`` the distance from 1 to the next number of a dtype and ``K`` the terms of a sum:

- Storing a result errs by half an ``eps`` of the dtype it is stored in, on both sides; a few
  operations after the sum may be rounded to that dtype as well.
- Exponentials, divisions and fused operations err by some ``eps`` of the dtype that is worked in.
- A sum errs, relative to its terms, by at most ``K eps / 2`` whatever the order (Higham, Accuracy
  and Stability of Numerical Algorithms, section 4.2), and by about ``sqrt(K) eps`` where roundings
  are independent (Higham and Mary, A New Approach to Probabilistic Rounding Error Analysis, 2019).
  For terms of mixed signs, which random inputs give, the same holds relative to the size of the
  *sum*: partial sums grow like ``sqrt(k)``, their roundings add up to ``K eps / 6``, the sum to
  ``sqrt(K)``. Measured, one term after another: at most ``0.9 sqrt(K) eps`` at the worst of 4096
  elements and ``0.16 sqrt(K) eps`` in the root mean square; lanes and trees err less.
- Roundings that all go one way add up to a share of ``K eps``. The float32 accumulators of tensor
  cores truncate (Fasi, Higham, Mikaitis and Pranesh, Numerical Behavior of NVIDIA Tensor Cores,
  2021): ``0.06 K eps`` at the worst and ``0.03 K eps`` in the mean when 8 products are added at a
  time. Long sums in 16 bits swallow small terms, which shows only where signs do not cancel
  (Higham and Mary, Sharper Probabilistic Backward Error Analysis, 2020): that part is allowed in
  proportion to how far the results lie on one side of zero.

An honest error is spread over all elements, so there are two limits: on the worst element, which
finds a few elements that are entirely wrong, and a much smaller one on the root mean square, which
finds terms that are missing everywhere. Sums of 16-bit numbers are taken to be kept in float32, as
tensor cores keep them; a tensor expression says what it keeps, and `VerifyPolicy.sums` says it
for kernels written by hand.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from autotune.kernel.kernel import Argument

# Distance from 1 to the next number.
EPSILON = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-23, "float64": 2.0**-52}
_SHORT = ("float16", "bfloat16")
# How large n sums of random terms are is uncertain by some parts of 1 / sqrt(n): a single one may
# be much smaller than its terms make most sums.
_UNCERTAIN = 4.0
# Elements compared at a time: the memory for so many is not asked of the system each time.
_CHUNK = 1 << 12

Array = npt.NDArray[np.generic]


@dataclass(frozen=True)
class _Steps:
    """How many ``eps`` an error may be.

    Attributes:
        stored: of the dtype of the result.
        worked: of the dtype of the sums, whatever their length.
        root, line: of the same, for each sqrt(K) and each K.
        most: and never more than this, relative: zeros must not pass for a result.
    """

    stored: float
    worked: float
    root: float
    line: float
    most: float


_WORST = _Steps(stored=6.0, worked=16.0, root=2.0, line=1 / 16, most=0.9)
_MEAN = _Steps(stored=1.0, worked=4.0, root=0.25, line=1 / 32, most=0.25)


@dataclass(frozen=True)
class Limit:
    """A relative error that may pass.

    Attributes:
        stored: share that comes from storing the result.
        summed: share that comes from the sums.
        drift: what sums err in addition where all results have one sign.
        most: never more than this.
    """

    stored: float
    summed: float = 0.0
    drift: float = 0.0
    most: float = math.inf

    def of(self, extent: Extent) -> float:
        """Return the limit for values of this extent."""
        summed = self.summed + extent.bias * self.drift
        return min(self.most, self.stored + summed * (1 + _UNCERTAIN / math.sqrt(extent.count)))


@dataclass(frozen=True)
class Extent:
    """How large values are.

    Attributes:
        count: of those that are finite, at least 1.
        size: their root mean square.
        bias: which part of it, from 0 to 1, does not cancel.
    """

    count: int
    size: float
    bias: float


@dataclass(frozen=True)
class Tolerance:
    """``|got - expected| <= worst * max(|expected|, size) + atol``, element by element.

    ``size`` is the root mean square of the expected array: an element that is small because large
    terms cancelled carries the error of those terms. And the root mean square of the differences
    must be at most ``mean * size + atol``.

    Without ``mean`` only the elements count. ``sums`` is the dtype that sums were taken to be kept
    in, where the message shall say so.
    """

    worst: Limit
    mean: Limit | None = None
    atol: float = 0.0
    sums: str = ""


def tolerance(dtype: str, reduction: int, sums: str | None = None) -> Tolerance:
    """Return what to allow for sums of ``reduction`` terms; nothing for integers.

    Args:
        dtype: of the result.
        reduction: terms of the longest sum.
        sums: dtype in which the sums are kept; float32 by default for shorter results.
    """
    if dtype not in EPSILON:
        return Tolerance(Limit(0.0))
    kept = sums if sums in EPSILON else "float32" if dtype in _SHORT else dtype
    worst, mean = (_limit(steps, dtype, kept, reduction) for steps in (_WORST, _MEAN))
    return Tolerance(worst, mean, sums=kept if kept in _SHORT or dtype in _SHORT else "")


def _limit(steps: _Steps, dtype: str, sums: str, reduction: int) -> Limit:
    length = max(1, reduction)
    stored, unit = EPSILON[dtype] * steps.stored, EPSILON[sums]
    summed = unit * (steps.worked + steps.root * math.sqrt(length))
    line = unit * steps.line * length
    if sums in _SHORT:
        return Limit(stored, summed, line, steps.most)
    return Limit(stored, summed + line, 0.0, steps.most)


def reduction_length(flop: float | None, output: Argument, inputs: tuple[Argument, ...]) -> int:
    """Guess the terms that are summed into one element of an output.

    From the operations of the whole, of which no output needs more. Where nobody has counted
    them, as many as a product of the two largest inputs would sum to this shape - its inner
    extent - or as many elements of an input as there are for each element of the output.
    """
    elements = max(1, math.prod(output.shape))
    if flop:
        return max(1, round(flop / (2 * elements)))
    sizes = sorted((math.prod(a.shape) for a in inputs), reverse=True)
    product = math.sqrt(math.prod(sizes[:2]) / elements) if len(sizes) > 1 else 0.0
    return max(1, round(product), max(sizes, default=1) // elements)


def mismatch(name: str, got: Array, expected: Array, allowed: Tolerance) -> str | None:
    """Describe how ``got`` differs from ``expected``, or return None if it is close enough."""
    if got.shape != expected.shape:
        return f"{name}: shape {got.shape}, the reference has {expected.shape}"
    left, right = _plain(got), _plain(expected)
    extent = _extent(right)
    worst = allowed.worst.of(extent)
    found = _found(left, right, worst, worst * extent.size + allowed.atol, allowed.atol)
    basis = f" with sums in {allowed.sums}" if allowed.sums else ""
    if found.wrong:
        place = ", ".join(str(int(i)) for i in np.unravel_index(found.at, np.shape(got)))
        return (
            f"{name}: {found.wrong} of {left.size} elements differ from the reference, "
            f"worst at [{place}]: got {_shown(left[found.at])}, "
            f"expected {_shown(right[found.at])} (allowed: {worst:.2g} relative{basis})"
        )
    mean = allowed.mean.of(extent) if allowed.mean else math.inf
    if extent.size and found.root_mean_square > mean * extent.size + allowed.atol:
        return (
            f"{name}: differs from the reference by {found.root_mean_square / extent.size:.2g} of "
            f"its size in the root mean square, as if terms were missing (allowed: {mean:.2g}"
            f"{basis})"
        )
    return None


def _plain(values: Array) -> Array:
    """Return the values in one row; truth values as bytes, for a byte that is neither 0 nor 1."""
    row = np.ravel(values)
    return row.view(np.uint8) if row.dtype == np.bool_ else row


def _shown(value: np.generic) -> str:
    return str(value) if value.dtype.kind in "iu" else f"{float(value):.8g}"


def _chunks(size: int) -> Iterator[slice]:
    return (slice(start, start + _CHUNK) for start in range(0, size, _CHUNK))


def _extent(values: Array) -> Extent:
    squares = total = 0.0
    count = 0
    for chunk in _chunks(values.size):
        part = values[chunk].astype(np.float64)
        part = part[np.isfinite(part)]
        squares += float(np.dot(part, part))
        total += float(part.sum())
        count += part.size
    size = math.sqrt(squares / count) if count else 0.0
    if not 0 < size < math.inf:
        return Extent(1, 0.0, 0.0)
    return Extent(count, size, min(1.0, abs(total) / count / size))


@dataclass(frozen=True)
class _Found:
    """How many elements are wrong, the place of the worst, and the spread of the error."""

    wrong: int
    at: int
    root_mean_square: float


def _found(left: Array, right: Array, relative: float, least: float, atol: float) -> _Found:
    wrong = at = count = 0
    largest, squares = -1.0, 0.0
    for chunk in _chunks(left.size):
        expected = right[chunk].astype(np.float64)
        error = _error(left[chunk], right[chunk], expected)
        finite = np.isfinite(expected)
        bound = np.maximum(np.abs(expected) * relative + atol, least)
        beyond = np.where(finite, error > bound, error > 0)
        if beyond.any():
            here = int(np.argmax(np.where(beyond, error, -1.0)))
            if error[here] > largest:
                largest, at = float(error[here]), chunk.start + here
            wrong += int(np.count_nonzero(beyond))
        counted = error[finite]
        squares += float(np.dot(counted, counted))
        count += counted.size
    return _Found(wrong, at, math.sqrt(squares / count) if count else 0.0)


def _error(
    left: Array, right: Array, expected: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """Return how far values are apart; infinitely where only one of them is a number.

    ``expected`` is ``right`` in double precision, in which neighbours among large integers are
    the same number: those are told apart as they are.
    """
    got = left.astype(np.float64)
    with np.errstate(all="ignore"):
        error = np.abs(got - expected)
    if left.dtype.kind in "iu" and right.dtype.kind in "iu":
        return np.where(left != right, np.maximum(error, 1.0), 0.0)
    odd = ~np.isfinite(error)
    if odd.any():
        same = (got == expected) | (np.isnan(got) & np.isnan(expected))
        error[odd] = np.where(same[odd], 0.0, np.inf)
    return error
