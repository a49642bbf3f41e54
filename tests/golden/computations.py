"""Small fixed computations; each function returns its tensors, inputs first."""

from autotune import te


def add(n=1024, dtype="float32"):
    a, b = te.placeholder((n,), name="A", dtype=dtype), te.placeholder((n,), name="B", dtype=dtype)
    return a, b, te.compute((n,), lambda i: a[i] + b[i], name="C")


def matmul(m=64, n=64, k=64, dtype="float32", accumulate=None):
    a, b = (
        te.placeholder((m, k), name="A", dtype=dtype),
        te.placeholder((k, n), name="B", dtype=dtype),
    )
    r = te.reduce_axis((0, k), "k")
    wide = accumulate or dtype
    return (
        a,
        b,
        te.compute(
            (m, n),
            lambda i, j: te.sum(a[i, r].astype(wide) * b[r, j].astype(wide), axis=r),
            name="C",
        ),
    )


def dense_relu(m=32, n=48, k=64):
    a, b = te.placeholder((m, k), name="data"), te.placeholder((n, k), name="weight")
    bias = te.placeholder((n,), name="bias")
    r = te.reduce_axis((0, k), "k")
    dense = te.compute((m, n), lambda i, j: te.sum(a[i, r] * b[j, r], axis=r), name="dense")
    added = te.compute((m, n), lambda i, j: dense[i, j] + bias[j], name="T_add")
    relu = te.compute((m, n), lambda i, j: te.max(added[i, j], 0.0), name="T_relu")
    return a, b, bias, dense, added, relu


def conv2d(channels=4, filters=8, size=14, stride=1):
    x = te.placeholder((1, channels, size, size), name="data")
    w = te.placeholder((filters, channels, 3, 3), name="kernel")
    pad = te.compute(
        (1, channels, size + 2, size + 2),
        lambda n, c, h, v: te.if_then_else(
            te.all(h >= 1, h < size + 1, v >= 1, v < size + 1), x[n, c, h - 1, v - 1], 0.0
        ),
        name="pad_temp",
    )
    out = (size - 1) // stride + 1
    rc = te.reduce_axis((0, channels), "rc")
    ry, rx = te.reduce_axis((0, 3), "ry"), te.reduce_axis((0, 3), "rx")
    y = te.compute(
        (1, filters, out, out),
        lambda n, f, h, v: te.sum(
            pad[n, rc, h * stride + ry, v * stride + rx] * w[f, rc, ry, rx], axis=[rc, ry, rx]
        ),
        name="compute",
    )
    return x, w, pad, y


def softmax(m=8, n=100):
    x = te.placeholder((m, n), name="X")
    k, r = te.reduce_axis((0, n), "k"), te.reduce_axis((0, n), "r")
    top = te.compute((m,), lambda i: te.max(x[i, k], axis=k), name="T_max")
    e = te.compute((m, n), lambda i, j: te.exp(x[i, j] - top[i]), name="T_exp")
    total = te.compute((m,), lambda i: te.sum(e[i, r], axis=r), name="T_sum")
    return x, top, e, total, te.compute((m, n), lambda i, j: e[i, j] / total[i], name="T_div")


def row_sum(m=16, n=256, dtype="float32"):
    x = te.placeholder((m, n), name="X", dtype=dtype)
    k = te.reduce_axis((0, n), "k")
    return x, te.compute((m,), lambda i: te.sum(x[i, k], axis=k), name="S")


def total(n=1000):
    x = te.placeholder((n,), name="X")
    k = te.reduce_axis((0, n), "k")
    return x, te.compute((), lambda: te.sum(x[k], axis=k), name="total")


def argmax(m=8, n=64):
    x = te.placeholder((m, n), name="X")
    k = te.reduce_axis((0, n), "k")
    pick = te.comm_reducer(
        lambda p, q: (
            te.if_then_else(p[1] >= q[1], p[0], q[0]),
            te.if_then_else(p[1] >= q[1], p[1], q[1]),
        ),
        lambda t0, t1: (te.const(-1, t0), te.min_value(t1)),
        name="argmax",
    )
    where, top = te.compute((m,), lambda i: pick((k.var, x[i, k]), axis=k), name="best")
    return x, where, top


def two_outputs(m=8, n=32):
    x = te.placeholder((m, n), name="X")
    p, q = te.compute((m, n), lambda i, j: (x[i, j] * 2.0, te.exp(x[i, j])), name="both")
    return x, p, q


def chain(n=1000):
    x = te.placeholder((n,), name="X")
    a = te.compute((n,), lambda i: x[i] * 2.0 + 1.0, name="a")
    b = te.compute((n,), lambda i: te.tanh(a[i]), name="b")
    return x, a, b, te.compute((n,), lambda i: te.max(a[i], b[i]), name="c")


def transpose(m=64, n=48):
    x = te.placeholder((m, n), name="X")
    return x, te.compute((n, m), lambda i, j: x[j, i], name="T")


def stencil(d=10, h=12, w=16):
    x = te.placeholder((d, h, w), name="X")
    return x, te.compute(
        (d - 2, h - 2, w - 2),
        lambda i, j, k: x[i + 1, j + 1, k + 1] * 0.5 + x[i, j + 1, k + 1] + x[i + 2, j + 1, k + 1],
        name="Y",
    )


def reshape(m=12, n=10):
    x = te.placeholder((m, n), name="X", dtype="int32")
    return x, te.compute(
        (n, m),
        lambda i, j: x[te.floordiv(i * m + j, n), te.floormod(i * m + j, n)],
        name="Y",
    )


def shifted(n=100):
    x = te.placeholder((n,), name="X", dtype="int32")
    return x, te.compute(
        (n,), lambda i: te.floordiv(x[i] - 50, 7) + te.floormod(x[i] - 50, 7), name="Y"
    )


def functions(n=64, dtype="float32"):
    x = te.placeholder((n,), name="X", dtype=dtype)
    return x, te.compute(
        (n,),
        lambda i: te.sigmoid(x[i]) + te.rsqrt(te.abs(x[i])) * te.erf(x[i]) - te.floor(x[i]),
        name="Y",
    )
