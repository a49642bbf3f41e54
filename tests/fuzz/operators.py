"""The operators of topi at small random shapes, and what numpy says they are."""

import math

import numpy as np

from autotune import te, topi
from autotune.topi import testing
from tests.fuzz.workloads import Workload

_UNARY = {
    "abs": np.abs, "ceil": np.ceil, "floor": np.floor, "round": np.round, "trunc": np.trunc,
    "sign": np.sign, "negative": np.negative, "exp": np.exp, "tanh": np.tanh, "sin": np.sin,
    "cos": np.cos, "atan": np.arctan, "identity": lambda x: x,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "erf": np.vectorize(math.erf, otypes=["f4"]),
}  # fmt: skip
_POSITIVE = {"log": np.log, "log2": np.log2, "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x)}
_BINARY = {
    "add": np.add, "subtract": np.subtract, "multiply": np.multiply, "maximum": np.maximum,
    "minimum": np.minimum,
}  # fmt: skip
_COMPARED = {"greater": np.greater, "less": np.less, "equal": np.equal}
_REDUCED = {"sum": np.sum, "max": np.max, "min": np.min}


def tensor(name, *shape, dtype="float32"):
    return te.placeholder(shape, dtype, name=name)


def sizes(rng, count, values=(3, 4, 7, 8, 16)):
    return [rng.choice(values) for _ in range(count)]


def unary(rng):
    name = rng.choice(list(_UNARY))
    x = tensor("X", *sizes(rng, 3))
    return Workload((x,), (getattr(topi, name)(x),), _UNARY[name], 1e-4)


def positive(rng):
    name = rng.choice(list(_POSITIVE))
    x = tensor("X", *sizes(rng, 2))
    out = getattr(topi, name)(topi.add(topi.abs(x), topi.full_like(x, 0.5)))
    return Workload((x,), (out,), lambda a: _POSITIVE[name](abs(a) + np.float32(0.5)))


def binary(rng):
    name, (m, n) = rng.choice(list(_BINARY)), sizes(rng, 2)
    x, y = tensor("X", 2, m, n), tensor("Y", *rng.choice([(n,), (m, 1), (2, m, n)]))
    return Workload((x, y), (getattr(topi, name)(x, y),), _BINARY[name])


def divided(rng):
    m, n = sizes(rng, 2)
    x, y = tensor("X", m, n), tensor("Y", n)
    out = topi.divide(x, topi.add(topi.abs(y), topi.full_like(y, 1.0)))
    return Workload((x, y), (out,), lambda a, b: a / (abs(b) + 1))


def compared(rng):
    name, (m, n) = rng.choice(list(_COMPARED)), sizes(rng, 2)
    x, y = tensor("X", m, n), tensor("Y", m, n)
    out = topi.where(getattr(topi, name)(x, y), x, topi.negative(y))
    return Workload((x, y), (out,), lambda a, b: np.where(_COMPARED[name](a, b), a, -b))


def reduced(rng):
    name, axis, keep = (
        rng.choice(list(_REDUCED)),
        rng.choice([0, 1, (0, 2), 2]),
        rng.random() < 0.5,
    )
    x = tensor("X", *sizes(rng, 3))
    out = getattr(topi, name)(x, axis=axis, keepdims=keep)
    return Workload((x,), (out,), lambda a: _REDUCED[name](a, axis=axis, keepdims=keep), 1e-3)


def multiplied(rng):
    x = tensor("X", *sizes(rng, 2))
    return Workload((x,), (topi.prod(x, axis=1),), lambda a: a.prod(1), 1e-3)


def clipped(rng):
    x = tensor("X", *sizes(rng, 2))
    return Workload((x,), (topi.clip(x, -0.5, 0.5),), lambda a: a.clip(-0.5, 0.5))


def cast(rng):
    x = tensor("X", *sizes(rng, 2))
    return Workload((x,), (topi.cast(x, "int32"),), lambda a: a.astype("int32"), 0)


def transposed(rng):
    axes = rng.choice([(0, 2, 1), (2, 0, 1), (2, 1, 0)])
    x = tensor("X", *sizes(rng, 3))
    return Workload((x,), (topi.transpose(x, axes),), lambda a: a.transpose(axes), 0)


def reshaped(rng):
    m, n, k = sizes(rng, 3)
    x = tensor("X", m, n, k)
    out = topi.reshape(topi.exp(x), (n, m * k))
    return Workload((x,), (out,), lambda a: np.exp(a).reshape(n, m * k))


def squeezed(rng):
    m, n = sizes(rng, 2)
    x = tensor("X", m, 1, n)
    out = topi.expand_dims(topi.squeeze(x, 1), 0)
    return Workload((x,), (out,), lambda a: a[None, :, 0], 0)


def joined(rng):
    m, n, k = sizes(rng, 3)
    x, y = tensor("X", m, n), tensor("Y", m, k)
    out = topi.concatenate((x, y), 1)
    return Workload((x, y), (out,), lambda a, b: np.concatenate((a, b), 1), 0)


def sliced(rng):
    m, n = sizes(rng, 2, (8, 11, 16))
    x = tensor("X", m, n)
    out = topi.strided_slice(x, (1, 2), (m, n - 1), (2, 1))
    return Workload((x,), (out,), lambda a: a[1:m:2, 2 : n - 1], 0)


def flipped(rng):
    x = tensor("X", *sizes(rng, 2))
    return Workload((x,), (topi.flip(x, 1),), lambda a: a[:, ::-1], 0)


def broadcast(rng):
    m, n = sizes(rng, 2)
    x = tensor("X", m, 1)
    return Workload((x,), (topi.broadcast_to(x, (2, m, n)),),
                    lambda a: np.broadcast_to(a, (2, m, n)), 0)  # fmt: skip


def dense(rng):
    m, n, k = sizes(rng, 3)
    x, w, b = tensor("X", m, k), tensor("W", n, k), tensor("B", n)
    out = topi.nn.relu(topi.nn.dense(x, w, b))
    return Workload((x, w, b), (out,), lambda a, c, d: np.maximum(a @ c.T + d, 0))


def product(rng):
    m, n, k = sizes(rng, 3)
    ta, tb = rng.random() < 0.5, rng.random() < 0.5
    x, y = tensor("X", *((k, m) if ta else (m, k))), tensor("Y", *((n, k) if tb else (k, n)))
    out = topi.matmul(x, y, ta, tb)
    return Workload((x, y), (out,), lambda a, b: (a.T if ta else a) @ (b.T if tb else b))


def products(rng):
    m, n, k = sizes(rng, 3)
    x, y = tensor("X", 3, m, k), tensor("Y", 3, n, k)
    out = topi.nn.batch_matmul(x, y)
    return Workload((x, y), (out,), lambda a, b: a @ b.transpose(0, 2, 1))


def _conv(rng, layout, stride):
    ci, co, size = rng.choice([2, 4]), rng.choice([4, 8]), rng.choice([6, 7, 8])
    shapes = {
        "NCHW": ((1, ci, size, size), (co, ci, 3, 3)),
        "NHWC": ((2, size, size, ci), (3, 3, ci, co)),
        "HWCN": ((size, size, ci, 2), (3, 3, ci, co)),
    }[layout]
    return tensor("data", *shapes[0]), tensor("weight", *shapes[1]), stride


def conv_nchw(rng):
    x, w, s = _conv(rng, "NCHW", rng.choice([1, 2]))
    out = topi.nn.relu(topi.nn.conv2d_nchw(x, w, s, 1))
    return Workload(
        (x, w), (out,), lambda a, b: np.maximum(testing.conv2d_nchw_python(a, b, s, 1), 0)
    )


def conv_nhwc(rng):
    x, w, s = _conv(rng, "NHWC", rng.choice([1, 2]))
    out = topi.nn.conv2d_nhwc(x, w, s, 1)
    return Workload((x, w), (out,), lambda a, b: testing.conv2d_nhwc_python(a, b, s, 1))


def conv_hwcn(rng):
    x, w, s = _conv(rng, "HWCN", 1)
    out = topi.nn.conv2d_hwcn(x, w, s, 1)
    return Workload((x, w), (out,), lambda a, b: testing.conv2d_hwcn_python(a, b, s, 1))


def conv_groups(rng):
    size = rng.choice([5, 6])
    x, w = tensor("data", 1, 4, size, size), tensor("weight", 6, 2, 3, 3)
    out = topi.nn.group_conv2d_nchw(x, w, 1, 1, 1, 2)

    def reference(a, b):
        halves = [(a[:, :2], b[:3]), (a[:, 2:], b[3:])]
        return np.concatenate([testing.conv2d_nchw_python(p, q, 1, 1) for p, q in halves], 1)

    return Workload((x, w), (out,), reference)


def depthwise_nchw(rng):
    c, size, s = rng.choice([3, 4]), rng.choice([6, 8]), rng.choice([1, 2])
    x, w = tensor("data", 1, c, size, size), tensor("weight", c, 1, 3, 3)
    out = topi.nn.depthwise_conv2d_nchw(x, w, s, 1)
    return Workload((x, w), (out,), lambda a, b: testing.depthwise_conv2d_python_nchw(a, b, s, 1))


def depthwise_nhwc(rng):
    c, size = rng.choice([3, 8]), rng.choice([6, 7])
    x, w = tensor("data", 1, size, size, c), tensor("weight", 3, 3, c, 1)
    out = topi.nn.depthwise_conv2d_nhwc(x, w, 1, 1)
    return Workload((x, w), (out,), lambda a, b: testing.depthwise_conv2d_python_nhwc(a, b, 1, 1))


def winograd(rng):
    ci, co, size = rng.choice([2, 4]), rng.choice([4, 6]), rng.choice([6, 8])
    layout = rng.choice(["nchw", "nhwc"])
    if layout == "nchw":
        x, w = tensor("data", 1, ci, size, size), tensor("weight", co, ci, 3, 3)
        out = topi.nn.conv2d_winograd_nchw(x, w, 1, 1, tile_size=2)
        return Workload((x, w), (out,), lambda a, b: testing.conv2d_nchw_python(a, b, 1, 1), 1e-3)
    x, w = tensor("data", 1, size, size, ci), tensor("weight", 3, 3, ci, co)
    out = topi.nn.conv2d_winograd_nhwc(x, w, 1, 1, tile_size=2)
    return Workload((x, w), (out,), lambda a, b: testing.conv2d_nhwc_python(a, b, 1, 1), 1e-3)


def pooled(rng):
    kind, c, size = rng.choice(["max", "avg"]), rng.choice([2, 3]), rng.choice([6, 8])
    x = tensor("data", 1, c, size, size)
    out = topi.nn.pool2d(x, (2, 2), 2, 1, 0, kind)

    def reference(a):
        blocks = a.reshape(1, c, size // 2, 2, size // 2, 2)
        return blocks.max((3, 5)) if kind == "max" else blocks.mean((3, 5))

    return Workload((x,), (out,), reference)


def pooled_whole(rng):
    kind = rng.choice(["max", "avg"])
    x = tensor("data", 2, *sizes(rng, 3))
    out = topi.nn.global_pool(x, kind)
    pick = np.max if kind == "max" else np.mean
    return Workload((x,), (out,), lambda a: pick(a, axis=(2, 3), keepdims=True))


def softmax_of(rng):
    x = tensor("X", *sizes(rng, 2, (4, 16, 40)))
    if rng.random() < 0.5:
        return Workload((x,), (topi.nn.softmax(x),), testing.softmax_python)
    return Workload((x,), (topi.nn.log_softmax(x),), testing.log_softmax_python)


def biased(rng):
    m, n = sizes(rng, 2)
    x, b = tensor("X", m, n), tensor("B", n)
    out = topi.nn.leaky_relu(topi.nn.bias_add(x, b), 0.1)
    return Workload((x, b), (out,), lambda a, c: np.where(a + c > 0, a + c, (a + c) * 0.1))


def padded(rng):
    m, n = sizes(rng, 2)
    x = tensor("X", m, n)
    out = topi.nn.pad(topi.exp(x), (1, 2), (0, 3))
    return Workload((x,), (out,), lambda a: np.pad(np.exp(a), ((1, 0), (2, 3))))


def scaled(rng):
    c, size = sizes(rng, 2)
    x, s, b = tensor("X", 1, c, size, size), tensor("S", c), tensor("B", c)
    out = topi.nn.scale_shift_nchw(x, s, b)
    return Workload((x, s, b), (out,), lambda a, p, q: a * p[:, None, None] + q[:, None, None])


OPERATORS = {
    f.__name__: f
    for f in (
        unary, positive, binary, divided, compared, reduced, multiplied, clipped, cast, transposed,
        reshaped, squeezed, joined, sliced, flipped, broadcast, dense, product, products,
        conv_nchw, conv_nhwc, conv_hwcn, conv_groups, depthwise_nchw, depthwise_nhwc, winograd,
        pooled, pooled_whole, softmax_of, biased, padded, scaled,
    )
}  # fmt: skip
