"""Graphs of computes that several tests schedule."""

from autotune import te


def matmul(n=64, m=32, p=128):
    """``C = A @ B``."""
    a = te.placeholder((n, p), name="A")
    b = te.placeholder((p, m), name="B")
    k = te.reduce_axis((0, p), name="k")
    c = te.compute((n, m), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    return a, b, c


def chain(n=64):
    """``A -> B -> C -> D``, all of one dimension."""
    a = te.placeholder((n,), name="A")
    b = te.compute((n,), lambda i: a[i] + 1, name="B")
    c = te.compute((n,), lambda i: b[i] * 2, name="C")
    d = te.compute((n,), lambda i: c[i] - 3, name="D")
    return a, b, c, d


def diamond(n=64):
    """``A -> B -> (C, D) -> E``."""
    a = te.placeholder((n,), name="A")
    b = te.compute((n,), lambda i: a[i] + 1, name="B")
    c = te.compute((n,), lambda i: b[i] * 2, name="C")
    d = te.compute((n,), lambda i: b[i] * 3, name="D")
    e = te.compute((n,), lambda i: c[i] + d[i], name="E")
    return a, b, c, d, e


def row_sum(n=16, m=100):
    """``B[i] = sum of A[i, :]``."""
    a = te.placeholder((n, m), name="A")
    k = te.reduce_axis((0, m), name="k")
    return a, te.compute((n,), lambda i: te.sum(a[i, k], axis=k), name="B")


def padded_convolution(channels=8, size=7, kernel=3):
    """A convolution over a padded image, then bias and relu; the names are AutoTVM's."""
    data = te.placeholder((1, channels, size, size), name="data")
    weight = te.placeholder((channels, channels, kernel, kernel), name="kernel")
    bias = te.placeholder((1, channels, 1, 1), name="bias")
    edge = kernel // 2

    def pad(*i):
        inside = te.all(i[2] >= edge, i[2] < size + edge, i[3] >= edge, i[3] < size + edge)
        return te.if_then_else(inside, data[i[0], i[1], i[2] - edge, i[3] - edge], 0.0)

    wide = size + 2 * edge
    pad_temp = te.compute((1, channels, wide, wide), pad, name="pad_temp")
    rc = te.reduce_axis((0, channels), name="rc")
    ry = te.reduce_axis((0, kernel), name="ry")
    rx = te.reduce_axis((0, kernel), name="rx")

    def convolve(nn, ff, yy, xx):
        product = pad_temp[nn, rc, yy + ry, xx + rx] * weight[ff, rc, ry, rx]
        return te.sum(product, axis=[rc, ry, rx])

    conv = te.compute((1, channels, size, size), convolve, name="compute")
    total = conv + bias
    relu = te.compute(total.shape, lambda *i: te.max(total(*i), 0.0), name="compute")
    return data, weight, bias, pad_temp, conv, total, relu
