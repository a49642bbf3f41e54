"""Layers of networks by CPU templates, by tensor expressions, and 3-D convolutions.

Those that only a GPU has are in `cuda`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from autotune.graph import ops
from autotune.network.implementations import Offer, implements
from autotune.network.layer import Epilogue, Layer
from autotune.network.template_tasks import layer_tasks

from ..convolutions.conv2d_transpose import Conv2dTranspose
from ..convolutions.conv3d import Conv3d
from ..cpu_tiles import vector_unit
from ..products.gemm_packed_cpu import ACTIVATIONS
from ..rows.columns_cuda import Columns
from ..rows.rows_shape import Rows
from . import chains as chains  # enters itself
from . import elementwise as elementwise  # enters itself
from . import products as products  # enters itself
from . import quantised as quantised  # enters itself
from . import reductions as reductions  # enters itself
from . import rows as rows  # enters itself
from . import winograd as winograd  # enters itself, before what is slower
from .cuda import ACTIVATIONS as EVERY_ACTIVATION
from .cuda import (
    FLOAT32,
    FLOATS,
    enter_windows,
    given,
    of_each_channel,
    padding_of,
    takes,
    unusual,
)
from .products import FILLED
from .rows import along_axis


def _plain_conv2d(layer: Layer) -> tuple[Any, ...] | None:
    """Return extents, strides and padding of a convolution NCHW as templates take them."""
    op = layer.op
    assert isinstance(op, ops.Conv2d)
    return _extents(layer) if op.holes == (1, 1) else None


def _extents(layer: Layer) -> tuple[Any, ...]:
    op = layer.op
    assert isinstance(op, ops.Conv2d)
    n, ci, h, w = layer.inputs[0].shape
    co, _, kh, kw = layer.inputs[1].shape
    return n, h, w, co, ci, kh, kw, op.steps, padding_of(op.sides)


@implements("nn.conv2d", "cpu", "conv2d_nchw.cpu", ["NCHW"], FLOAT32, EVERY_ACTIVATION, keeps=True)
def conv2d_nchw_cpu(layer: Layer) -> Offer | None:
    """Offer the C kernel for all but depthwise convolutions, with their epilogue."""
    op, epilogue = layer.op, layer.epilogue
    assert isinstance(op, ops.Conv2d)
    if of_each_channel(layer):
        return None
    if (epilogue.scale is None) != (epilogue.shift is None) and not epilogue.shifts:
        return None
    args: tuple[Any, ...] = (*_extents(layer), epilogue.bias is not None, epilogue.relu)
    follows = (epilogue.residual is not None, epilogue.scale is not None)
    other = "none" if epilogue.relu else epilogue.activation
    beyond: tuple[Any, ...] = (epilogue.kept, epilogue.shifts, op.holes, op.groups, other)
    # What has its default at the end is left out: so do scripts, and records name arguments.
    rest, usual = [*follows, *beyond], [False, False, False, False, (1, 1), 1, "none"]
    while rest and rest[-1] == usual[len(rest) - 1]:
        rest.pop()
    # A residual and an affine map are named together.
    rest = [*rest, *follows[1:]] if len(rest) == 1 else rest
    return Offer("conv2d_nchw.cpu", (*args, *rest), (*layer.inputs, *given(epilogue)))


enter_windows("cpu", ("NCHW",))
# Rows from which on packed weights are faster than rows of transposed ones, which are read in
# longer runs.
_PACKED = 3


@implements("nn.dense", "cpu", "gemm_packed.cpu", dtypes=FLOAT32, activations=ACTIVATIONS)
def dense_packed(layer: Layer) -> Offer | None:
    """Offer the product with weights that are packed once, with its epilogue."""
    (data, weight), epilogue = layer.inputs, layer.epilogue
    (m, k), n, columns = data.shape, weight.shape[0], vector_unit(layer.target).floats
    if weight not in layer.constants or m < _PACKED or epilogue.scale is not None:
        return None
    follows = (epilogue.bias is not None, epilogue.relu, epilogue.residual is not None)
    prepared = {weight: ops.PackedWeight(columns)}
    operands = (*layer.inputs, *given(epilogue))
    return Offer("gemm_packed.cpu", (m, n, k, *follows, columns), operands, prepared)


def _depthwise(template: str) -> Callable[[Layer], Offer | None]:
    def depthwise(layer: Layer) -> Offer | None:
        shape, op = _plain_conv2d(layer), layer.op
        assert isinstance(op, ops.Conv2d)
        each = op.is_depthwise(*(value.type for value in layer.inputs))
        if shape is None or not each or layer.epilogue != Epilogue():
            return None
        n, h, w, co, ci, *rest = shape
        args = (n, h, w, ci, co // ci, *rest)
        return Offer(template, args, layer.inputs)

    return depthwise


def _te_conv2d(template: str) -> Callable[[Layer], Offer | None]:
    def conv2d(layer: Layer) -> Offer | None:
        shape = _plain_conv2d(layer)
        whole = layer.op.groups == 1  # type: ignore[attr-defined]
        if shape is None or not whole or layer.epilogue != Epilogue():
            return None
        return Offer(template, shape, layer.inputs)

    return conv2d


def _dense(template: str) -> Callable[[Layer], Offer | None]:
    def dense(layer: Layer) -> Offer | None:
        if layer.epilogue != Epilogue():
            return None
        data, weight = layer.inputs
        return Offer(template, (*data.shape[:1], *weight.shape), layer.inputs)

    return dense


def _gemm(template: str) -> Callable[[Layer], Offer | None]:
    def gemm(layer: Layer) -> Offer | None:
        """Offer the product with weights that are transposed once; few rows do not fill a GPU."""
        data, weight = layer.inputs
        few = template.endswith("cuda") and data.shape[0] < FILLED
        if few or weight not in layer.constants or layer.epilogue != Epilogue():
            return None
        (m, k), n = data.shape, weight.shape[0]
        return Offer(template, (m, n, k), layer.inputs, {weight: ops.Transpose((1, 0))})

    return gemm


@implements("nn.batch_matmul", "cpu", "gemm.cpu", dtypes=FLOAT32)
def batch_matmul(layer: Layer) -> Offer | None:
    """Offer the kernel for batches of products, one matrix of which may serve all."""
    op, (a, b) = layer.op, layer.inputs
    assert isinstance(op, ops.BatchMatmul)
    if layer.epilogue != Epilogue():
        return None
    (batch, m, n), k = layer.result.shape, a.shape[1 if op.transpose_a else 2]
    shared = "" if a.shape[0] == b.shape[0] else "a" if a.shape[0] == 1 else "b"
    args = (m, n, k, batch, op.transpose_a, op.transpose_b, *([shared] if shared else []))
    return Offer("gemm.cpu", args, layer.inputs)


@implements("nn.dense", "cpu", "gemm.cpu", dtypes=FLOAT32)
def dense_of_unknown(layer: Layer) -> Offer | None:
    """Offer the product with weights that are not known before."""
    data, weight = layer.inputs
    if weight in layer.constants or layer.epilogue != Epilogue():
        return None
    (m, k), n = data.shape, weight.shape[0]
    return Offer("gemm.cpu", (m, n, k, 1, False, True), layer.inputs)


def _softmax(template: str) -> Callable[[Layer], Offer | None]:
    def softmax(layer: Layer) -> Offer | None:
        op, (data,) = layer.op, layer.inputs
        assert isinstance(op, ops.Softmax)
        extents = along_axis(layer, op.axis_of_sum)
        if extents is None:
            return None
        rows, columns, inner = extents
        if inner == 1:
            args: tuple[Any, ...] = (rows, columns, *unusual(data.dtype))
            fits = takes(Rows, "softmax", *args)
        else:
            args = (rows, columns, data.dtype, inner)
            strided = template == "softmax.cuda"
            fits = strided and takes(Columns, "softmax", rows, columns, inner, data.dtype)
        return Offer(template, args, layer.inputs) if fits else None

    return softmax


def _enter(kind: str) -> None:
    """Enter what a CPU and a GPU both have."""
    more = FLOATS if kind == "cuda" else FLOAT32
    for operator, template, matcher, layouts, dtypes in (
        ("nn.conv2d", "te/depthwise_conv2d_nchw", _depthwise, ("NCHW",), FLOAT32),
        ("nn.conv2d", "te/conv2d_nchw", _te_conv2d, ("NCHW",), FLOAT32),
        ("nn.dense", "gemm_nn", _gemm, None, FLOAT32),
        ("nn.dense", "te/dense", _dense, None, FLOAT32),
        ("nn.softmax", "softmax", _softmax, None, more),
        ("nn.softmax", "te/softmax", _softmax, None, FLOAT32),
    ):
        name = f"{template}.{kind}"
        implements(operator, kind, name, layouts, dtypes)(matcher(name))


def _by_tvm_name(template: str) -> Callable[[Layer], Offer | None]:
    def operator(layer: Layer) -> Offer | None:
        """Offer the template that has the arguments of TVM's logs."""
        tasks = layer_tasks(layer.op, layer.inputs, layer.result.dtype, layer.target)
        args = next((task.args for task in tasks if task.name == template), None)
        if args is None or layer.epilogue != Epilogue() or getattr(layer.op, "groups", 1) != 1:
            return None
        return Offer(template, args, layer.inputs)

    return operator


@implements("nn.conv3d", "cuda", "conv3d.cuda", ("NCDHW", "NDHWC"), FLOAT32, ("none",))
def conv3d(layer: Layer) -> Offer | None:
    """Offer the kernels of 3-D convolutions without epilogue."""
    op = layer.op
    assert isinstance(op, ops.Conv3d)
    data, weight = (each.shape for each in layer.inputs)
    if op.groups != 1 or layer.epilogue != Epilogue() or not Conv3d(op, data, weight).is_supported:
        return None
    args = (data, weight, op.strides, op.padding, op.dilation, op.data_layout)
    return Offer("conv3d.cuda", args, layer.inputs)


@implements(
    "nn.conv2d_transpose", "cuda", "conv2d_transpose.cuda", None, FLOAT32, ("none",)
)  # fmt: skip
def conv2d_transpose(layer: Layer) -> Offer | None:
    """Offer the kernels of transposed convolutions without epilogue."""
    op = layer.op
    assert isinstance(op, ops.Conv2dTranspose)
    data, weight = (each.shape for each in layer.inputs)
    if layer.epilogue != Epilogue() or not Conv2dTranspose(op, data, weight).is_supported:
        return None
    args = (data, weight, op.strides, op.padding, op.output_padding)
    return Offer("conv2d_transpose.cuda", args, layer.inputs)


_enter("cpu")
_enter("cuda")
for _operator, _template, _layouts in (
    ("nn.conv3d", "conv3d_ncdhw.cuda", ("NCDHW",)),
    ("nn.conv3d", "conv3d_ndhwc.cuda", ("NDHWC",)),
    ("nn.conv2d_transpose", "conv2d_transpose_nchw.cuda", None),
):
    implements(_operator, "cuda", _template, _layouts, FLOAT32)(_by_tvm_name(_template))
