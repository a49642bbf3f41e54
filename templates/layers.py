"""Which layers of networks the templates compute, and with which arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from autotune.graph import ops
from autotune.network.implementations import Offer, implements
from autotune.network.layer import Epilogue, Layer

_FLOAT32 = {"float32"}


def _padding(sides: Any) -> tuple[int, ...]:
    """Return paddings as templates take them: (y, x), or all four where sides differ."""
    (top, bottom), (left, right) = sides
    even = (top, left) == (bottom, right)
    return (top, left) if even else (top, left, bottom, right)


def _extents(layer: Layer) -> tuple[Any, ...] | None:
    """Return extents, strides and paddings of a convolution NCHW."""
    op = layer.op
    assert isinstance(op, ops.Conv2d)
    if op.data_layout != "NCHW" or layer.dtypes != _FLOAT32:
        return None
    n, ci, h, w = layer.inputs[0].shape
    co, _, kh, kw = layer.inputs[1].shape
    return n, h, w, co, ci, kh, kw, op.steps, _padding(op.sides)


def _plain_conv2d(layer: Layer) -> tuple[Any, ...] | None:
    """Return the same of one without dilation and uneven padding."""
    op, found = layer.op, _extents(layer)
    assert isinstance(op, ops.Conv2d)
    return found if found is not None and op.holes == (1, 1) and len(found[-1]) == 2 else None


def _given(*operands: Any) -> tuple[Any, ...]:
    return tuple(each for each in operands if each is not None)


def _rest(layer: Layer) -> tuple[bool, bool, bool, bool] | None:
    """Return whether bias, ReLU, residual, scale with shift follow; None for a scale alone."""
    rest = layer.epilogue
    if (rest.scale is None) != (rest.shift is None):
        return None
    return rest.bias is not None, rest.relu, rest.residual is not None, rest.scale is not None


def _operands(layer: Layer) -> tuple[Any, ...]:
    rest = layer.epilogue
    return _given(*layer.inputs, rest.bias, rest.residual, rest.scale, rest.shift)


@implements("nn.conv2d", "cpu")
def conv2d_nchw_cpu(layer: Layer) -> Offer | None:
    """Offer the C kernel for whole convolutions with all that may follow."""
    shape, rest = _plain_conv2d(layer), _rest(layer)
    if shape is None or rest is None or layer.op.groups != 1:  # type: ignore[attr-defined]
        return None
    return Offer("conv2d_nchw.cpu", (*shape, *_shortened(rest)), _operands(layer))


def _shortened(rest: tuple[bool, bool, bool, bool]) -> tuple[bool, ...]:
    """Return what follows as arguments, as records have them from before there was more."""
    return rest if any(rest[2:]) else rest[:2]


@implements("nn.conv2d", "cuda")
def depthwise_conv2d_cuda(layer: Layer) -> Offer | None:
    """Offer the CUDA kernel for filters of each channel, in both layouts."""
    op, rest = layer.op, _rest(layer)
    assert isinstance(op, ops.Conv2d)
    data, weight = (value.type for value in layer.inputs)
    if rest is None or layer.dtypes != _FLOAT32 or not op.is_depthwise(data, weight):
        return None
    if op.data_layout == "NCHW":
        (n, c, h, w), (kh, kw) = data.shape, weight.shape[2:]
    elif (op.data_layout, op.kernel_layout) == ("NHWC", "HWOI"):
        (n, h, w, c), (kh, kw) = data.shape, weight.shape[:2]
    else:
        return None
    bias, relu, residual, affine = rest
    activation = "relu" if relu else "none"
    args = (
        n, h, w, c, weight.size // (c * kh * kw), kh, kw, op.steps, _padding(op.sides), bias,
        activation, residual, affine, op.holes, op.data_layout,
    )  # fmt: skip
    return Offer("depthwise_conv2d.cuda", args, _operands(layer))


@implements("nn.conv2d", "cuda")
def conv2d_nchw_cuda(layer: Layer) -> Offer | None:
    """Offer the CUDA kernel for convolutions with all that may follow."""
    shape, rest, op = _extents(layer), _rest(layer), layer.op
    assert isinstance(op, ops.Conv2d)
    if shape is None or rest is None:
        return None
    if op.is_depthwise(*(value.type for value in layer.inputs)):
        return None
    args: tuple[Any, ...] = (*shape, *_shortened(rest))
    if op.holes != (1, 1) or op.groups != 1:
        args = (*shape, *rest, op.holes, op.groups)
    return Offer("conv2d_nchw.cuda", args, _operands(layer))


def pool2d_cuda(layer: Layer) -> Offer | None:
    """Offer the CUDA kernel for pooling over windows, in both layouts."""
    op, (data,) = layer.op, layer.inputs
    assert isinstance(op, ops.Pool2d)
    if layer.dtypes != _FLOAT32 or op.layout not in ("NCHW", "NHWC") or op.ceil_mode:
        return None
    if layer.epilogue != Epilogue():
        return None
    by_axis = dict(zip(op.layout, data.shape, strict=True))
    size, step, sides, hole = zip(*op.windows(), strict=True)
    args = (
        op.kind, *(by_axis[axis] for axis in "NHWC"), size, step, _padding(sides), hole,
        op.count_include_pad, op.layout,
    )  # fmt: skip
    return Offer("pool2d.cuda", args, layer.inputs)


def global_pool2d_cuda(layer: Layer) -> Offer | None:
    """Offer the CUDA kernel of reductions for pooling over whole images."""
    op, (data,) = layer.op, layer.inputs
    assert isinstance(op, ops.GlobalAvgPool2d | ops.GlobalMaxPool2d)
    if layer.dtypes != _FLOAT32 or layer.epilogue != Epilogue():
        return None
    if op.layout not in ("NCHW", "NHWC"):
        return None
    by_axis = dict(zip(op.layout, data.shape, strict=True))
    pixels = by_axis["H"] * by_axis["W"]
    images, channels = by_axis["N"], by_axis["C"]
    spans = (images * channels, pixels, 1) if op.layout == "NCHW" else (images, pixels, channels)
    operation = "mean" if isinstance(op, ops.GlobalAvgPool2d) else "max"
    return Offer("reduce.cuda", (operation, *spans), layer.inputs)


for _name in ("nn.max_pool2d", "nn.avg_pool2d"):
    implements(_name, "cuda")(pool2d_cuda)
for _name in ("nn.global_avg_pool2d", "nn.global_max_pool2d"):
    implements(_name, "cuda")(global_pool2d_cuda)


def _in_tvm(name: str, layer: Layer) -> tuple[Any, ...]:
    """Return the workload of a convolution as TVM's logs have it."""
    op = layer.op
    assert isinstance(op, ops.Conv2d)
    (top, bottom), (left, right) = op.sides
    tensors = [("TENSOR", value.shape, value.dtype) for value in layer.inputs]
    return (name, *tensors, op.steps, (top, left, bottom, right), op.holes, layer.result.dtype)


def _depthwise(template: str) -> Callable[[Layer], Offer | None]:
    def depthwise(layer: Layer) -> Offer | None:
        shape, op = _plain_conv2d(layer), layer.op
        assert isinstance(op, ops.Conv2d)
        each = op.is_depthwise(*(value.type for value in layer.inputs))
        if shape is None or not each or layer.epilogue != Epilogue():
            return None
        n, h, w, co, ci, *rest = shape
        aliases = (_in_tvm(template.removeprefix("te/"), layer),)
        args = (n, h, w, ci, co // ci, *rest)
        return Offer(template, args, layer.inputs, aliases=aliases)

    return depthwise


def _te_conv2d(template: str) -> Callable[[Layer], Offer | None]:
    def conv2d(layer: Layer) -> Offer | None:
        shape = _plain_conv2d(layer)
        whole = layer.op.groups == 1  # type: ignore[attr-defined]
        if shape is None or not whole or layer.epilogue != Epilogue():
            return None
        aliases = (_in_tvm(template.removeprefix("te/"), layer),)
        return Offer(template, shape, layer.inputs, aliases=aliases)

    return conv2d


def _dense(template: str) -> Callable[[Layer], Offer | None]:
    def dense(layer: Layer) -> Offer | None:
        if layer.dtypes != _FLOAT32 or layer.epilogue != Epilogue():
            return None
        data, weight = layer.inputs
        return Offer(template, (*data.shape[:1], *weight.shape), layer.inputs)

    return dense


def _gemm(template: str) -> Callable[[Layer], Offer | None]:
    def gemm(layer: Layer) -> Offer | None:
        """Offer the product with weights that are transposed once; rows of few do not fill it."""
        data, weight = layer.inputs
        known = weight in layer.constants and layer.dtypes == _FLOAT32
        if not known or data.shape[0] < 4 or layer.epilogue != Epilogue():
            return None
        (m, k), n = data.shape, weight.shape[0]
        return Offer(template, (m, n, k), layer.inputs, {weight: ops.Transpose((1, 0))})

    return gemm


def _softmax(template: str) -> Callable[[Layer], Offer | None]:
    def softmax(layer: Layer) -> Offer | None:
        op, (data,) = layer.op, layer.inputs
        assert isinstance(op, ops.Softmax)
        axis: Any = op.axis_of_sum
        last = axis in (-1, data.type.ndim - 1)
        if not last or data.type.ndim < 1 or layer.dtypes != _FLOAT32:
            return None
        if layer.epilogue != Epilogue():
            return None
        columns = data.shape[-1]
        return Offer(template, (data.type.size // columns, columns), layer.inputs)

    return softmax


for _kind in ("cpu", "cuda"):
    implements("nn.conv2d", _kind)(_depthwise(f"te/depthwise_conv2d_nchw.{_kind}"))
    implements("nn.conv2d", _kind)(_te_conv2d(f"te/conv2d_nchw.{_kind}"))
    implements("nn.dense", _kind)(_gemm(f"gemm_nn.{_kind}"))
    implements("nn.dense", _kind)(_dense(f"te/dense.{_kind}"))
    implements("nn.softmax", _kind)(_softmax(f"softmax.{_kind}"))
    implements("nn.softmax", _kind)(_softmax(f"te/softmax.{_kind}"))
