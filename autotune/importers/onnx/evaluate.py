"""Operators on known numbers: the shape arithmetic of exported models, computed at once.

Shapes may have no elements (that of a scalar), and slices of them; values of a graph may not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from autotune.graph import Array
from autotune.importers.onnx.call import Call, Operand
from autotune.importers.onnx.shape_rules import (
    concrete_slices,
    new_shape,
    of_some_size,
    reduced_axes,
    split_sizes,
)
from autotune.importers.onnx.tensors import dtype_of, numpy_type


def _arrays(call: Call) -> list[Array]:
    return [np.asarray(each) for each in call.inputs if each is not None]


def _plain(function: Callable[..., Any]) -> Callable[[Call], Operand]:
    """Return what applies a function of numpy, and keeps the dtype that it gives."""
    return lambda call: np.asarray(function(*_arrays(call)))


def _kept(function: Callable[..., Any]) -> Callable[[Call], Operand]:
    """Return what applies a function of numpy, and keeps the dtype of the first input."""

    def evaluate(call: Call) -> Array:
        arrays = _arrays(call)
        return np.asarray(function(*arrays)).astype(arrays[0].dtype)

    return evaluate


def _many(function: Callable[..., Any]) -> Callable[[Call], Operand]:
    """Return what combines any number of inputs."""

    def evaluate(call: Call) -> Array:
        first, *rest = _arrays(call)
        for each in rest:
            first = function(first, each)
        return first

    return evaluate


def _divide(a: Array, b: Array) -> Array:
    if a.dtype.kind not in "iu":
        return np.asarray(a / b)
    quotient = np.abs(a) // np.maximum(np.abs(b), 1)
    return np.asarray(quotient * np.sign(a) * np.sign(b) if a.dtype.kind == "i" else quotient)


def _mod(call: Call) -> Array:
    a, b = _arrays(call)
    return np.asarray(np.fmod(a, b) if call.attribute("fmod", 0) else np.mod(a, b))


def _gather(call: Call) -> Array:
    data, indices = _arrays(call)
    axis = call.axis(call.attribute("axis", 0), data.ndim)
    extent = data.shape[axis]
    if indices.size and not (-extent <= indices.min() and indices.max() < extent):
        call.refuse(f"indices must be within an axis of {extent}, got {indices}")
    return np.take(data, indices, axis)


def _concat(call: Call) -> Array:
    return np.concatenate(_arrays(call), call.attribute("axis", 1 if call.opset < 4 else 0))


def _slice(call: Call) -> Array:
    data = np.asarray(call.operand(0))
    return data[concrete_slices(call, data.shape)]


def _squeeze(call: Call) -> Array:
    data, axes = np.asarray(call.operand(0)), call.ints_of("axes", 13)
    return np.squeeze(data, None if axes is None else tuple(axes))


def _unsqueeze(call: Call) -> Array:
    return np.expand_dims(np.asarray(call.operand(0)), call.ints_of("axes", 13) or ())


def _reshape(call: Call) -> Array:
    data = np.asarray(call.operand(0))
    return data.reshape(new_shape(call, data.shape))


def _cast(call: Call) -> Array:
    return np.asarray(call.operand(0)).astype(
        numpy_type(dtype_of(call.attribute("to", 0), "Cast"))
    )


def _expand(call: Call) -> Array:
    data = np.asarray(call.operand(0))
    shape = of_some_size(call, np.broadcast_shapes(data.shape, call.whole(1, "shape")))
    return np.broadcast_to(data, shape)


def _tile(call: Call) -> Array:
    data, repeats = np.asarray(call.operand(0)), call.whole(1, "repeats")
    if 0 in repeats:  # numpy would make copies first
        return np.zeros([n * r for n, r in zip(data.shape, repeats, strict=True)], data.dtype)
    of_some_size(call, [data.size, *repeats])
    return np.tile(data, repeats)


def _range(call: Call) -> Array:
    start, limit, delta = [each.reshape(())[()] for each in _arrays(call)]
    count = max(int(np.ceil((limit - start) / delta)), 0)
    of_some_size(call, [count])
    return np.asarray(start + np.arange(count) * delta).astype(start.dtype)


def _reduction(function: Callable[..., Any], since: int) -> Callable[[Call], Operand]:
    def evaluate(call: Call) -> Array:
        data = np.asarray(call.operand(0))
        axes = reduced_axes(call, data.ndim, since)
        call.with_elements(data.shape)
        if axes == ():
            return data
        keep = bool(call.attribute("keepdims", 1))
        return np.asarray(function(data, axis=axes, keepdims=keep)).astype(data.dtype)

    return evaluate


def _split(call: Call) -> list[Array]:
    data = np.asarray(call.operand(0))
    axis = call.axis(call.attribute("axis", 0), data.ndim)
    sizes = split_sizes(call, data.shape[axis])
    return list(np.split(data, np.cumsum(sizes)[:-1], axis))


def _transpose(call: Call) -> Array:
    return np.transpose(np.asarray(call.operand(0)), call.ints("perm"))


def _nonzero(call: Call) -> Array:
    return np.asarray(np.nonzero(np.asarray(call.operand(0))), "int64")


def _cast_like(call: Call) -> Array:
    data, like = _arrays(call)
    return data.astype(like.dtype)


EVALUATED: Mapping[str, Callable[[Call], Operand]] = {
    "Identity": _plain(lambda x: x),
    "Add": _kept(np.add),
    "Sub": _kept(np.subtract),
    "Mul": _kept(np.multiply),
    "Div": _kept(_divide),
    "Mod": _mod,
    "Pow": _kept(np.power),
    "Min": _many(np.minimum),
    "Max": _many(np.maximum),
    "Neg": _kept(np.negative),
    "Abs": _kept(np.abs),
    "Floor": _kept(np.floor),
    "Ceil": _kept(np.ceil),
    "Sqrt": _kept(np.sqrt),
    "Equal": _plain(np.equal),
    "Less": _plain(np.less),
    "LessOrEqual": _plain(np.less_equal),
    "Greater": _plain(np.greater),
    "GreaterOrEqual": _plain(np.greater_equal),
    "And": _plain(np.logical_and),
    "Or": _plain(np.logical_or),
    "Not": _plain(np.logical_not),
    "Where": _plain(np.where),
    "Gather": _gather,
    "Concat": _concat,
    "Slice": _slice,
    "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze,
    "Reshape": _reshape,
    "Cast": _cast,
    "CastLike": _cast_like,
    "Expand": _expand,
    "Tile": _tile,
    "Range": _range,
    "Split": _split,
    "Transpose": _transpose,
    "NonZero": _nonzero,
    "ReduceProd": _reduction(np.prod, 18),
    "ReduceSum": _reduction(np.sum, 13),
    "ReduceMax": _reduction(np.max, 18),
    "ReduceMin": _reduction(np.min, 18),
}
