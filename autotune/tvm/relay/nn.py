"""TVM's ``relay.nn``: operators of networks as functions."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from autotune.errors import GraphError
from autotune.graph import Constant, Value, apply, ops
from autotune.tvm.relay.arguments import Numbers, check_values, whole_numbers
from autotune.tvm.relay.convolutions import *
from autotune.tvm.relay.forms import along_channels, in_layout, operands, padded_by_data
from autotune.tvm.relay.function import Tuple
from autotune.tvm.relay.pooling import *
from autotune.tvm.relay.pooling import avg_pool2d
from autotune.tvm.relay.rearranged import repeat, reshape
from autotune.tvm.relay.variable import settle
from autotune.utils.check import Check, is_whole


def dense(data: Value, weight: Value, units: int | None = None, out_dtype: str = "") -> Value:
    """Multiply data [batch, in] by the transpose of weight [out, in]."""
    check_values("nn.dense", data=data, weight=weight)
    if units is not None:
        settle(weight, (units, data.shape[-1]), data.dtype)
    data, weight = operands("nn.dense", out_dtype, data=data, weight=weight)
    if units is not None and weight.shape[:1] != (units,):
        raise GraphError(f"nn.dense: weight must have {units} rows, got {weight.type}")
    return apply(ops.Dense(), data, weight)


def batch_matmul(
    tensor_a: Value,
    tensor_b: Value,
    out_dtype: str = "",
    transpose_a: bool = False,
    transpose_b: bool = True,
) -> Value:
    """Multiply batches of matrices."""
    a, b = operands("nn.batch_matmul", out_dtype, tensor_a=tensor_a, tensor_b=tensor_b)
    return apply(ops.BatchMatmul(transpose_a, transpose_b), a, b)


def matmul(
    tensor_a: Value,
    tensor_b: Value,
    units: int | None = None,
    out_dtype: str = "",
    transpose_a: bool = False,
    transpose_b: bool = False,
) -> Value:
    """Multiply two matrices."""
    check_values("nn.matmul", tensor_a=tensor_a, tensor_b=tensor_b)
    a = apply(ops.Transpose((1, 0)), tensor_a) if transpose_a else tensor_a
    b = tensor_b if transpose_b else apply(ops.Transpose((1, 0)), tensor_b)
    return dense(a, b, units, out_dtype)


def bias_add(data: Value, bias: Value, axis: int = 1) -> Value:
    """Add one number to each index of an axis."""
    _settle_vectors("nn.bias_add", data, axis, bias)
    return apply(ops.BiasAdd(axis), data, bias)


def _settle_vectors(op: str, data: Value, axis: int, *vectors: Value) -> None:
    """Say the extent of parameters that have one number for each index of an axis."""
    check_values(op, data=data)
    if is_whole(axis) and -data.type.ndim <= axis < data.type.ndim:
        for each in vectors:
            settle(each, (data.shape[axis],), data.dtype)


def batch_norm(
    data: Value,
    gamma: Value,
    beta: Value,
    moving_mean: Value,
    moving_var: Value,
    axis: int = 1,
    epsilon: float = 1e-5,
    center: bool = True,
    scale: bool = True,
) -> Tuple[Value]:
    """Normalise by statistics of each channel; the result is item 0 of a tuple."""
    _settle_vectors("nn.batch_norm", data, axis, gamma, beta, moving_mean, moving_var)
    op = ops.BatchNorm(axis, epsilon, center, scale)
    out = apply(op, data, gamma, beta, moving_mean, moving_var)
    return Tuple([out, moving_mean, moving_var])


def layer_norm(
    data: Value,
    gamma: Value,
    beta: Value,
    axis: int = -1,
    epsilon: float = 1e-5,
    center: bool = True,
    scale: bool = True,
) -> Value:
    """Normalise along an axis."""
    _settle_vectors("nn.layer_norm", data, axis, gamma, beta)
    return apply(ops.LayerNorm(axis, epsilon, center, scale), data, gamma, beta)


def group_norm(
    data: Value,
    gamma: Value,
    beta: Value,
    num_groups: int,
    axis: int = 1,
    epsilon: float = 1e-5,
    center: bool = True,
    scale: bool = True,
) -> Value:
    """Normalise groups of neighbouring channels of each image."""
    _settle_vectors("nn.group_norm", data, axis, gamma, beta)
    op = ops.GroupNorm(num_groups, epsilon, center, scale)
    return along_channels(op.name, data, axis, lambda images: apply(op, images, gamma, beta))


def instance_norm(
    data: Value,
    gamma: Value,
    beta: Value,
    axis: int = 1,
    epsilon: float = 1e-5,
    center: bool = True,
    scale: bool = True,
) -> Value:
    """Normalise each channel of each image."""
    _settle_vectors("nn.instance_norm", data, axis, gamma, beta)
    op = ops.InstanceNorm(epsilon, center, scale)
    return along_channels(op.name, data, axis, lambda images: apply(op, images, gamma, beta))


def dropout(data: Value, rate: float = 0.5) -> Value:
    """Return the data: at inference nothing is dropped."""
    return apply(ops.Dropout(rate), data)


def relu(data: Value) -> Value:
    """Clear negative elements."""
    return apply(ops.Relu(), data)


def leaky_relu(data: Value, alpha: float = 0.01) -> Value:
    """Scale negative elements by ``alpha``."""
    return apply(ops.LeakyRelu(alpha), data)


def prelu(data: Value, alpha: Value, axis: int = 1) -> Value:
    """Scale negative elements by a slope of their channel."""
    return apply(ops.Prelu(axis), data, alpha)


def softmax(data: Value, axis: int = -1) -> Value:
    """Divide the powers of e by their sum."""
    return apply(ops.Softmax(axis), data)


fast_softmax = softmax  # TVM's is an approximation of it


def log_softmax(data: Value, axis: int = -1) -> Value:
    """Take the logarithm of softmax."""
    return apply(ops.LogSoftmax(axis), data)


def batch_flatten(data: Value) -> Value:
    """Join all dimensions but the first."""
    return apply(ops.BatchFlatten(), data)


def pad(
    data: Value,
    pad_width: Sequence[Numbers],
    pad_value: float | Value = 0,
    pad_mode: str = "constant",
) -> Value:
    """Surround a tensor with a value, or with its own elements.

    Args:
        data: the tensor.
        pad_width: how many elements before and after each axis.
        pad_value: a number or a constant.
        pad_mode: "constant"; "edge", the last element; or "reflect", those before the last.
    """
    check_values("nn.pad", data=data)
    check = Check(GraphError, "nn.pad")
    rows = check.sequence("pad_width", pad_width, "a pair of numbers for each axis")
    found = [whole_numbers("nn.pad", "pad_width", row) for row in rows]
    if any(len(pair) != 2 for pair in found):
        check.refuse("pad_width", "a pair of numbers for each axis", pad_width)
    pairs = tuple((before, after) for before, after in found)
    if pad_mode != "constant":
        return padded_by_data(data, pairs, pad_mode)
    value = pad_value.array.item() if isinstance(pad_value, Constant) else pad_value
    check.number("pad_value", value)
    return apply(ops.Pad(pairs, float(value)), data)  # type: ignore[arg-type]


def mirror_pad(data: Value, pad_width: Sequence[Numbers], mode: str = "SYMMETRIC") -> Value:
    """Surround a tensor with its mirror image, which with "REFLECT" has not the edge again."""
    check = Check(GraphError, "nn.mirror_pad")
    check.one_of("mode", mode, ("SYMMETRIC", "REFLECT"))
    return pad(data, pad_width, pad_mode=mode.lower())


def upsampling(
    data: Value,
    scale_h: float = 1,
    scale_w: float = 1,
    layout: str = "NCHW",
    method: str = "nearest_neighbor",
    align_corners: bool = False,
) -> Value:
    """Repeat each element of images."""
    check_values("nn.upsampling", data=data)
    scales = (scale_h, scale_w)
    if method != "nearest_neighbor" or any(scale < 1 or int(scale) != scale for scale in scales):
        raise GraphError(
            "nn.upsampling: expected whole scales and method 'nearest_neighbor', got "
            f"{scale_h}, {scale_w}, {method!r}"
        )
    Check(GraphError, "nn.upsampling").one_of("layout", layout, ("NCHW", "NHWC"))
    if scale_h == scale_w:
        return apply(ops.Upsampling(int(scale_h), layout), data)
    rows = repeat(data, int(scale_h), layout.index("H"))
    return repeat(rows, int(scale_w), layout.index("W"))


def l2_normalize(data: Value, eps: float, axis: Numbers | None = None) -> Value:
    """Divide by the root of the sum of squares along axes, which is at least that of ``eps``."""
    check_values("nn.l2_normalize", data=data)
    least = Check(GraphError, "nn.l2_normalize").number("eps", eps)
    axes = None if axis is None else whole_numbers("nn.l2_normalize", "axis", axis)
    total = apply(ops.Sum(axes, True), apply(ops.Multiply(), data, data))
    most = apply(ops.Maximum(), total, Constant.of(np.array(least), dtype=data.dtype))
    return apply(ops.Divide(), data, apply(ops.Sqrt(), most))


def lrn(
    data: Value,
    size: int = 5,
    axis: int = 1,
    bias: float = 2,
    alpha: float = 0.00001,
    beta: float = 0.75,
) -> Value:
    """Divide by a power of the mean of squares among the neighbours along an axis.

    As in Krizhevsky et al., "ImageNet classification with deep convolutional neural networks".
    """
    check_values("nn.lrn", data=data)
    check, ndim = Check(GraphError, "nn.lrn"), data.type.ndim
    at = check.whole("axis", axis, -ndim, ndim - 1) % ndim
    count = check.whole("size", size, 1)
    before, after, here = data.shape[:at], data.shape[at + 1 :], data.shape[at]
    flat = (math.prod(before), 1, here, math.prod(after))
    squares = reshape(apply(ops.Multiply(), data, data), flat)
    # Missing neighbours count as zeros.
    sides = count // 2
    means = avg_pool2d(
        squares, (count, 1), padding=(sides, 0, count - 1 - sides, 0), count_include_pad=True
    )
    alpha_, bias_, beta_ = (
        Constant.of(np.array(check.number(name, value)), dtype=data.dtype)
        for name, value in (("alpha", alpha), ("bias", bias), ("beta", beta))
    )
    base = apply(ops.Add(), apply(ops.Multiply(), reshape(means, data.shape), alpha_), bias_)
    return apply(ops.Divide(), data, apply(ops.Power(), base, beta_))


def space_to_depth(data: Value, block_size: int, layout: str = "NCHW") -> Value:
    """Move the pixels of each square block to the channels of one pixel."""
    images, b = _in_blocks("nn.space_to_depth", data, block_size, layout)
    n, c, h, w = images.shape
    if h % b or w % b:
        raise GraphError(f"nn.space_to_depth: block_size must divide {h}x{w}, got {b}")
    apart = reshape(images, (n, c, h // b, b, w // b, b))
    moved = apply(ops.Transpose((0, 3, 5, 1, 2, 4)), apart)
    return in_layout(
        "nn.space_to_depth", reshape(moved, (n, c * b * b, h // b, w // b)), "NCHW", layout
    )


def depth_to_space(data: Value, block_size: int, layout: str = "NCHW", mode: str = "DCR") -> Value:
    """Move channels of each pixel to a square block of pixels.

    Args:
        data: images.
        block_size: rows and columns of a block.
        layout: ``"NCHW"`` or ``"NHWC"``.
        mode: "DCR", the pixels of a block are the outer part of the channel; "CRD", the inner.
    """
    images, b = _in_blocks("nn.depth_to_space", data, block_size, layout)
    Check(GraphError, "nn.depth_to_space").one_of("mode", mode, ("DCR", "CRD"))
    n, c, h, w = images.shape
    if c % (b * b):
        raise GraphError(
            f"nn.depth_to_space: block_size must have a square that divides {c}, got {b}"
        )
    rest = c // (b * b)
    apart = (n, b, b, rest, h, w) if mode == "DCR" else (n, rest, b, b, h, w)
    order = (0, 3, 4, 1, 5, 2) if mode == "DCR" else (0, 1, 4, 2, 5, 3)
    moved = apply(ops.Transpose(order), reshape(images, apart))
    return in_layout("nn.depth_to_space", reshape(moved, (n, rest, h * b, w * b)), "NCHW", layout)


def _in_blocks(op: str, data: Value, block_size: int, layout: str) -> tuple[Value, int]:
    """Return images as NCHW, and the extent of a block."""
    check_values(op, data=data)
    check = Check(GraphError, op)
    check.one_of("layout", layout, ("NCHW", "NHWC"))
    if data.type.ndim != 4:
        check.refuse("data", f"of the dimensions {layout}", data.type)
    return in_layout(op, data, layout, "NCHW"), check.whole("block_size", block_size, 1)
