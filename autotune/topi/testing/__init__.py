"""Reference implementations of operators in numpy."""

from autotune.topi.testing.conv import (
    conv2d_hwcn_python,
    conv2d_nchw_python,
    conv2d_nhwc_python,
    depthwise_conv2d_python_nchw,
    depthwise_conv2d_python_nhwc,
    dilate_python,
)
from autotune.topi.testing.dense import batch_matmul, dense, matmul
from autotune.topi.testing.pool import adaptive_pool, pool2d_python
from autotune.topi.testing.softmax import log_softmax_python, softmax_python

__all__ = [
    "adaptive_pool",
    "batch_matmul",
    "conv2d_hwcn_python",
    "conv2d_nchw_python",
    "conv2d_nhwc_python",
    "dense",
    "depthwise_conv2d_python_nchw",
    "depthwise_conv2d_python_nhwc",
    "dilate_python",
    "log_softmax_python",
    "matmul",
    "pool2d_python",
    "softmax_python",
]
