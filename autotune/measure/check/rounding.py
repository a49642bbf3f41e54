"""Rounding errors of single operations: units, functions and sums, from which bounds are made.

A bound is computed with the reference, element by element, by running error analysis (Higham,
Accuracy and Stability of Numerical Algorithms, chapter 3): every value ``v`` carries a bound ``e``
on how far a kernel that rounds each operation may be from it. With ``u`` the unit roundoff of the
dtype an operation is done in:

- ``x + y``: ``e_x + e_y + u |z|``; ``x * y``: ``|x| e_y + |y| e_x + u |z|``; division alike.
- A function errs by the documented ulps of the device's library, and by what the error of its
  argument becomes: the function itself is evaluated at both ends of ``x +- e_x``.
- A choice whose condition the errors leave open may take either side.
- A sum of ``K`` terms may be added in any order. Its terms bring their errors; its roundings add
  at most ``(K - 1) u`` of the sum of sizes, and where they are independent about ``sqrt(K) u / 2``
  of the largest partial sum (Higham and Mary, A New Approach to Probabilistic Rounding Error
  Analysis, 2019); `SPREAD` times that leaves a chance below 1e-9 an element. Once ``K u`` is no
  longer small, terms fall below the spacing of the sum and roundings go one way: `drift`.

What overflows on the way is not bounded at all. In double precision the reference rounds as the
kernel does, so both sides' roundings count.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

# Distance from 1 to the next number.
EPSILON = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-23, "float64": 2.0**-52}
SHORT = ("float16", "bfloat16")
# What a result may lose where numbers become too small for a dtype: devices may flush to zero.
FLUSHED = {
    "float16": 2.0**-24, "bfloat16": 2.0**-126, "float32": 2.0**-126, "float64": 2.0**-1022,
}  # fmt: skip
# Largest finite number.
LARGEST = {
    "float16": 65504.0,
    "bfloat16": 3.3895313892515355e38,
    "float32": 3.4028234663852886e38,
    "float64": 1.7976931348623157e308,
}
# Six standard deviations of a sum of independent roundings, in units of sqrt(K) u times the
# largest partial sum and the root of the sum of squares, each of which explains a part of it.
SPREAD = 2.5
# Of K u, the part by which roundings of a long sum go one way whatever the dtype.
LEAST_DRIFT = 1 / 32
# The float32 accumulators of tensor cores truncate (Fasi, Higham, Mikaitis and Pranesh, Numerical
# Behavior of NVIDIA Tensor Cores, 2021): up to 0.12 K u when 8 products are added at a time.
TRUNCATING_DRIFT = 1 / 8

# However long a sum, zeros must not pass for it.
MOST_GROWTH = 0.4

# Largest error of a function in ulps: the larger of the CUDA C++ Programming Guide's tables for
# float and double and of glibc's manual. What we write as a formula counts its operations.
ULPS = {
    "exp": 2.0, "exp2": 2.0, "exp10": 4.0, "log": 2.0, "log2": 2.0, "log10": 3.0, "log1p": 2.0,
    "sqrt": 1.0, "rsqrt": 2.0, "tanh": 2.0, "sigmoid": 4.0, "sin": 2.0, "cos": 2.0, "tan": 4.0,
    "sinh": 3.0, "cosh": 2.0, "asin": 4.0, "acos": 3.0, "atan": 2.0,
    "asinh": 4.0, "acosh": 4.0, "atanh": 4.0, "erf": 2.0, "atan2": 3.0,
    "hypot": 3.0, "pow": 8.0, "exp2_flushed": 2.0,
}  # fmt: skip

# What cutting a float32 to the 11 bits of TF32 errs, in roundings to float32.
CUT_TO_TF32 = 2.0**14


def unit(dtype: str) -> float:
    """Return the most one rounding to ``dtype`` errs, relative, the reference's own included."""
    return EPSILON[dtype] / 2 + EPSILON["float64"] / 2


def drift(terms: int, dtype: str, least: float = LEAST_DRIFT) -> float:
    """Return which part of ``K u`` the roundings of a sum may go one way: from ``least`` to 1."""
    return min(1.0, max(least, (terms * EPSILON[dtype] / 2) ** 2))


def growth(terms: int, dtype: str, least: float = LEAST_DRIFT) -> float:
    """Return the error of a sum, relative to the size of its partial sums; see the module."""
    steps = SPREAD * math.sqrt(terms) + drift(terms, dtype, least) * terms
    return min(MOST_GROWTH, unit(dtype) * steps)


def growths(terms: int, dtype: str, least: float = LEAST_DRIFT) -> npt.NDArray[np.float64]:
    """Return `growth` of the sums of the first 1, 2, ... ``terms`` terms."""
    count = np.arange(1.0, terms + 1)
    share = np.minimum(1.0, np.maximum(least, (count * EPSILON[dtype] / 2) ** 2))
    steps = SPREAD * np.sqrt(count) + share * count
    return np.asarray(np.minimum(MOST_GROWTH, unit(dtype) * steps), np.float64)


def growth_of_sizes(terms: int, dtype: str) -> float:
    """Return the most that a sum can err in any order, relative to the sum of the sizes."""
    return unit(dtype) * max(0, terms - 1)
