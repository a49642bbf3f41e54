"""Layers of 8-bit integers: by CPUs that add products of bytes, and by tensor cores."""

from __future__ import annotations

from typing import Any

from autotune.graph import ops
from autotune.network.implementations import Offer, implements
from autotune.network.layer import Epilogue, Layer

from ..convolutions.conv2d_int8_cpu import IntegerConv2d
from ..products.gemm_shape import LARGEST
from ..quantised import MOST_TERMS, RESULTS, Requantisation, has_dots, has_mma
from .cuda import padding_of

_DTYPES = (*RESULTS, "int32")


@implements(
    "qnn.conv2d", "cpu", "conv2d_int8.cpu", ["NCHW"], dtypes=_DTYPES, activations=("none",)
)
def conv2d(layer: Layer) -> Offer | None:
    """Offer the kernel, with filters that are packed once where they are known."""
    return _conv2d_cpu(layer)


@implements(
    "qnn.conv2d_add", "cpu", "conv2d_int8.cpu", ["NCHW"], dtypes=_DTYPES, activations=("none",)
)
def conv2d_add(layer: Layer) -> Offer | None:
    """Offer the same kernel with a residual."""
    return _conv2d_cpu(layer, _residual_of(layer))


def _residual_of(layer: Layer) -> tuple[Any, ...]:
    """Return the arguments of a template that say how a residual is added."""
    op = layer.op
    assert isinstance(op, ops.QuantisedConv2dAdd)
    return layer.inputs[5].dtype, op.residual_zero, *op.scales, op.conv_low, op.conv_high


def _conv2d_cpu(layer: Layer, residual: tuple[Any, ...] = ()) -> Offer | None:
    op, (data, weight, *_) = layer.op, layer.inputs
    assert isinstance(op, ops.QuantisedConv2d)
    plain, (filters, channels, kh, kw) = op.plain, weight.shape
    if layer.epilogue != Epilogue() or not has_dots(layer.target):
        return None
    if channels * kh * kw > MOST_TERMS:
        return None
    n, ci, h, w = data.shape
    end = Requantisation.of(op, data.dtype)
    args = (
        n, h, w, filters, ci, kh, kw, plain.steps, padding_of(plain.sides),
        plain.holes, op.groups, *end.args,
    )  # fmt: skip
    (sy, sx), (tall, wide), (dy, dx) = plain.steps, plain.sides, plain.holes
    shape = IntegerConv2d(
        n, h, w, filters, ci, kh, kw, (sy, sx), (tall, wide), (dy, dx), op.groups, end
    )
    if shape.is_depthwise and residual:
        return None
    packs = weight in layer.constants and not shape.is_depthwise
    beyond = (packs, *residual) if packs or residual else ()
    return Offer(
        "conv2d_int8.cpu", (*args, *beyond), layer.inputs, {weight: shape.packing} if packs else {}
    )


@implements("qnn.dense", "cpu", "gemm_int8.cpu", dtypes=_DTYPES, activations=("none",))
def dense(layer: Layer) -> Offer | None:
    """Offer the kernel for rows of any number."""
    op, (data, weight, *_) = layer.op, layer.inputs
    if layer.epilogue != Epilogue() or not has_dots(layer.target):
        return None
    if weight.shape[1] > MOST_TERMS:
        return None
    args = (*data.shape[:1], *weight.shape, *Requantisation.of(op, data.dtype).args)
    return Offer("gemm_int8.cpu", args, layer.inputs)


@implements(
    "qnn.conv2d", "cuda", "conv2d_int8.cuda", ["NHWC"], dtypes=_DTYPES, activations=("none",)
)
def conv2d_cuda(layer: Layer) -> Offer | None:
    """Offer the kernels of tensor cores, and those of depthwise layers."""
    return _conv2d_cuda(layer)


@implements(
    "qnn.conv2d_add", "cuda", "conv2d_int8.cuda", ["NHWC"], dtypes=_DTYPES, activations=("none",)
)
def conv2d_add_cuda(layer: Layer) -> Offer | None:
    """Offer the same kernels with a residual."""
    return _conv2d_cuda(layer, _residual_of(layer))


def _conv2d_cuda(layer: Layer, residual: tuple[Any, ...] = ()) -> Offer | None:
    op, (data, weight, *_) = layer.op, layer.inputs
    assert isinstance(op, ops.QuantisedConv2d)
    plain, (filters, kh, kw, channels) = op.plain, weight.shape
    n, h, w, ci = data.shape
    if layer.epilogue != Epilogue() or channels * kh * kw > MOST_TERMS:
        return None
    args = (
        n, h, w, filters, ci, kh, kw, plain.steps, padding_of(plain.sides), plain.holes,
        op.groups, *Requantisation.of(op, data.dtype).args, *residual,
    )  # fmt: skip
    return _offered("conv2d_int8.cuda", args, layer)


@implements("qnn.dense", "cuda", "gemm_int8.cuda", dtypes=_DTYPES, activations=("none",))
def dense_cuda(layer: Layer) -> Offer | None:
    """Offer the kernel of tensor cores for rows of any number."""
    op, (data, weight, *_) = layer.op, layer.inputs
    if layer.epilogue != Epilogue() or weight.shape[1] > MOST_TERMS:
        return None
    args = (*data.shape[:1], *weight.shape, *Requantisation.of(op, data.dtype).args)
    return _offered("gemm_int8.cuda", args, layer)


def _offered(template: str, args: tuple[Any, ...], layer: Layer) -> Offer | None:
    """Offer a kernel of tensor cores, where a target has them and it indexes so many elements."""
    most = max(value.type.size for value in layer.inputs)
    if max(most, layer.result.size) > LARGEST or not has_mma(layer.target):
        return None
    return Offer(template, args, layer.inputs)
