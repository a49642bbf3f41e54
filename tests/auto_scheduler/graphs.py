"""Graphs of computes that tests of the auto-scheduler share."""

from autotune import te, topi


def conv2d_layer(n, h, w, co, ci, kh, kw, stride, padding):
    """The convolution with bias and ReLU of TVM's tutorial."""
    data = te.placeholder((n, ci, h, w), name="data")
    kernel = te.placeholder((co, ci, kh, kw), name="kernel")
    bias = te.placeholder((1, co, 1, 1), name="bias")
    conv = topi.nn.conv2d_nchw(data, kernel, stride, padding, dilation=1, out_dtype="float32")
    return [data, kernel, bias, topi.nn.relu(conv + bias)]


def tutorial_layer():
    return conv2d_layer(1, 7, 7, 512, 512, 3, 3, (1, 1), (1, 1))


def matmul(n, m, k):
    a = te.placeholder((n, k), name="A")
    b = te.placeholder((k, m), name="B")
    r = te.reduce_axis((0, k), name="k")
    c = te.compute((n, m), lambda i, j: te.sum(a[i, r] * b[r, j], axis=[r]), name="C")
    return [a, b, c]
