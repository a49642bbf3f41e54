"""The greatest elements in order, and images at the places of a grid."""

from __future__ import annotations

from autotune.graph import Value
from autotune.importers.grid import GridSampler
from autotune.importers.onnx.call import Call, Converter
from autotune.importers.ranks import first_along


def _top(call: Call) -> list[Value]:
    """Return the k greatest or least elements along an axis, and their indices."""
    x = call.value(0)
    count = call.whole(1, "k")[0] if call.opset >= 10 else call.attribute("k", 1)
    call.with_elements([count])
    axis = call.axis(call.attribute("axis", -1), x.type.ndim)
    greatest = bool(call.attribute("largest", 1))
    values, places = first_along(x, axis, count, greatest, call.node.label)
    return [values, call.cast(places, "int64")]


# Names of opset 16, which later ones changed.
_MODES = {"linear": "bilinear", "cubic": "bicubic"}


def _grid_sample(call: Call) -> Value:
    mode = call.attribute("mode", "bilinear")
    padding = call.attribute("padding_mode", "zeros")
    corners = bool(call.attribute("align_corners", 0))
    sampler = GridSampler(_MODES.get(mode, mode), padding, corners, call.node.label)
    return sampler.read(call.value(0), call.value(1))


CONVERTERS: dict[str, Converter] = {"TopK": _top, "GridSample": _grid_sample}
