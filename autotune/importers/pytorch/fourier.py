"""Fourier transforms as products with matrices of cosines and sines."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from autotune.graph import Array, Value, ops
from autotune.importers.pytorch.call import Call

# Points of a transform: of more the product takes longer than torch's own transform.
_MOST_POINTS = 2048
# A real and an imaginary part; the latter is None where all of it is 0.
Parts = tuple[Value, Value | None]


def transformed(
    call: Call, parts: Parts, dims: Sequence[int], normalisation: int, forward: bool,
    one_sided: bool = False,
) -> Parts:  # fmt: skip
    """Transform along some axes; one-sided along the last of them.

    Args:
        call: of torch.
        parts: of the data.
        dims: the axes.
        normalisation: of torch: 0 for none, 1 by the root of the number of points, 2 by it.
        forward: whether exponents are negative.
        one_sided: whether the last axis gets the frequencies from 0 to half of the points only.
    """
    ndim = parts[0].type.ndim
    axes = [dim % ndim for dim in dims]
    for place, axis in reversed([*enumerate(axes)]):
        points = parts[0].shape[axis]
        half = one_sided and place == len(axes) - 1
        turns = np.outer(np.arange(points), np.arange(points // 2 + 1 if half else points))
        parts = _times(call, parts, axis, _turned(call, turns, points, normalisation, forward))
    return parts


def real_inverse(
    call: Call, parts: Parts, dims: Sequence[int], normalisation: int, points: int
) -> Value:
    """Return the real numbers whose transform along some axes is given, of the last the half."""
    *others, last = (dim % parts[0].type.ndim for dim in dims)
    parts = transformed(call, parts, others, normalisation, False)
    given = points // 2 + 1
    turns = np.outer(np.arange(given), np.arange(points))
    matrix = _turned(call, turns, points, normalisation, False)
    # The other half of the frequencies is their conjugate.
    twice = np.full((given, 1), 2.0)
    twice[0] = 1
    if points % 2 == 0:
        twice[-1] = 1
    real, _ = _times(call, parts, last, matrix * twice, real_only=True)
    return real


def _turned(call: Call, turns: Array, points: int, normalisation: int, forward: bool) -> Array:
    """Return powers of the unit root of so many points, times the factor of the transform."""
    if points > _MOST_POINTS:
        call.refuse("the number of points", f"at most {_MOST_POINTS}", points)
    angle = (-2 if forward else 2) * math.pi / points * (turns % points)
    factor = (1.0, points**-0.5, 1 / points)[normalisation]
    found: Array = factor * (np.cos(angle) + 1j * np.sin(angle))
    return found


def _times(call: Call, parts: Parts, axis: int, matrix: Array, real_only: bool = False) -> Parts:
    """Multiply the numbers along an axis by a complex matrix, as one product of real numbers."""
    real, imaginary = parts
    ndim, dtype = real.type.ndim, real.dtype
    order = [*(i for i in range(ndim) if i != axis), axis]
    rows, columns = matrix.shape
    weight = np.concatenate([matrix.real] if real_only else [matrix.real, matrix.imag], 1)
    own = [real]
    if imaginary is not None:
        turned = [-matrix.imag] if real_only else [-matrix.imag, matrix.real]
        weight = np.concatenate([weight, np.concatenate(turned, 1)])
        own.append(imaginary)
    moved = call.concatenate([call.transpose(each, order) for each in own], ndim - 1)
    outer = moved.shape[:-1]
    flat = call.reshape(moved, (math.prod(outer), rows * len(own)))
    product = call.apply(ops.Dense(), flat, call.constant(np.ascontiguousarray(weight.T), dtype))
    back = [order.index(i) for i in range(ndim)]

    def part(begin: int) -> Value:
        taken = call.slice(product, 1, begin, begin + columns)
        return call.transpose(call.reshape(taken, (*outer, columns)), back)

    return part(0), None if real_only else part(columns)
