"""Operators of ONNX Runtime (domain ``com.microsoft``) that its tools write into models."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from autotune.graph import Array, Value, ops
from autotune.importers.onnx.call import Call, Converter
from autotune.importers.onnx.operators import activations, convolution, elementwise, products
from autotune.importers.onnx.operators.arithmetic import combined
from autotune.importers.onnx.operators.indexing import taken
from autotune.importers.onnx.operators.normalisation import rms_norm
from autotune.importers.onnx.operators.products import matmul
from autotune.importers.onnx.operators.shapes import part


def _biased(call: Call, x: Value, index: int) -> Value:
    """Add an input, if it is there."""
    return combined(call, ops.Add(), x, call.value(index)) if call.has(index) else x


def _gelu(call: Call) -> Value:
    return call.apply(ops.Gelu(), _biased(call, call.value(0), 1))


def _fast_gelu(call: Call) -> Value:
    return call.apply(ops.Gelu("tanh"), _biased(call, call.value(0), 1))


def _quick_gelu(call: Call) -> Value:
    x = call.value(0)
    inner = call.binary(ops.Multiply, x, call.attribute("alpha", 1.702))
    return call.apply(ops.Multiply(), x, call.apply(ops.Sigmoid(), inner))


def _fused_matmul(call: Call) -> Value:
    """Multiply matrices that may be transposed, and scale."""
    a, b = call.value(0), call.value(1)
    call.refuse_given({}, ("transBatchA", "transBatchB"))
    pairs = ((a, "transA"), (b, "transB"))
    a, b = (_last_swapped(call, each) if call.attribute(name, 0) else each for each, name in pairs)
    out, alpha = matmul(call, a, b), call.attribute("alpha", 1.0)
    return out if alpha == 1 else call.binary(ops.Multiply, out, alpha)


def _last_swapped(call: Call, x: Value) -> Value:
    ndim = x.type.ndim  # a vector is not transposed
    return x if ndim < 2 else call.transpose(x, (*range(ndim - 2), ndim - 1, ndim - 2))


# ---- A layer and what follows it

# Names of the numbers of an activation, in the order in which they are given.
_ACTIVATIONS: dict[str, tuple[str, ...]] = {
    "Relu": (), "Tanh": (), "Sigmoid": (), "LeakyRelu": ("alpha",), "Clip": ("min", "max"),
    "HardSigmoid": ("alpha", "beta"), "HardSwish": (), "Elu": ("alpha",), "Softplus": (),
    "Softsign": (), "Selu": ("alpha", "gamma"), "ThresholdedRelu": ("alpha",),
}  # fmt: skip


def _activated(call: Call, x: Value, number: Callable[[int, str], float | None]) -> Value:
    """Apply the activation that an attribute names.

    Args:
        call: the operator.
        x: what the layer made.
        number: returns a number of the activation, by its place and name; None if it is not there.
    """
    kind = call.attribute("activation", "")
    if not kind:
        return x
    if kind not in _ACTIVATIONS:
        call.refuse(f"activation must be one of {', '.join(_ACTIVATIONS)}, got {kind!r}")
    given = {name: number(i, name) for i, name in enumerate(_ACTIVATIONS[kind])}
    attributes = {name: found for name, found in given.items() if found is not None}
    node = replace(call.node, kind=kind, attributes=attributes)
    # Limits are attributes in opset 6.
    family = {**activations.CONVERTERS, **elementwise.CONVERTERS}
    made: Value = family[kind](replace(call, node=node, inputs=(x,), opset=6))
    return made


def _fused_convolution(call: Call) -> Value:
    """Convolve, add a tensor, apply an activation."""
    out: Value = convolution.CONVERTERS["Conv"](replace(call, inputs=call.inputs[:3]))
    given: tuple[float, ...] = call.attribute("activation_params", ())
    numbers = dict(enumerate(given))
    return _activated(call, _biased(call, out, 3), lambda i, _: numbers.get(i))


def _fused_gemm(call: Call) -> Value:
    out: Value = products.CONVERTERS["Gemm"](call)
    return _activated(call, out, lambda _, name: call.attribute(f"activation_{name}", None))


# ---- Norms

# What is added to variances if the operator does not say it.
_EPSILON = 1e-12


def _normalised(call: Call, x: Value, scale: Value, bias: Value | None) -> Value:
    op = ops.LayerNorm(-1, call.attribute("epsilon", _EPSILON), center=bias is not None)
    return call.apply(op, x, scale, *([] if bias is None else [bias]))


def _skip_layer_norm(call: Call) -> list[Value | None]:
    """Add the skipped input and a bias, and normalise; the sum is the fourth output."""
    total = _biased(call, _biased(call, call.value(0), 1), 4)
    return _with_sum(call, _normalised(call, total, call.value(2), call.optional(3)), total)


def _skip_rms_norm(call: Call) -> list[Value | None]:
    total = _biased(call, _biased(call, call.value(0), 1), 3)
    op = ops.RmsNorm(-1, call.attribute("epsilon", _EPSILON))
    return _with_sum(call, call.apply(op, total, call.value(2)), total)


def _with_sum(call: Call, out: Value, total: Value) -> list[Value | None]:
    """Return both with nothing between them, where there are statistics in training."""
    lost = [name for name in call.node.outputs[1:3] if name]
    if lost:
        call.refuse(f"its output {lost[0]!r} is not supported")
    return [out, None, None, total]


def _embedded(call: Call) -> list[Value | None]:
    """Add the rows of words, positions and segments, and normalise.

    The other results are the number of ones in each row of the mask, and the sum.
    """
    words = call.value(0)
    batch, rows = words.shape
    total = taken(call, call.value(2), words, 0)
    places = part(call, call.value(3), 0, 0, rows)
    if call.has(8):
        places = taken(call, call.value(3), call.value(8), 0)
    total = combined(call, ops.Add(), total, places)
    if call.has(1):
        total = combined(call, ops.Add(), total, taken(call, call.value(4), call.value(1), 0))
    counts = call.as_value(np.zeros(batch, "int32"))
    if call.has(7):
        ones = call.cast(call.binary(ops.Equal, call.value(7), 1), "int32")
        counts = call.apply(ops.Sum((1,)), ones)
    return [_normalised(call, total, call.value(5), call.optional(6)), counts, total]


# ---- Weights of few bits


def _numbers_of(call: Call, packed: Array, bits: int) -> Array:
    """Return the numbers in bytes, the lowest bits first, along the last axis."""
    if bits not in (2, 4, 8):
        call.refuse(f"bits must be 2, 4 or 8, got {bits}")
    shifts = np.arange(0, 8, bits, dtype="uint8")
    apart: Array = (packed[..., None] >> shifts) & np.uint8((1 << bits) - 1)
    return apart.reshape(*packed.shape[:-1], packed.shape[-1] * len(shifts))


def _few_bits(call: Call) -> Value:
    """Multiply by weights of few bits, each block of which has a scale and a zero point."""
    call.refuse_given({4: "g_idx"}, ("weight_prepacked",))
    rows, columns = call.attribute("N", 0), call.attribute("K", 0)
    bits, block = call.attribute("bits", 4), call.attribute("block_size", 0)
    packed, scales = call.known(1, "B"), call.known(2, "scales")
    blocks = -(-columns // max(block, 1))
    fits = packed.dtype == "uint8" and packed.size == rows * blocks * (block * bits // 8)
    if not fits or not packed.size or scales.size != rows * blocks:
        call.refuse(
            f"B must have {rows} rows of {blocks} blocks of {block} numbers of {bits} bits, with "
            f"a scale each, got {packed.dtype}{[*packed.shape]} and {[*scales.shape]}"
        )
    steps = _numbers_of(call, packed.reshape(rows, blocks, -1), bits).astype("float32")
    zero: Array = np.full((rows, blocks, 1), 1 << (bits - 1), "float32")
    if call.has(3):
        given = call.known(3, "zero_points")
        if given.dtype == "uint8":
            given = _numbers_of(call, given.reshape(rows, -1), bits)[:, :blocks]
        zero = given.astype("float32").reshape(rows, blocks, 1)
    with np.errstate(all="ignore"):
        real = (steps - zero) * scales.astype("float32").reshape(rows, blocks, 1)
    x = call.value(0)
    weight = real.reshape(rows, blocks * block)[:, :columns].T.astype(scales.dtype)
    out = matmul(call, x, call.cast(call.as_value(np.ascontiguousarray(weight)), x.dtype))
    return _biased(call, out, 5)


# ONNX Runtime puts it into ONNX's own domain.
OWN: dict[str, Converter] = {"SimplifiedLayerNormalization": rms_norm}
CONVERTERS: dict[str, Converter] = {
    "Gelu": _gelu,
    "BiasGelu": _gelu,
    "FastGelu": _fast_gelu,
    "QuickGelu": _quick_gelu,
    "FusedMatMul": _fused_matmul,
    "FusedConv": _fused_convolution,
    "FusedGemm": _fused_gemm,
    "SkipLayerNormalization": _skip_layer_norm,
    "SkipSimplifiedLayerNormalization": _skip_rms_norm,
    "EmbedLayerNormalization": _embedded,
    "MatMulNBits": _few_bits,
}
