"""Operators of neural networks."""

from autotune.topi.nn.conv1d import conv1d, conv1d_ncw, conv1d_nwc
from autotune.topi.nn.conv2d import (
    conv2d,
    conv2d_hwcn,
    conv2d_nchw,
    conv2d_nhwc,
    group_conv2d_nchw,
    group_conv2d_nhwc,
)
from autotune.topi.nn.conv2d_transpose import conv2d_transpose_nchw
from autotune.topi.nn.conv3d import conv3d, conv3d_ncdhw, conv3d_ndhwc
from autotune.topi.nn.dense import batch_matmul, dense, matmul
from autotune.topi.nn.depthwise import depthwise_conv2d_nchw, depthwise_conv2d_nhwc
from autotune.topi.nn.dilate import dilate
from autotune.topi.nn.elementwise import (
    bias_add,
    flatten,
    leaky_relu,
    prelu,
    relu,
    scale_shift_nchw,
    scale_shift_nhwc,
)
from autotune.topi.nn.norm import layer_norm, rms_norm
from autotune.topi.nn.pad import get_pad_tuple, get_pad_tuple1d, get_pad_tuple3d, pad
from autotune.topi.nn.pooling import adaptive_pool, global_pool, global_pool3d, pool2d
from autotune.topi.nn.softmax import log_softmax, softmax
from autotune.topi.nn.winograd import (
    const_matrix,
    conv2d_winograd_nchw,
    conv2d_winograd_weight_transform,
    transform_fractions,
    winograd_transform_matrices,
)
from autotune.topi.nn.winograd_nhwc import conv2d_winograd_nhwc

__all__ = [
    "adaptive_pool",
    "batch_matmul",
    "bias_add",
    "const_matrix",
    "conv1d",
    "conv1d_ncw",
    "conv1d_nwc",
    "conv2d",
    "conv2d_hwcn",
    "conv2d_nchw",
    "conv2d_nhwc",
    "conv2d_transpose_nchw",
    "conv2d_winograd_nchw",
    "conv2d_winograd_nhwc",
    "conv2d_winograd_weight_transform",
    "conv3d",
    "conv3d_ncdhw",
    "conv3d_ndhwc",
    "dense",
    "depthwise_conv2d_nchw",
    "depthwise_conv2d_nhwc",
    "dilate",
    "flatten",
    "get_pad_tuple",
    "get_pad_tuple1d",
    "get_pad_tuple3d",
    "global_pool",
    "global_pool3d",
    "group_conv2d_nchw",
    "group_conv2d_nhwc",
    "layer_norm",
    "leaky_relu",
    "log_softmax",
    "matmul",
    "pad",
    "pool2d",
    "prelu",
    "relu",
    "rms_norm",
    "scale_shift_nchw",
    "scale_shift_nhwc",
    "softmax",
    "transform_fractions",
    "winograd_transform_matrices",
]
