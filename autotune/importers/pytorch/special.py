"""Special functions of torch as arithmetic of torch, in float32; not for float64."""

from __future__ import annotations

import math
from typing import Any

from autotune.utils.lazy_torch import torch

# Coefficients of 1, t, ... in the exponent of erfc; where erfc is 0 in float32.
_ERFC = (
    -1.26551223, 1.00002368, 0.37409196, 0.09678418, -0.18628806, 0.27886807, -1.13520398,
    1.48851587, -0.82215223, 0.17087277,
)  # fmt: skip
_NO_TAIL = 16
# Coefficients of w, w^2, ... in the logarithm of gamma(2 + w): 1 less Euler's constant, and
# (-1)^k (zeta(k) - 1) / k.
_LOG_GAMMA = (
    0.42278433509846714, 0.32246703342411322, -0.067352301053198095, 0.020580808427784548,
    -0.0073855510286739853, 0.0028905103307415232, -0.0011927539117032609, 0.00050966952474304242,
    -0.00022315475845357938, 9.9457512781808534e-05, -4.492623478266165e-05,
    2.0507212775670691e-05, -9.4394882752683959e-06,
)  # fmt: skip
# From here on Stirling's series has all digits; steps from there to 2.5.
_FAR, _STEPS = 7.5, 5
# Steps by which the digamma function is moved to where its series has all digits.
_MOVED = 8


def erfc(x: Any) -> Any:
    """Return 1 - erf(x); where that has few digits left, by a fit in t = 1 / (1 + |x| / 2).

    W. H. Press and others, Numerical Recipes in C, 1992, section 6.2: within 1.2e-7 of the result.
    """
    pytorch = torch()
    if x.dtype is pytorch.float64:
        return NotImplemented
    size = x.clamp(0, _NO_TAIL)
    t = 1 / (1 + size / 2)
    fit = pytorch.zeros_like(t)
    for each in reversed(_ERFC):
        fit = fit * t + each
    # The square is the exact one of few bits, and a small rest.
    short = (size * 16).round() / 16
    rest = (size - short) * (size + short)
    tail = t * (fit - rest).exp() * (-short * short).exp()
    return pytorch.where(x > 0.5, tail, 1 - pytorch.erf(x))


def lgamma(x: Any) -> Any:
    """Return the logarithm of the size of the gamma function.

    M. Abramowitz and I. Stegun, Handbook of Mathematical Functions, 1964: near 2 by the series
    6.1.33, from there to 7.5 by the recurrence, beyond by Stirling's series; below 0 reflected.
    """
    pytorch = torch()
    if x.dtype is pytorch.float64:
        return NotImplemented
    below = x < 0
    up = pytorch.where(below, 1 - x, x)
    # Between 1.5 and 2.5, and what it is multiplied by on the way there.
    # Not by a minimum, which on a GPU may be a number where one of two is none.
    is_far = up > _FAR
    near, factor = pytorch.where(is_far, _FAR, up), pytorch.ones_like(x)
    for _ in range(_STEPS):
        far = near > 2.5
        near = pytorch.where(far, near - 1, near)
        factor = pytorch.where(far, factor * near, factor)
    small, half = near < 1.5, near < 0.5
    rest = pytorch.where(half, near, pytorch.where(small, near - 1, near - 2))
    series = pytorch.zeros_like(x)
    for each in reversed(_LOG_GAMMA):
        series = (series + each) * rest
    series = series - pytorch.where(small, rest.log1p(), 0) - pytorch.where(half, near.log(), 0)
    high = pytorch.where(is_far, up, _FAR)
    inverse = 1 / high
    tail = inverse * (1 / 12 - inverse * inverse * (1 / 360 - inverse * inverse / 1260))
    stirling = (high - 0.5) * (high.log() - 1) + (0.5 * math.log(2 * math.pi) - 0.5) + tail
    made = pytorch.where(is_far, stirling, series + factor.log())
    made = pytorch.where(below, _log_of_sine(x) - made, made)
    return pytorch.where(x == -math.inf, math.inf, made)


def _log_of_sine(x: Any) -> Any:
    """Return the logarithm of pi by the size of the sine of pi x."""
    return math.log(math.pi) - (math.pi * (x - x.round()).abs()).sin().log()


def digamma(x: Any) -> Any:
    """Return the derivative of the logarithm of the gamma function.

    By the recurrence, the asymptotic series, and reflection: Abramowitz and Stegun, 6.3.5, 6.3.18
    and 6.3.7.
    """
    pytorch = torch()
    if x.dtype is pytorch.float64:
        return NotImplemented
    below = x < 0
    up = pytorch.where(below, 1 - x, x)
    steps = 1 / up  # which has the sign of a zero
    for each in range(1, _MOVED):
        steps = steps + 1 / (up + each)
    near = up < _MOVED
    high = pytorch.where(near, up + _MOVED, up)
    square = 1 / (high * high)
    tail = square * (1 / 12 - square * (1 / 120 - square * (1 / 252 - square / 240)))
    made = high.log() - 0.5 / high - tail - pytorch.where(near, steps, 0)
    apart = x - x.round()
    reflected = made - math.pi / (math.pi * apart).tan()
    return pytorch.where(below, pytorch.where(apart == 0, math.nan, reflected), made)
