"""Tolerances for results whose reference is known by its values alone.

Where a reference tells how it computes, its error is bounded element by element, see
`autotune.measure.check.rounding`. A function that cannot be followed gives values only; then what
is allowed comes from the number of terms that are summed, relative to the size of all results.
With ``eps`` the distance from 1 to the next number of a dtype and ``K`` the terms of a sum:

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
  cores truncate: ``0.06 K eps`` at the worst and ``0.03 K eps`` in the mean when 8 products are
  added at a time. Long sums in 16 bits swallow small terms, which shows only where signs do not
  cancel (Higham and Mary, Sharper Probabilistic Backward Error Analysis, 2020): that part is
  allowed in proportion to how far the results are on one side of zero.

An honest error is spread over all elements, so there are two limits: on the worst element, which
finds a few elements that are entirely wrong, and a much smaller one on the root mean square, which
finds terms that are missing everywhere. Sums of 16-bit numbers are taken to be kept in float32, as
tensor cores keep them; `VerifyPolicy.sums` says otherwise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from autotune.kernel.kernel import Argument
from autotune.measure.check.expected import Expected, chunks, rounded_up
from autotune.measure.check.rounding import EPSILON, SHORT
from autotune.measure.run.value_files import Array

# How large n sums of random terms are is uncertain by some parts of 1 / sqrt(n): a single one may
# be much smaller than its terms make most sums.
_UNCERTAIN = 4.0


@dataclass(frozen=True)
class _Steps:
    """The number of ``eps`` that an error may be.

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
    """The magnitude of values.

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

    Without ``mean`` only the elements count. ``sums`` is the assumed dtype of sums, if a message
    should mention it.
    """

    worst: Limit
    mean: Limit | None = None
    atol: float = 0.0
    sums: str = ""

    def expected(self, values: Array) -> Expected:
        """Return values with a bound for each; see `Expected`."""
        extent = _extent(values)
        worst = self.worst.of(extent)
        if not (worst or self.atol):
            return Expected(values)
        flat, bounds = np.ravel(values), np.empty(values.size, np.float32)
        for part in chunks(values.size):
            sizes = np.abs(flat[part].astype(np.float64))
            sizes[~np.isfinite(sizes)] = 0.0
            bounds[part] = rounded_up(np.maximum(sizes, extent.size) * worst + self.atol)
        spread = self.mean.of(extent) / worst if self.mean and worst and extent.size else 1.0
        basis = f"with sums in {self.sums}" if self.sums else ""
        return Expected(values, bounds.reshape(values.shape), min(1.0, spread), basis)


def tolerance(dtype: str, reduction: int, sums: str | None = None) -> Tolerance:
    """Return what to allow for sums of ``reduction`` terms; nothing for integers.

    Args:
        dtype: of the result.
        reduction: terms of the longest sum.
        sums: dtype in which the sums are kept; float32 by default for shorter results.
    """
    if dtype not in EPSILON:
        return Tolerance(Limit(0.0))
    kept = sums if sums in EPSILON else "float32" if dtype in SHORT else dtype
    worst, mean = (_limit(steps, dtype, kept, reduction) for steps in (_WORST, _MEAN))
    return Tolerance(worst, mean, sums=kept if kept in SHORT or dtype in SHORT else "")


def _limit(steps: _Steps, dtype: str, sums: str, reduction: int) -> Limit:
    length = max(1, reduction)
    stored, unit = EPSILON[dtype] * steps.stored, EPSILON[sums]
    summed = unit * (steps.worked + steps.root * math.sqrt(length))
    line = unit * steps.line * length
    if sums in SHORT:
        return Limit(stored, summed, line, steps.most)
    return Limit(stored, summed + line, 0.0, steps.most)


def reduction_length(flop: float | None, output: Argument, inputs: tuple[Argument, ...]) -> int:
    """Estimate the number of terms that are summed into one element of an output.

    The estimate follows from the flops of the workload. If these are unknown, it is the inner
    extent of a matrix product of the two largest inputs with a result of this shape, or the number
    of input elements per element of the output.
    """
    elements = max(1, math.prod(output.shape))
    if flop:
        return max(1, round(flop / (2 * elements)))
    sizes = sorted((math.prod(a.shape) for a in inputs), reverse=True)
    product = math.sqrt(math.prod(sizes[:2]) / elements) if len(sizes) > 1 else 0.0
    return max(1, round(product), max(sizes, default=1) // elements)


def _extent(values: Array) -> Extent:
    squares = total = 0.0
    count = 0
    flat = np.ravel(values)
    for chunk in chunks(values.size):
        part = flat[chunk].astype(np.float64)
        part = part[np.isfinite(part)]
        squares += float(np.dot(part, part))
        total += float(part.sum())
        count += part.size
    size = math.sqrt(squares / count) if count else 0.0
    if not 0 < size < math.inf:
        return Extent(1, 0.0, 0.0)
    return Extent(count, size, min(1.0, abs(total) / count / size))
