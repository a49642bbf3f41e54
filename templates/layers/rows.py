"""Layers of networks for the templates of norms, prefix sums and attention.

Rows of norms and sums must be along the last axes: strided rows are left to tensor expressions,
but for softmax on a GPU. Rows of any number
and length are offered, since CUDA kernels choose the threads of a row and split few long ones
among blocks; attention needs a head size that tensor cores support. CPU kernels are of float32.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

from autotune.graph import ops
from autotune.network.implementations import Offer, implements
from autotune.network.layer import Epilogue, Layer

from ..attention.attention_cpu import FloatAttention
from ..attention.attention_mma import Attention
from ..products.gemm_shape import HALVES
from ..rows.columns_cuda import Columns
from ..rows.rows_shape import Rows
from ..rows.scan_columns import ScanColumns
from ..rows.scan_cuda import DTYPES as SUMMED
from ..rows.scan_cuda import Scan
from .cuda import FLOAT32, FLOATS, takes


def along_axis(layer: Layer, axis: Any) -> tuple[int, int, int] | None:
    """Return the extents before an axis, along it, and behind it; None if it is no axis."""
    shape = layer.inputs[0].shape
    if not shape or layer.epilogue != Epilogue() or not -len(shape) <= axis < len(shape):
        return None
    at = axis % len(shape)
    return math.prod(shape[:at]), shape[at], math.prod(shape[at + 1 :])


def _rows(layer: Layer, axis: int) -> tuple[int, int] | None:
    """Return the number of rows along the last axis, and their length."""
    shape = layer.inputs[0].shape
    last = bool(shape) and axis in (-1, len(shape) - 1)
    return (math.prod(shape[:-1]), shape[-1]) if last and layer.epilogue == Epilogue() else None


def _vectors(layer: Layer) -> tuple[Any, ...]:
    """Return data, and gamma and beta if they are used."""
    op, (data, *vectors) = layer.op, layer.inputs
    assert isinstance(op, ops.Norm)
    return (data, *op.used(vectors).values())


def _of_dtype(kind: str, dtype: str) -> tuple[str, ...]:
    """Return a dtype as the templates of a kind of target take it: on a CPU there is only one."""
    return (dtype,) if kind == "cuda" else ()


def layer_norm(kind: str, layer: Layer) -> Offer | None:
    """Offer the map of rows, with the vectors that follow."""
    op = layer.op
    assert isinstance(op, ops.LayerNorm)
    extents = _rows(layer, op.axis_of_norm)
    if extents is None:
        return None
    dtype = layer.result.dtype
    args = (*extents, op.epsilon, op.scale, op.center, *_of_dtype(kind, dtype))
    fits = takes(Rows, "layer_norm", *extents, dtype, op.epsilon)
    return Offer(f"layer_norm.{kind}", args, _vectors(layer)) if fits else None


def rms_norm(kind: str, layer: Layer) -> Offer | None:
    """Offer the map of rows, with the vector that follows."""
    op = layer.op
    assert isinstance(op, ops.RmsNorm)
    extents = _rows(layer, op.axis_of_norm)
    if extents is None:
        return None
    dtype = layer.result.dtype
    args = (*extents, op.epsilon, op.scale, *_of_dtype(kind, dtype))
    fits = takes(Rows, "rms_norm", *extents, dtype, op.epsilon)
    return Offer(f"rms_norm.{kind}", args, _vectors(layer)) if fits else None


def group_norm(kind: str, layer: Layer) -> Offer | None:
    """Offer the map of rows that are groups of channels, with the vectors that follow."""
    op = layer.op
    assert isinstance(op, ops.GroupNorm | ops.InstanceNorm)
    images, channels, *pixels = layer.inputs[0].shape
    groups = op.num_groups if isinstance(op, ops.GroupNorm) else channels
    spatial = math.prod(pixels)
    rows = ("layer_norm", images * groups, channels // groups * spatial, layer.result.dtype)
    if not takes(Rows, *rows, op.epsilon) or layer.epilogue != Epilogue():
        return None
    given = (images, channels, spatial, groups, op.epsilon, op.scale, op.center)
    args = (*given, *_of_dtype(kind, layer.result.dtype))
    return Offer(f"group_norm.{kind}", args, _vectors(layer))


def log_softmax(kind: str, layer: Layer) -> Offer | None:
    """Offer the map of rows, and on a GPU that of columns."""
    assert isinstance(layer.op, ops.LogSoftmax)
    extents, dtype = along_axis(layer, layer.op.axis_of_sum), layer.result.dtype
    if extents is None:
        return None
    rows, columns, inner = extents
    args: tuple[Any, ...] = (rows, columns, *_of_dtype(kind, dtype))
    if inner == 1:
        fits = takes(Rows, "log_softmax", rows, columns, dtype)
    else:
        args = (rows, columns, dtype, inner)
        fits = kind == "cuda" and takes(Columns, "log_softmax", rows, columns, inner, dtype)
    return Offer(f"log_softmax.{kind}", args, layer.inputs) if fits else None


def cumsum(kind: str, layer: Layer) -> Offer | None:
    """Offer the scan of rows, and on a GPU that of columns."""
    assert isinstance(layer.op, ops.Cumsum)
    extents, dtype = along_axis(layer, layer.op.along), layer.result.dtype
    if extents is None:
        return None
    rows, columns, inner = extents
    args: tuple[Any, ...] = (rows, columns, *_of_dtype(kind, dtype))
    if inner == 1:
        fits = takes(Scan, rows, columns, dtype)
    else:
        args = (rows, columns, dtype, inner)
        fits = kind == "cuda" and takes(ScanColumns, rows, columns, inner, dtype)
    return Offer(f"cumsum.{kind}", args, layer.inputs) if fits else None


_MATCHERS: tuple[tuple[str, str, Callable[[str, Layer], Offer | None]], ...] = (
    ("nn.layer_norm", "layer_norm", layer_norm),
    ("nn.rms_norm", "rms_norm", rms_norm),
    ("nn.group_norm", "group_norm", group_norm),
    ("nn.instance_norm", "group_norm", group_norm),
    ("nn.log_softmax", "log_softmax", log_softmax),
    ("cumsum", "cumsum", cumsum),
)
for _kind, _dtypes in (("cuda", FLOATS), ("cpu", FLOAT32)):
    for _operator, _template, _matcher in _MATCHERS:
        _match = partial(_matcher, _kind)
        _types = tuple(SUMMED) if (_operator, _kind) == ("cumsum", "cuda") else _dtypes
        implements(_operator, _kind, f"{_template}.{_kind}", dtypes=_types)(_match)


def _heads_of(layer: Layer) -> tuple[str, tuple[int, ...]]:
    """Return the layout of attention, and batch, heads, kv_heads, queries, keys, size."""
    op, (q, *others) = layer.op, layer.inputs
    if isinstance(op, ops.PackedAttention):
        batch, rows, every, size = q.shape
        kv_heads = op.kv_heads or every // 3
        return "packed", (batch, every - 2 * kv_heads, kv_heads, rows, rows, size)
    k = others[0].shape
    if isinstance(op, ops.RowsFirstAttention):
        batch, queries, heads, size = q.shape
        return "BSHD", (batch, heads, k[2], queries, k[1], size)
    batch, heads, queries, size = q.shape
    return "BHSD", (batch, heads, k[1], queries, k[2], size)


def _bias_of(layer: Layer) -> tuple[Any, ...]:
    """Return the extents of the bias of attention, and its type where that is another one."""
    biases = layer.inputs[1 if isinstance(layer.op, ops.PackedAttention) else 3 :]
    for bias in biases:
        return (bias.shape[:3], *([] if bias.dtype == layer.result.dtype else [bias.dtype]))
    return ()


def attention(kind: str, layer: Layer) -> Offer | None:
    """Offer the kernel that keeps scores to itself; a GPU's has heads of even sizes."""
    op = layer.op
    assert isinstance(op, ops.Attention)
    layout, (batch, heads, kv_heads, queries, keys, size) = _heads_of(layer)
    factor = op.factor(size)
    # What has its default is left out, so that records of it are found.
    scale = 0.0 if factor == size**-0.5 else factor
    dtype, seen, bias = layer.result.dtype, (op.causal, scale), _bias_of(layer)
    extents = (batch, heads, kv_heads, queries, keys, size, *seen, dtype, layout, *bias)
    serves = factor > 0 and takes(Attention if kind == "cuda" else FloatAttention, *extents)
    if not serves or layer.epilogue != Epilogue():
        return None
    grouped = kv_heads if kv_heads < heads else 0
    order = [layout] if layout != "BHSD" or bias else []
    args = (
        batch,
        heads,
        queries,
        keys,
        size,
        grouped,
        *seen,
        *_of_dtype(kind, dtype),
        *order,
        *bias,
    )
    return Offer(f"attention.{kind}", args, layer.inputs)


for _name in ("scaled_dot_product", "rows_first", "packed"):
    for _kind, _floats in (("cuda", HALVES), ("cpu", FLOAT32)):
        _match, _operator = partial(attention, _kind), f"nn.{_name}_attention"
        # A bias may be of float32.
        implements(_operator, _kind, f"attention.{_kind}", dtypes=_floats, mixes=True)(_match)
