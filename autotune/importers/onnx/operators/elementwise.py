"""Functions of one element, casts and tests."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from autotune.graph import Operator, Value, ops
from autotune.importers.onnx.call import Call, Converter, Operand
from autotune.importers.onnx.tensors import dtype_of, numpy_type


def unary(op: Callable[[], Operator]) -> Converter:
    """Return the converter to an operator without attributes."""
    return lambda call: call.apply(op(), call.value(0))


def _of_floats(op: Callable[[], Operator]) -> Converter:
    """Return the converter to an operator that leaves whole numbers as they are."""

    def convert(call: Call) -> Value:
        x = call.value(0)
        return call.apply(op(), x) if "float" in x.dtype else x

    return convert


def _identity(call: Call) -> Operand:
    return call.operand(0)


def _dropout(call: Call) -> list[Operand]:
    """Return the data, and a mask that keeps all of it."""
    data = call.value(0)
    trains = call.has(2) and bool(call.known(2, "training_mode").reshape(-1)[0])
    if trains and (not call.has(1) or call.known(1, "ratio").any()):
        call.refuse("training is not supported; export the model for inference")
    return [data, np.ones(data.shape, "bool")]


def _reciprocal(call: Call) -> Value:
    x = call.value(0)
    return call.apply(ops.Divide(), call.number(1, x), x)


def _cast(call: Call) -> Value:
    return call.cast(call.value(0), dtype_of(call.attribute("to", 0), call.node.label))


def _cast_like(call: Call) -> Operand:
    data, dtype = call.operand(0), call.operand(1).dtype
    if isinstance(data, np.ndarray):
        return data.astype(numpy_type(str(dtype)))
    return call.cast(call.as_value(data), str(dtype))


def _bit_cast(call: Call) -> Operand:
    """Return the same bits as another dtype of as many: integers keep theirs in a cast."""
    data = call.operand(0)
    dtype = dtype_of(call.attribute("to", 0), call.node.label)
    old, new = numpy_type(str(data.dtype)), numpy_type(dtype)
    if old.itemsize != new.itemsize:
        call.refuse(f"expected a dtype of {old.itemsize * 8} bits, as {old} has, got {dtype}")
    numbers = call.numbers(data)
    if numbers is not None:
        return numbers.view(new)
    if old != new and not {old.kind, new.kind} <= set("iub"):
        call.refuse(f"bits of {old} as {dtype} are not supported, only of integers")
    return call.cast(call.as_value(data), dtype)


def _is_infinite(call: Call) -> Value:
    x = call.value(0)
    positive, negative = call.attribute("detect_positive", 1), call.attribute("detect_negative", 1)
    if positive and negative:
        return call.apply(ops.IsInf(), x)
    if not positive and not negative:
        return call.broadcast(call.as_value(np.asarray(False)), x.shape)
    return call.binary(ops.Equal, x, np.inf if positive else -np.inf)


CONVERTERS: dict[str, Converter] = {
    "Identity": _identity,
    "Dropout": _dropout,
    "Cast": _cast,
    "CastLike": _cast_like,
    "BitCast": _bit_cast,
    "Reciprocal": _reciprocal,
    "IsInf": _is_infinite,
    "Exp": unary(ops.Exp),
    "Log": unary(ops.Log),
    "Sqrt": unary(ops.Sqrt),
    "Tanh": unary(ops.Tanh),
    "Erf": unary(ops.Erf),
    "Sin": unary(ops.Sin),
    "Cos": unary(ops.Cos),
    "Tan": unary(ops.Tan),
    "Sinh": unary(ops.Sinh),
    "Cosh": unary(ops.Cosh),
    "Asin": unary(ops.Asin),
    "Acos": unary(ops.Acos),
    "Atan": unary(ops.Atan),
    "Asinh": unary(ops.Asinh),
    "Acosh": unary(ops.Acosh),
    "Atanh": unary(ops.Atanh),
    "Abs": unary(ops.Abs),
    "Neg": unary(ops.Negative),
    "Sign": unary(ops.Sign),
    "Floor": _of_floats(ops.Floor),
    "Ceil": _of_floats(ops.Ceil),
    "Round": _of_floats(ops.Nearbyint),
    "IsNaN": unary(ops.IsNan),
    "Not": unary(ops.LogicalNot),
}
