"""Layers of networks that the CUDA templates compute as products of matrices.

Each says for which shapes it is worth trying: few rows are read fastest by `matvec.cuda`, more
fill the tiles of `gemm.cuda`; in between both are tried, and where nothing was tuned the first.
"""

from __future__ import annotations

from typing import Any

from autotune.graph import Operator, Value, ops
from autotune.network.implementations import Offer, implements
from autotune.network.layer import Epilogue, Layer

from ..products import gemm_padded, gemm_skinny
from ..products.gemm_shape import Gemm
from .cuda import ACTIVATIONS, FLOATS, given, images, of_each_channel, padding_of

# Rows from which on tiles are worth trying, and up to which weights are read once: on an H200 a
# product of 5 rows of bfloat16 by 4096x11008 took 28.8 us in tiles and 38.6 so, of 8 rows of
# float16 by 4096x4096 9.9 and 19.1, of 8 rows of float32 by 1000x512 4.6 and 3.3.
FILLED, FEW = 4, {"float32": 8, "float16": 4, "bfloat16": 4}
# Arguments of a product of ``gemm.cuda`` without what follows it.
PLAIN = 7


def _follows(epilogue: Epilogue) -> tuple[bool, str, bool, bool] | None:
    """Return bias, activation, residual and affine as templates take them."""
    if (epilogue.scale is None) != (epilogue.shift is None):
        return None
    flags = (epilogue.bias is not None, epilogue.residual is not None, epilogue.scale is not None)
    return flags[0], epilogue.activation, flags[1], flags[2]


@implements(
    "nn.conv2d", "cuda", "conv2d_nhwc.cuda", layouts=["NHWC"], dtypes=FLOATS,
    activations=ACTIVATIONS,
)  # fmt: skip
def conv2d_nhwc(layer: Layer) -> Offer | None:
    """Offer the kernel, also for groups; filters in another layout are rearranged once."""
    op, follows = layer.op, _follows(layer.epilogue)
    assert isinstance(op, ops.Conv2d)
    data, weight = layer.inputs
    prepared: dict[Value, Operator] = {}
    if op.kernel_layout != "HWIO":
        if weight not in layer.constants:
            return None
        prepared[weight] = ops.Transpose(tuple(map(op.kernel_layout.index, "HWIO")))
    kh, kw, ci, co = (weight.shape[op.kernel_layout.index(letter)] for letter in "HWIO")
    groups, dtype = op.groups, layer.result.dtype
    # Of groups of 16-bit floats no copies are made.
    odd = groups > 1 and dtype != "float32" and (ci % 2 > 0 or co // groups % 2 > 0)
    if follows is None or odd or of_each_channel(layer):
        return None
    n, h, w, channels = images(op.data_layout, data.shape)
    args: tuple[Any, ...] = (n, h, w, co, channels, kh, kw, op.steps, padding_of(op.sides))
    args = (*args, *follows, op.holes, dtype, *([groups] if groups > 1 else []))
    return Offer("conv2d_nhwc.cuda", args, (*layer.inputs, *given(layer.epilogue)), prepared)


def _is_streamed(layer: Layer) -> bool:
    """Return whether the weights of a dense layer are streamed in tiles (`gemm_skinny`).

    On an H200 4 rows of float16 by 4096x4096 took 11.67 us by `matvec.cuda`, and 7.52 so; two by
    7584x6296, beyond the L2 cache, 32.0 and 28.0, by 8336x10608 50.1 and 44.8, but 2x120x9888 2.8
    and 4.5.
    """
    data, weight = layer.inputs
    (m, k), n = data.shape, weight.shape[0]
    product = Gemm(m, n, k, layer.result.dtype, transpose_b=True)
    large = m >= FILLED or (m > 1 and gemm_skinny.is_far(product))
    return large and gemm_skinny.streams(product, layer.target)


@implements("nn.dense", "cuda", "matvec.cuda", dtypes=FLOATS, activations=ACTIVATIONS)
def matvec(layer: Layer) -> Offer | None:
    """Offer the kernel for few rows, with its epilogue."""
    follows, (data, weight) = _follows(layer.epilogue), layer.inputs
    (m, k), n = data.shape, weight.shape[0]
    if follows is None or m > FEW[layer.result.dtype]:
        return None
    if _is_streamed(layer):
        return None
    args = (n, k, m, layer.result.dtype, *follows)
    return Offer("matvec.cuda", args, (*layer.inputs, *given(layer.epilogue)))


@implements("nn.dense", "cuda", "gemm.cuda", dtypes=FLOATS, activations=ACTIVATIONS)
def dense(layer: Layer) -> Offer | None:
    """Offer the kernel for more rows.

    Weights that are known are transposed once, for float32, or their rows are padded once.
    """
    follows, (data, weight) = _follows(layer.epilogue), layer.inputs
    (m, k), n, dtype = data.shape, weight.shape[0], layer.result.dtype
    if follows is None or (m < FILLED and not _is_streamed(layer)):
        return None
    # Without what follows the template of plain products offers the same.
    transposed = weight in layer.constants and dtype == "float32"
    if transposed and layer.epilogue == Epilogue():
        return None
    prepared: dict[Value, Operator] = {weight: ops.Transpose((1, 0))} if transposed else {}
    args: tuple[Any, ...] = (m, n, k, dtype, 1, False, not transposed, *follows)
    aliases: tuple[tuple[object, ...], ...] = ()
    product = Gemm(m, n, k, dtype, transpose_b=True)
    if weight in layer.constants and gemm_padded.gains_by_padded_b(product, layer.target):
        row = gemm_padded.row_of_copy(k)
        prepared = {weight: ops.Pad(((0, 0), (0, row - k)))}
        # Records on copies of both serve those of a alone.
        short = () if layer.epilogue != Epilogue() else (("gemm.cuda", *args[:PLAIN]),)
        aliases = (("gemm.cuda", *args), *short)
        args = (*args, 1.0, "", False, row)
    operands = (*layer.inputs, *given(layer.epilogue))
    return Offer("gemm.cuda", args, operands, prepared, aliases)


@implements("nn.batch_matmul", "cuda", "gemm.cuda", dtypes=FLOATS, activations=ACTIVATIONS)
def batch_matmul(layer: Layer) -> Offer | None:
    """Offer the kernel for batches of products, one matrix of which may serve all."""
    op, follows, (a, b) = layer.op, _follows(layer.epilogue), layer.inputs
    assert isinstance(op, ops.BatchMatmul)
    batch, m, n = layer.result.shape
    k = a.shape[1 if op.transpose_a else 2]
    if follows is None:
        return None
    shared = "" if a.shape[0] == b.shape[0] else "a" if a.shape[0] == 1 else "b"
    args: tuple[Any, ...] = (m, n, k, layer.result.dtype, batch, op.transpose_a, op.transpose_b)
    args = (*args, *follows)
    args = (*args, 1.0, shared) if shared else args
    return Offer("gemm.cuda", args, (*layer.inputs, *given(layer.epilogue)))
