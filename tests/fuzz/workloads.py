"""Small computations whose schedules are drawn at random, and what numpy says they are."""

from dataclasses import dataclass

import numpy as np

from autotune import te


@dataclass(frozen=True)
class Workload:
    """Tensors of a computation, inputs first, and the same in numpy: inputs to outputs."""

    inputs: tuple
    outputs: tuple
    reference: object
    tolerance: float = 1e-4

    @property
    def args(self):
        return [*self.inputs, *self.outputs]

    def arrays(self, seed):
        """Return random input arrays."""
        rng = np.random.default_rng(seed)
        return [_random(rng, t) for t in self.inputs]


def _random(rng, tensor):
    shape = tuple(int(n) for n in tensor.shape)
    if tensor.dtype == "int8":
        return rng.integers(-100, 100, shape).astype("int8")
    if tensor.dtype.startswith("int"):
        return rng.integers(-50, 50, shape).astype(tensor.dtype)
    return rng.standard_normal(shape).astype(tensor.dtype)


def matmul(rng):
    m, n, k = (rng.choice([4, 7, 8, 12, 16, 19, 32]) for _ in range(3))
    a, b = te.placeholder((m, k), name="A"), te.placeholder((k, n), name="B")
    r = te.reduce_axis((0, k), "k")
    c = te.compute((m, n), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r), name="C")
    return Workload((a, b), (c,), lambda x, y: x @ y)


def matmul_relu(rng):
    m, n, k = (rng.choice([5, 8, 16, 24]) for _ in range(3))
    a, b = te.placeholder((m, k), name="A"), te.placeholder((n, k), name="B")
    bias = te.placeholder((n,), name="bias")
    r = te.reduce_axis((0, k), "k")
    c = te.compute((m, n), lambda i, j: te.sum(a[i, r] * b[j, r], axis=r), name="dense")
    d = te.compute((m, n), lambda i, j: c[i, j] + bias[j], name="biased")
    e = te.compute((m, n), lambda i, j: te.max(d[i, j], 0.0), name="relu")
    return Workload((a, b, bias), (e,), lambda x, y, z: np.maximum(x @ y.T + z, 0))


def half_matmul(rng):
    m, n, k = (rng.choice([4, 8, 11, 16]) for _ in range(3))
    a = te.placeholder((m, k), name="A", dtype="float16")
    b = te.placeholder((k, n), name="B", dtype="float16")
    r = te.reduce_axis((0, k), "k")
    c = te.compute(
        (m, n),
        lambda i, j: te.sum(a[i, r].astype("float32") * b[r, j].astype("float32"), axis=r),
        name="C",
    )
    d = te.compute((m, n), lambda i, j: c[i, j].astype("float16"), name="D")
    return Workload(
        (a, b), (d,), lambda x, y: (x.astype("f4") @ y.astype("f4")).astype("f2"), 4e-3
    )


def int8_matmul(rng):
    m, n, k = (rng.choice([4, 8, 10, 16]) for _ in range(3))
    a = te.placeholder((m, k), name="A", dtype="int8")
    b = te.placeholder((n, k), name="B", dtype="int8")
    r = te.reduce_axis((0, k), "k")
    c = te.compute(
        (m, n),
        lambda i, j: te.sum(a[i, r].astype("int32") * b[j, r].astype("int32"), axis=r),
        name="C",
    )
    return Workload((a, b), (c,), lambda x, y: x.astype("i4") @ y.astype("i4").T, 0)


def batch_matmul(rng):
    batch, m, n, k = rng.choice([2, 3]), *(rng.choice([4, 7, 8]) for _ in range(3))
    a, b = te.placeholder((batch, m, k), name="A"), te.placeholder((batch, k, n), name="B")
    r = te.reduce_axis((0, k), "k")
    c = te.compute(
        (batch, m, n), lambda z, i, j: te.sum(a[z, i, r] * b[z, r, j], axis=r), name="C"
    )
    return Workload((a, b), (c,), lambda x, y: x @ y)


def conv2d(rng):
    ci, co, size, stride = (
        rng.choice([2, 3]),
        rng.choice([4, 5]),
        rng.choice([6, 7]),
        rng.choice([1, 2]),
    )
    x, w = (
        te.placeholder((1, ci, size, size), name="data"),
        te.placeholder((co, ci, 3, 3), name="weight"),
    )
    pad = te.compute(
        (1, ci, size + 2, size + 2),
        lambda n, c, h, v: te.if_then_else(
            te.all(h >= 1, h <= size, v >= 1, v <= size), x[n, c, h - 1, v - 1], 0.0
        ),
        name="pad",
    )
    out = (size - 1) // stride + 1
    rc, ry, rx = (
        te.reduce_axis((0, ci), "rc"),
        te.reduce_axis((0, 3), "ry"),
        te.reduce_axis((0, 3), "rx"),
    )
    y = te.compute(
        (1, co, out, out),
        lambda n, f, h, v: te.sum(
            pad[n, rc, h * stride + ry, v * stride + rx] * w[f, rc, ry, rx], axis=[rc, ry, rx]
        ),
        name="conv",
    )

    def reference(data, weight):
        wide = np.pad(data, ((0, 0), (0, 0), (1, 1), (1, 1)))
        windows = np.lib.stride_tricks.sliding_window_view(wide, (3, 3), (2, 3))
        return np.einsum("nchwij,fcij->nfhw", windows[:, :, ::stride, ::stride], weight)

    return Workload((x, w), (y,), reference)


def depthwise(rng):
    c, size = rng.choice([3, 4]), rng.choice([6, 8])
    x, w = te.placeholder((c, size, size), name="data"), te.placeholder((c, 3, 3), name="weight")
    out = size - 2
    ry, rx = te.reduce_axis((0, 3), "ry"), te.reduce_axis((0, 3), "rx")
    y = te.compute(
        (c, out, out),
        lambda z, h, v: te.sum(x[z, h + ry, v + rx] * w[z, ry, rx], axis=[ry, rx]),
        name="depthwise",
    )
    z = te.compute((c, out, out), lambda c, h, v: te.tanh(y[c, h, v]), name="tanh")

    def reference(data, weight):
        windows = np.lib.stride_tricks.sliding_window_view(data, (3, 3), (1, 2))
        return np.tanh(np.einsum("chwij,cij->chw", windows, weight))

    return Workload((x, w), (z,), reference)


def softmax(rng):
    m, n = rng.choice([3, 5, 8]), rng.choice([7, 16, 33])
    x = te.placeholder((m, n), name="X")
    k, r = te.reduce_axis((0, n), "k"), te.reduce_axis((0, n), "r")
    top = te.compute((m,), lambda i: te.max(x[i, k], axis=k), name="top")
    e = te.compute((m, n), lambda i, j: te.exp(x[i, j] - top[i]), name="e")
    total = te.compute((m,), lambda i: te.sum(e[i, r], axis=r), name="total")
    y = te.compute((m, n), lambda i, j: e[i, j] / total[i], name="softmax")

    def reference(a):
        b = np.exp(a - a.max(1, keepdims=True))
        return b / b.sum(1, keepdims=True)

    return Workload((x,), (y,), reference)


def max_pool(rng):
    c, size = rng.choice([3, 4]), rng.choice([8, 9])
    x = te.placeholder((c, size, size), name="X")
    pad = te.compute(
        (c, size + 1, size + 1),
        lambda z, h, v: te.if_then_else(
            te.all(h < size, v < size), x[z, h, v], te.min_value("float32")
        ),
        name="pad",
    )
    out = (size + 1) // 2
    ry, rx = te.reduce_axis((0, 2), "ry"), te.reduce_axis((0, 2), "rx")
    y = te.compute(
        (c, out, out),
        lambda z, h, v: te.max(pad[z, h * 2 + ry, v * 2 + rx], axis=[ry, rx]),
        name="pool",
    )

    def reference(a):
        wide = np.pad(a, ((0, 0), (0, 1), (0, 1)), constant_values=-np.inf)[
            :, : out * 2, : out * 2
        ]
        return wide.reshape(c, out, 2, out, 2).max((2, 4))

    return Workload((x,), (y,), reference)


def transpose(rng):
    m, n = rng.choice([8, 12, 33]), rng.choice([16, 17, 32])
    x = te.placeholder((m, n), name="X")
    y = te.compute((n, m), lambda i, j: x[j, i], name="T")
    return Workload((x,), (y,), lambda a: a.T, 0)


def column_sum(rng):
    m, n = rng.choice([16, 33, 64]), rng.choice([4, 7, 16])
    x = te.placeholder((m, n), name="X")
    k = te.reduce_axis((0, m), "k")
    y = te.compute((n,), lambda j: te.sum(x[k, j], axis=k), name="S")
    z = te.compute((n,), lambda j: te.sqrt(te.abs(y[j])), name="root")
    return Workload((x,), (z,), lambda a: np.sqrt(abs(a.sum(0))), 1e-3)


def total(rng):
    m, n = rng.choice([8, 16, 21]), rng.choice([8, 13])
    x = te.placeholder((m, n), name="X")
    i, j = te.reduce_axis((0, m), "i"), te.reduce_axis((0, n), "j")
    y = te.compute((), lambda: te.sum(x[i, j] * x[i, j], axis=[i, j]), name="total")
    return Workload((x,), (y,), lambda a: (a * a).sum())


def chain(rng):
    shape = rng.choice([(64,), (5, 13), (3, 4, 9)])
    x, y = te.placeholder(shape, name="X"), te.placeholder(shape, name="Y")
    a = te.compute(shape, lambda *i: x[i] * 2.0 + y[i], name="a")
    b = te.compute(shape, lambda *i: te.sigmoid(a[i]), name="b")
    c = te.compute(shape, lambda *i: te.max(a[i], b[i]) - te.exp(-te.abs(y[i])), name="c")

    def reference(p, q):
        s = p * 2 + q
        return np.maximum(s, 1 / (1 + np.exp(-s))) - np.exp(-abs(q))

    return Workload((x, y), (c,), reference)


def argmax(rng):
    m, n = rng.choice([5, 8]), rng.choice([16, 19])
    x = te.placeholder((m, n), name="X")
    k = te.reduce_axis((0, n), "k")
    pick = te.comm_reducer(
        lambda p, q: (
            te.if_then_else(te.any(p[1] > q[1], te.all(p[1] == q[1], p[0] < q[0])), p[0], q[0]),
            te.if_then_else(p[1] >= q[1], p[1], q[1]),
        ),
        lambda t0, t1: (te.const(2147483647, t0), te.min_value(t1)),
        name="argmax",
    )
    where, top = te.compute((m,), lambda i: pick((k.var, x[i, k]), axis=k), name="best")
    return Workload((x,), (where, top), lambda a: (a.argmax(1).astype("int32"), a.max(1)))


def pair(rng):
    m, n = rng.choice([6, 9]), rng.choice([8, 15])
    x, y = te.placeholder((m, n), name="X"), te.placeholder((m, n), name="Y")
    p, q = te.compute((m, n), lambda i, j: (x[i, j] + y[i, j], x[i, j] * y[i, j]), name="both")
    return Workload((x, y), (p, q), lambda a, b: (a + b, a * b))


def stencil(rng):
    d, h, w = rng.choice([5, 6]), rng.choice([6, 7]), rng.choice([8, 9])
    x = te.placeholder((d, h, w), name="X")
    inner = (d - 2, h - 2, w - 2)
    y = te.compute(
        inner,
        lambda i, j, k: (
            x[i + 1, j + 1, k + 1] * 2.0
            - (x[i, j + 1, k + 1] + x[i + 2, j + 1, k + 1])
            - (x[i + 1, j, k + 1] + x[i + 1, j + 2, k + 1])
            - (x[i + 1, j + 1, k] + x[i + 1, j + 1, k + 2])
        ),
        name="Y",
    )
    z = te.compute(
        (d - 2, h - 2, w - 4),
        lambda i, j, k: y[i, j, k] + y[i, j, k + 1] + y[i, j, k + 2],
        name="Z",
    )

    def reference(a):
        c = a[1:-1, 1:-1, 1:-1] * 2
        c = c - a[:-2, 1:-1, 1:-1] - a[2:, 1:-1, 1:-1] - a[1:-1, :-2, 1:-1]
        c = c - a[1:-1, 2:, 1:-1] - a[1:-1, 1:-1, :-2] - a[1:-1, 1:-1, 2:]
        return c[:, :, :-2] + c[:, :, 1:-1] + c[:, :, 2:]

    return Workload((x,), (z,), reference)


def reshape(rng):
    m, n = rng.choice([(6, 8), (9, 4)])
    x = te.placeholder((m, n), name="X", dtype="int32")
    flat = te.compute((m * n,), lambda i: x[te.floordiv(i, n), te.floormod(i, n)] * 3, name="flat")
    y = te.compute((n, m), lambda i, j: te.floordiv(flat[i * m + j], 2), name="Y")
    return Workload((x,), (y,), lambda a: (a * 3).reshape(n, m) // 2, 0)


def layer_norm(rng):
    m, n = rng.choice([4, 6]), rng.choice([12, 16])
    x = te.placeholder((m, n), name="X")
    k, r = te.reduce_axis((0, n), "k"), te.reduce_axis((0, n), "r")
    mean = te.compute((m,), lambda i: te.sum(x[i, k], axis=k), name="mean")
    square = te.compute((m,), lambda i: te.sum(x[i, r] * x[i, r], axis=r), name="square")

    def body(i, j):
        average = mean[i] / float(n)
        return (x[i, j] - average) * te.rsqrt(square[i] / float(n) - average * average + 1e-3)

    y = te.compute((m, n), body, name="norm")

    def reference(a):
        mean = a.mean(1, keepdims=True)
        return (a - mean) / np.sqrt((a * a).mean(1, keepdims=True) - mean * mean + 1e-3)

    return Workload((x,), (y,), reference, 1e-3)


WORKLOADS = {
    f.__name__: f
    for f in (
        matmul, matmul_relu, half_matmul, int8_matmul, batch_matmul, conv2d, depthwise, softmax,
        max_pool, transpose, column_sum, total, chain, argmax, pair, stencil, reshape, layer_norm,
    )
}  # fmt: skip
