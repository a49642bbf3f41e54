"""TVM's ``relay.image``: images of another size."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce

import numpy as np

from autotune.errors import GraphError
from autotune.graph import Array, Constant, Value, apply, ops
from autotune.tvm.relay.arguments import Numbers, check_values, whole_numbers
from autotune.utils.check import Check

__all__ = ["resize", "resize2d"]

_METHODS = {
    "nearest_neighbor": "nearest", "nearest": "nearest", "linear": "linear", "bilinear": "linear",
    "cubic": "cubic", "bicubic": "cubic",
}  # fmt: skip
_MODES = ("half_pixel", "align_corners", "asymmetric")
# As those of `topi.image.resize2d`: whole positions may come out a little less, or more.
_ROUNDINGS: dict[str, Callable[[Array], Array]] = {
    "round": lambda x: np.floor(x + np.float32(0.5)),
    "round_prefer_floor": lambda x: np.ceil(x - np.float32(0.5)),
    "round_prefer_ceil": lambda x: np.floor(x + np.float32(0.5)),
    "floor": lambda x: np.floor(x + np.float32(1e-5)),
    "ceil": lambda x: np.ceil(x - np.float32(1e-5)),
}
# Of each pixel of the result along an axis: pixels of the image, and how much of each.
Taps = list[tuple[Array, Array]]


def resize(
    data: Value,
    size: Numbers,
    layout: str = "NCHW",
    method: str = "bilinear",
    coordinate_transformation_mode: str = "half_pixel",
    out_dtype: str | None = None,
) -> Value:
    """Do what `resize2d` does, with the arguments that TVM up to 0.7 has."""
    mode = coordinate_transformation_mode
    return resize2d(data, size, None, layout, method, mode, out_dtype=out_dtype)


def resize2d(
    data: Value,
    size: Numbers,
    roi: object = None,
    layout: str = "NCHW",
    method: str = "linear",
    coordinate_transformation_mode: str = "half_pixel",
    rounding_method: str = "",
    cubic_alpha: float = -0.5,
    cubic_exclude: int = 0,
    extrapolation_value: float = 0.0,
    out_dtype: str | None = None,
) -> Value:
    """Scale images by interpolation.

    Args:
        data: the images.
        size: the new height and width.
        roi, extrapolation_value: accepted for TVM's scripts; of no meaning without the mode
            ``tf_crop_and_resize``, which is not here.
        layout: an order of the letters NCHW.
        method: ``"nearest_neighbor"``, ``"linear"`` or ``"cubic"``.
        coordinate_transformation_mode: ``"half_pixel"``, ``"align_corners"`` or
            ``"asymmetric"``: where the new pixels are among the old ones.
        rounding_method: of the nearest neighbour: ``"round"``, ``"round_prefer_floor"``,
            ``"round_prefer_ceil"``, ``"floor"`` or ``"ceil"``; by default ``"round"`` of
            ``"align_corners"``, else ``"floor"``.
        cubic_alpha: the slope of the cubic at its second zero.
        cubic_exclude: only 0 is known: pixels outside are those at the edge.
        out_dtype: of the result; by default that of the data.
    """
    del roi, extrapolation_value
    mode = coordinate_transformation_mode
    check_values("image.resize2d", data=data)
    check = Check(GraphError, "image.resize2d")
    check.one_of("coordinate_transformation_mode", mode, _MODES)
    check.one_of("method", method, _METHODS)
    check.one_of("rounding_method", rounding_method, ("", *_ROUNDINGS))
    if cubic_exclude:
        check.refuse("cubic_exclude", "0", cubic_exclude)
    if not isinstance(layout, str) or sorted(layout) != sorted("NCHW"):
        check.refuse("layout", "an order of the letters NCHW", layout)
    extents = whole_numbers("image.resize2d", "size", size)
    if len(extents) != 2 or min(extents) < 1 or data.type.ndim != 4:
        check.refuse("size", "a height and a width of at least 1, of images of 4 axes", size)
    kind, rounding = _METHODS[method], rounding_method or _rounding(mode)
    made = data if kind == "nearest" else _cast(data, "float32")
    for axis, new in zip(map(layout.index, "HW"), extents, strict=True):
        at = _positions(data.shape[axis], new, mode)
        made = _tapped(made, axis, _taps(kind, at, rounding, cubic_alpha))
    return _cast(made, out_dtype or data.dtype)


def _rounding(mode: str) -> str:
    return "round" if mode == "align_corners" else "floor"


def _cast(data: Value, dtype: str) -> Value:
    return data if data.dtype == dtype else apply(ops.Cast(dtype), data)


def _positions(old: int, new: int, mode: str) -> Array:
    """Return where pixels of the result are among those of an image, as float32."""
    pixels: Array = np.arange(new, dtype="float32")
    if mode == "align_corners":
        return np.asarray(pixels * np.float32((old - 1) / max(new - 1, 1)))
    ratio, half = np.float32(old / new), np.float32(0.5)
    found = (pixels + half) * ratio - half if mode == "half_pixel" else pixels * ratio
    return np.asarray(found)


def _taps(method: str, at: Array, rounding: str, alpha: float) -> Taps:
    if method == "nearest":
        return [(_ROUNDINGS[rounding](at), np.ones_like(at))]
    low: Array = np.floor(at)
    t = at - low
    if method == "linear":
        return [(low, 1 - t), (low + 1, t)]
    a = np.float32(alpha)  # Keys' cubic convolution (1981)
    weights = [
        a * (t**3 - 2 * t**2 + t),
        (a + 2) * t**3 - (a + 3) * t**2 + 1,
        -(a + 2) * t**3 + (2 * a + 3) * t**2 - a * t,
        a * (t**2 - t**3),
    ]
    return [(low + (n - 1), weight) for n, weight in enumerate(weights)]


def _tapped(data: Value, axis: int, taps: Sequence[tuple[Array, Array]]) -> Value:
    """Return the weighted sum of pixels along an axis; those outside are the edge's."""
    shape = [-1 if i == axis else 1 for i in range(data.type.ndim)]
    terms = []
    for places, weights in taps:
        near = np.clip(places, 0, data.shape[axis] - 1).astype("int32")
        taken = apply(ops.Take(axis), data, Constant.of(near))
        share = Constant.of(weights.astype("float32").reshape(shape))
        terms.append(taken if len(taps) == 1 else apply(ops.Multiply(), taken, share))
    return reduce(lambda a, b: apply(ops.Add(), a, b), terms)
