"""Reductions over axes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from autotune.graph import Value, ops
from autotune.importers.onnx.call import Call, Converter
from autotune.importers.onnx.shape_rules import reduced_axes

# Of a value, given the axes and whether they stay.
Reduced = Callable[[Call, Value, tuple[int, ...], bool], Value]


def _converter(reduce: Reduced, since: int, before: Callable[[Call, Value], Value]) -> Converter:
    """Return the converter of a reduction, whose axes are an input from an opset on.

    Without axes the data may stay as it is, but for what is done to each element before.
    """

    def convert(call: Call) -> Value:
        x = before(call, call.value(0))
        axes = reduced_axes(call, x.type.ndim, since)
        return reduce(call, x, axes, bool(call.attribute("keepdims", 1)))

    return convert


def _plain(op: type[ops.Reduction]) -> Reduced:
    def reduce(call: Call, x: Value, axes: tuple[int, ...], keep: bool) -> Value:
        if not axes:
            return x
        if x.dtype == "bool":  # 0 and 1
            return call.cast(call.apply(op(axes, keep), call.cast(x, "int32")), "bool")
        return call.apply(op(axes, keep), x)

    return reduce


def _then(reduce: Reduced, after: Callable[[Call, Value], Value]) -> Reduced:
    return lambda call, x, axes, keep: after(call, reduce(call, x, axes, keep))


def _log(call: Call, x: Value) -> Value:
    return call.apply(ops.Log(), x)


def _sqrt(call: Call, x: Value) -> Value:
    kind = x.dtype
    if "float" in kind:
        return call.apply(ops.Sqrt(), x)
    return call.cast(call.apply(ops.Sqrt(), call.cast(x, "float64")), kind)


def _same(call: Call, x: Value) -> Value:
    return x


def _size(call: Call, x: Value) -> Value:
    return call.apply(ops.Abs(), x)


def _square(call: Call, x: Value) -> Value:
    return call.apply(ops.Multiply(), x, x)


def _log_sum_exp(call: Call, x: Value, axes: tuple[int, ...], keep: bool) -> Value:
    """Take the greatest out first, so that nothing overflows."""
    if not axes:
        return x
    highest = call.apply(ops.Max(axes, True), x)
    powers = call.apply(ops.Exp(), call.apply(ops.Subtract(), x, highest))
    total = _log(call, call.apply(ops.Sum(axes, keep), powers))
    return call.apply(ops.Add(), total, call.reshape(highest, total.shape))


def _extreme(op: type[ops.Reduction]) -> Converter:
    """Return the converter of ArgMax or ArgMin; the last of equals is the first from the end."""

    def convert(call: Call) -> Value:
        x = call.value(0)
        axis, keep = (
            call.axis(call.attribute("axis", 0), x.type.ndim),
            bool(call.attribute("keepdims", 1)),
        )
        last = bool(call.attribute("select_last_index", 0))
        if last:
            order = np.arange(x.shape[axis] - 1, -1, -1, dtype="int32")
            x = call.apply(ops.Take(axis), x, call.as_value(order))
        found = call.cast(call.apply(op((axis,), keep), x), "int64")
        if not last:
            return found
        return call.apply(ops.Subtract(), call.number(x.shape[axis] - 1, found), found)

    return convert


CONVERTERS: dict[str, Converter] = {
    "ReduceSum": _converter(_plain(ops.Sum), 13, _same),
    "ReduceMean": _converter(_plain(ops.Mean), 18, _same),
    "ReduceMax": _converter(_plain(ops.Max), 18, _same),
    "ReduceMin": _converter(_plain(ops.Min), 18, _same),
    "ReduceProd": _converter(_plain(ops.Prod), 18, _same),
    "ReduceL1": _converter(_plain(ops.Sum), 18, _size),
    "ReduceL2": _converter(_then(_plain(ops.Sum), _sqrt), 18, _square),
    "ReduceSumSquare": _converter(_plain(ops.Sum), 18, _square),
    "ReduceLogSum": _converter(_then(_plain(ops.Sum), _log), 18, _same),
    "ReduceLogSumExp": _converter(_log_sum_exp, 18, _same),
    "ArgMax": _extreme(ops.Argmax),
    "ArgMin": _extreme(ops.Argmin),
}
