"""Images in other sizes: by the nearest pixel, or weighted by distance."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from autotune.errors import GraphError
from autotune.graph import Array, Value, ops
from autotune.importers.pytorch.call import Call, converts
from autotune.importers.pytorch.tensors import numbers_of
from autotune.utils.lazy_torch import torch

# A of the cubic of torch: R. Keys, "Cubic Convolution Interpolation", 1981, has -0.5.
_CUBIC = -0.75


@converts(
    "upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d", "_upsample_nearest_exact1d",
    "_upsample_nearest_exact2d", "_upsample_nearest_exact3d",
)  # fmt: skip
def nearest(call: Call, x: Value, *arguments: object) -> Value:
    """Take the nearest pixel along each axis."""
    results = call.type.shape[2:]
    exact = "exact" in call.name
    scales = _scales(call, arguments, x.shape[2:], results)
    wide = x.dtype == "float64"
    places = [
        np.arange(new) * old // new
        if len(results) == 2 and new in (old, 2 * old) and not exact  # whatever the factor is
        else np.minimum(_nearest(scale, new, len(results), exact, wide), old - 1)
        for scale, new, old in zip(scales, results, x.shape[2:], strict=True)
    ]
    if (factor := _factor(places, x.shape[2:])) and len(results) == 2:
        return call.apply(ops.Upsampling(factor), x)
    for axis, (taken, old) in enumerate(zip(places, x.shape[2:], strict=True), 2):
        if not np.array_equal(taken, np.arange(old)):
            x = call.take(x, axis, taken)
    return x


def _nearest(scale: float, extent: int, rank: int, exact: bool, wide: bool) -> Array:
    """Return the nearest pixel of each of the result, as torch's kernels compute it.

    Their rounding matters: 3 times the float32 of 5 / 3 is a little less than 5. Those of images
    take factors in float32 for all dtypes; the others subtract a half, and add it again.

    Args:
        scale: how far pixels of the result are apart.
        extent: of the result.
        rank: 2 of images.
        exact: whether the centres of pixels are compared, not their corners.
        wide: whether pixels are float64.
    """
    kind = np.float64 if wide else np.float32
    numbers = np.arange(extent, dtype=kind)
    if rank == 2:
        at = (numbers + kind(0.5 if exact else 0)) * kind(np.float32(scale))
    elif exact:
        centres = np.float64(kind(scale)) * (numbers + 0.5) - 0.5  # multiplied and added at once
        at = centres.astype(kind) + kind(0.5)
    else:
        at = numbers * kind(scale)
    found: Array = np.floor(at.astype("float32")).astype("int64")
    return found


def _factor(places: Sequence[Array], extents: Sequence[int]) -> int:
    """Return how often each pixel is repeated along every axis; 0 where these differ."""
    factor = len(places[0]) // extents[0]
    same = all(
        np.array_equal(taken, np.repeat(np.arange(extent), factor))
        for taken, extent in zip(places, extents, strict=True)
    )
    return factor if same and factor > 1 else 0


def _scales(
    call: Call, arguments: Sequence[object], old: Sequence[int], new: Sequence[int]
) -> list[float]:
    """Return how far pixels of the result are apart in the image."""
    factors: list[object] = list(arguments[1:])
    if factors and isinstance(factors[-1], (list, tuple)):
        factors = list(factors[-1])
    # Where a factor is given, torch takes it, not the sizes.
    factors = [each for each in factors if not isinstance(each, bool)][-len(new) :]
    factors += [None] * (len(new) - len(factors))
    return [
        1 / each if isinstance(each, (int, float)) and each > 0 else a / b
        for each, a, b in zip(factors, old, new, strict=True)
    ]


@converts("upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d")
def linear(
    call: Call, x: Value, output_size: object, align_corners: bool, *scales: object
) -> Value:
    """Weight the two nearest pixels along each axis by their distance."""
    return _resized(call, x, align_corners, (output_size, *scales), _two)


@converts("upsample_bicubic2d")
def cubic(
    call: Call, x: Value, output_size: object, align_corners: bool, *scales: object
) -> Value:
    """Weight the four nearest pixels along each axis by a cubic of their distance."""
    return _resized(call, x, align_corners, (output_size, *scales), _four)


@converts("_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa")
def averaged(
    call: Call, x: Value, output_size: object, align_corners: bool, *scales: object
) -> Value:
    """Weight all pixels near each one of the result: by products, as torch says of each pixel."""
    call.check_floats(x)
    library = torch("importers", GraphError)
    resize = getattr(library.ops.aten, call.name.split(".")[1]).default
    result = x
    # One overload has factors as one list, the other one by one.
    given = scales[0] if len(scales) == 1 else scales
    factors = list(given) if isinstance(given, Sequence) and given else [None, None]
    sizes = zip(x.shape[2:], call.type.shape[2:], factors, strict=True)
    for axis, (old, new, scale) in enumerate(sizes, 2):
        if old != new or scale not in (None, 1.0):
            # Each column has one pixel of an axis that is resized, rows stay as they are.
            pixels = library.eye(old, dtype=library.float64).reshape(1, 1, old, old)
            weights = resize(pixels, (new, old), align_corners, scale, None)
            result = _product(call, result, axis, numbers_of(weights.reshape(new, old)))
    return result


def _product(call: Call, x: Value, axis: int, weights: Array) -> Value:
    """Multiply the lines along an axis by a matrix [new, old]."""
    order = [i for i in range(x.type.ndim) if i != axis] + [axis]
    last = call.transpose(x, order)
    rows = call.reshape(last, (math.prod(last.shape[:-1]), last.shape[-1]))
    product = call.apply(ops.Dense(), rows, call.constant(weights, x.dtype))
    made = call.reshape(product, (*last.shape[:-1], weights.shape[0]))
    return call.transpose(made, [order.index(i) for i in range(x.type.ndim)])


def _two(where: Array, extent: int) -> list[tuple[Array, Array]]:
    """Return places of two neighbours, and their weights."""
    where = np.maximum(where, 0)
    low = np.minimum(np.floor(where).astype("int64"), extent - 1)
    far = where - low
    return [(low, 1 - far), (np.minimum(low + 1, extent - 1), far)]


def _four(where: Array, extent: int) -> list[tuple[Array, Array]]:
    """Return places of four neighbours, and their weights."""
    low = np.floor(where).astype("int64")
    far = where - low
    found = []
    for offset in (-1, 0, 1, 2):
        d = np.abs(far - offset)
        near = (_CUBIC + 2) * d**3 - (_CUBIC + 3) * d**2 + 1
        outer = _CUBIC * d**3 - 5 * _CUBIC * d**2 + 8 * _CUBIC * d - 4 * _CUBIC
        found.append((np.clip(low + offset, 0, extent - 1), np.where(d <= 1, near, outer)))
    return found


def _resized(
    call: Call, x: Value, align_corners: bool, arguments: Sequence[object], neighbours: object
) -> Value:
    """Resize along one axis after the other; 16-bit floats are weighted in float32."""
    call.check_floats(x)
    results = call.type.shape[2:]
    scales = _scales(call, arguments, x.shape[2:], results)
    kind = "float32" if x.dtype in ("float16", "bfloat16") else x.dtype
    made = call.cast(x, kind)
    for axis, (scale, extent) in enumerate(zip(scales, results, strict=True), 2):
        old = made.shape[axis]
        if extent == old and (align_corners or scale == 1):
            continue
        if align_corners:
            where = np.arange(extent) * ((old - 1) / max(extent - 1, 1))
        else:
            where = (np.arange(extent) + 0.5) * scale - 0.5
        made = _weighted(call, made, axis, neighbours(where, old))  # type: ignore[operator]
    return call.cast(made, x.dtype)


def _weighted(call: Call, x: Value, axis: int, parts: Sequence[tuple[Array, Array]]) -> Value:
    """Return the sum of slices along an axis, each with a weight."""
    shape = [-1 if i == axis else 1 for i in range(x.type.ndim)]
    total: Value | None = None
    for places, weights in parts:
        taken = call.take(x, axis, places)
        part = call.apply(ops.Multiply(), taken, call.constant(weights.reshape(shape), x.dtype))
        total = part if total is None else call.apply(ops.Add(), total, part)
    assert total is not None
    return total
