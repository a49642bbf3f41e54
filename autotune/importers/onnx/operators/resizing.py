"""Images of another size: nearest elements, and sums of neighbours by constant weights."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from autotune.graph import Array, Value, ops
from autotune.importers.onnx.call import Call, Converter

# How far from a half a coordinate counts as one, as in ONNX Runtime: 9 / 1.2 in float32 is none.
_HALF = 1e-6
_ONE = np.float32(1)


@dataclass(frozen=True)
class _Axis:
    """How one axis changes.

    Attributes:
        extent: before.
        size: after.
        scale: of sizes, in float32: by wider ones the nearest elements differ.
        region: where the part begins and ends that is kept, as parts of the extent.
    """

    extent: int
    size: int
    scale: np.float32
    region: tuple[float, float]

    def coordinates(self, call: Call, mode: str) -> Array:
        """Return where each element of the result is, in elements of the data."""
        x: Array = np.arange(self.size, dtype="float32")
        n, size = self.extent, self.size
        scale: Array = np.asarray(self.scale)
        begin, end = self.region
        match mode:
            case "half_pixel":
                return (x + 0.5) / scale - 0.5
            case "half_pixel_symmetric":
                middle = n / 2 * (1 - size / (scale * n))
                return middle + (x + 0.5) / scale - 0.5
            case "pytorch_half_pixel":
                return (x + 0.5) / scale - 0.5 if size > 1 else np.zeros(size)
            case "align_corners":
                return x * (n - 1) / (size - 1) if size > 1 else np.zeros(size)
            case "asymmetric":
                return x / scale
            case "tf_half_pixel_for_nn":
                return (x + 0.5) / scale
            case "tf_crop_and_resize":
                if size == 1:
                    return np.full(1, 0.5 * (begin + end) * (n - 1))
                return begin * (n - 1) + x * (end - begin) * (n - 1) / (size - 1)
        call.refuse(f"coordinate_transformation_mode {mode!r} is unknown")


def _nearest(call: Call, at: Array, mode: str) -> Array:
    exact = at.astype("float64")
    match mode:
        case "round_prefer_floor":
            return np.ceil(exact - 0.5 - _HALF)
        case "round_prefer_ceil":
            return np.floor(exact + 0.5 + _HALF)
        case "floor":
            return np.floor(at)
        case "ceil":
            return np.ceil(at)
    call.refuse(f"nearest_mode {mode!r} is unknown")


def _nearest_mode(call: Call) -> str:
    """Return how coordinates are rounded: down, before there was an attribute that says it."""
    return call.attribute("nearest_mode", "floor" if call.opset < 11 else "round_prefer_floor")


def _kernel(mode: str, distance: Array, cubic: float) -> Array:
    """Return the weights of elements at distances."""
    d = np.abs(distance)
    if mode == "linear":
        return np.asarray(np.maximum(1 - d, 0))
    near = ((cubic + 2) * d - (cubic + 3)) * d * d + 1
    far = ((cubic * d - 5 * cubic) * d + 8 * cubic) * d - 4 * cubic
    return np.asarray(np.where(d <= 1, near, np.where(d < 2, far, 0)))


def _weights(call: Call, axis: _Axis, at: Array, mode: str) -> Array:
    """Return a matrix: the weight of each element of the data in each of the result."""
    shrink = min(float(axis.scale), 1.0) if call.attribute("antialias", 0) else 1.0
    reach = math.ceil((1 if mode == "linear" else 2) / shrink)
    places = np.floor(at)[:, None] + np.arange(-reach + 1, reach + 1)
    cubic = call.attribute("cubic_coeff_a", -0.75)
    weights = _kernel(mode, (at[:, None] - places) * shrink, cubic)
    inside = (places >= 0) & (places < axis.extent)
    if call.attribute("exclude_outside", 0):
        weights = np.where(inside, weights, 0)
    weights = weights / weights.sum(1, keepdims=True)
    matrix = np.zeros((axis.size, axis.extent))
    rows = np.broadcast_to(np.arange(axis.size)[:, None], places.shape)
    np.add.at(matrix, (rows, np.clip(places, 0, axis.extent - 1).astype(int)), weights)
    return matrix


def _resized(call: Call, x: Value, axes: Sequence[_Axis], mode: str, coordinates: str) -> Value:
    """Change one axis after the other; those that shrink first, as fewer elements follow."""
    order = sorted(range(len(axes)), key=lambda i: axes[i].size / axes[i].extent)
    outside = np.zeros(1, "bool")
    for number in order:
        axis = axes[number]
        if axis.size == axis.extent and coordinates != "tf_crop_and_resize" and axis.scale == 1:
            continue
        at = axis.coordinates(call, coordinates)
        if coordinates == "tf_crop_and_resize":
            shape = [-1 if i == number else 1 for i in range(len(axes))]
            outside = outside | ((at < 0) | (at > axis.extent - 1)).reshape(shape)
        if mode == "nearest":
            places = _nearest(call, at, _nearest_mode(call))
            order_of = np.clip(places, 0, axis.extent - 1).astype("int32")
            x = call.apply(ops.Take(number), x, call.as_value(order_of))
        else:
            x = _blended(call, x, number, _weights(call, axis, at, mode))
    if outside.any():
        value = call.attribute("extrapolation_value", 0.0)
        mask = call.broadcast(call.as_value(np.ascontiguousarray(outside)), x.shape)
        x = call.apply(ops.Where(), mask, call.broadcast(call.number(value, x), x.shape), x)
    return x


def _blended(call: Call, x: Value, axis: int, weights: Array) -> Value:
    """Return sums of elements of an axis by constant weights, a term for each neighbour."""
    terms = int((weights != 0).sum(1).max())
    places = np.argsort(weights == 0, axis=1, kind="stable")[:, :terms]
    own = np.take_along_axis(weights, places, 1)
    shape = [-1 if i == axis else 1 for i in range(x.type.ndim)]
    total: Value | None = None
    for term in range(terms):
        part = call.apply(ops.Take(axis), x, call.as_value(places[:, term].astype("int32")))
        factor = call.cast(call.as_value(own[:, term].astype("float32").reshape(shape)), x.dtype)
        part = call.apply(ops.Multiply(), part, factor)
        total = part if total is None else call.apply(ops.Add(), total, part)
    assert total is not None
    return total


def _upsampled(call: Call, x: Value, axes: Sequence[_Axis], coordinates: str) -> Value | None:
    """Return images each of whose elements is repeated, which is an operator of its own."""
    if len(axes) != 4 or any(each.size != each.extent for each in axes[:2]):
        return None
    times = axes[2].size // axes[2].extent
    if times < 2 or any(
        each.size != each.extent * times or each.scale != times for each in axes[2:]
    ):
        return None
    mode = _nearest_mode(call)
    floors = coordinates == "asymmetric" and mode == "floor"
    halves = coordinates in ("half_pixel", "pytorch_half_pixel") and mode.startswith("round")
    return call.apply(ops.Upsampling(times), x) if floors or halves else None


def _axes_of(call: Call, x: Value) -> list[_Axis]:
    """Return how the axes change: by scales or sizes, of all axes or some."""
    ndim = x.type.ndim
    chosen = call.ints("axes")
    axes = range(ndim) if chosen is None else [call.axis(a, ndim) for a in chosen]
    scales_at = 1 if call.opset < 11 else 2
    scales, sizes = _scales_and_sizes(call, scales_at)
    if sizes is None and (scales is None or len(scales) != len(axes)):
        call.refuse(f"expected scales or sizes of {len(axes)} axes")
    regions = _regions(call, len(axes))
    found = [_Axis(n, n, _ONE, (0.0, 1.0)) for n in x.shape]
    for i, axis in enumerate(axes):
        extent = x.shape[axis]
        if sizes is None:
            assert scales is not None
            begin, end = regions[i]
            part = extent * (end - begin) if regions[i] != (0, 1) else extent
            found[axis] = _Axis(extent, _floor(part, scales[i]), scales[i], regions[i])
        else:
            scale = np.float32(sizes[i]) / np.float32(extent)
            found[axis] = _Axis(extent, sizes[i], scale, regions[i])
    return _kept_ratio(call, found, list(axes)) if sizes is not None else found


def _floor(extent: float, scale: np.float32) -> int:
    """Return a size, in float32: 0.7 of 10 elements are 7, though its float32 is a little less."""
    return int(np.floor(np.float32(extent) * scale))


def _kept_ratio(call: Call, found: list[_Axis], axes: list[int]) -> list[_Axis]:
    """Return sizes that keep the ratio of extents, where that is asked for."""
    policy = call.attribute("keep_aspect_ratio_policy", "stretch")
    if policy == "stretch":
        return found
    ratios = [found[a].size / found[a].extent for a in axes]
    scale = min(ratios) if policy == "not_larger" else max(ratios)
    for a in axes:
        extent = found[a].extent
        size = math.floor(extent * scale + 0.5)
        found[a] = _Axis(extent, size, np.float32(scale), found[a].region)
    return found


def _scales_and_sizes(
    call: Call, scales_at: int
) -> tuple[list[np.float32] | None, tuple[int, ...] | None]:
    scales = None
    if call.has(scales_at):
        given = call.known(scales_at, "scales")
        scales = list(given.astype("float32")) if given.size else None
    sizes = call.whole(3, "sizes") if call.opset >= 11 and call.has(3) else None
    return scales, sizes or None


def _regions(call: Call, count: int) -> list[tuple[float, float]]:
    if call.attribute(
        "coordinate_transformation_mode", ""
    ) != "tf_crop_and_resize" or not call.has(1):
        return [(0.0, 1.0)] * count
    given = call.known(1, "roi").astype("float64")
    return [(float(a), float(b)) for a, b in zip(given[:count], given[count:], strict=True)]


def _resize(call: Call) -> Value:
    x = call.value(0)
    axes = _axes_of(call, x)
    mode = call.attribute("mode", "nearest")
    if mode not in ("nearest", "linear", "cubic"):
        call.refuse(f"mode must be nearest, linear or cubic, got {mode!r}")
    old = "asymmetric" if call.opset < 11 else "half_pixel"
    coordinates = call.attribute("coordinate_transformation_mode", old)
    return _sized(call, x, axes, mode, coordinates)


def _sized(call: Call, x: Value, axes: Sequence[_Axis], mode: str, coordinates: str) -> Value:
    if min(each.size for each in axes) < 1:
        call.refuse(f"the result must have elements, got sizes {[each.size for each in axes]}")
    if mode == "nearest":
        whole = _upsampled(call, x, axes, coordinates)
        if whole is not None:
            return whole
    kind = x.dtype
    if mode != "nearest" and "float" not in kind:
        x = call.cast(x, "float32")
    return call.cast(_resized(call, x, axes, mode, coordinates), kind)


def _upsample(call: Call) -> Value:
    """Change sizes as Resize of opset 10 does."""
    x = call.value(0)
    given = (
        call.known(1, "scales") if call.opset >= 9 else np.asarray(call.attribute("scales", ()))
    )
    numbers = zip(x.shape, given.astype("float32"), strict=True)
    axes = [_Axis(n, _floor(n, scale), scale, (0.0, 1.0)) for n, scale in numbers]
    mode = call.attribute("mode", "nearest")
    return _sized(call, x, axes, "linear" if mode == "bilinear" else mode, "asymmetric")


CONVERTERS: dict[str, Converter] = {"Resize": _resize, "Upsample": _upsample}
