"""Random calls of operators by name: which operator, its attributes, shapes and dtype."""

from dataclasses import dataclass, field

import ml_dtypes
import numpy as np

from autotune.errors import GraphError
from autotune.graph import OPERATORS, Node, TensorType, Variable

# How far results may be from those of float64, as a share of the whole result's norm: sums of
# 16-bit floats that no template computes are rounded each time. By target the dtypes that are
# drawn.
NEAR = {"float64": 1e-9, "float32": 2e-5, "float16": 1e-2, "bfloat16": 8e-2}
DTYPES = {
    "c": ("float32", "float32", "float64"),
    "cuda -emulate": ("float32", "float16", "bfloat16"),
}
# Of these only numbers above 0 are drawn.
POSITIVE = {"log", "sqrt", "rsqrt", "power", "divide", "prod"}
UNARY = (
    "exp", "log", "sqrt", "rsqrt", "tanh", "sigmoid", "erf", "sin", "cos", "floor", "ceil", "abs",
    "negative", "copy", "nn.relu", "nn.silu",
)  # fmt: skip
BINARY = ("add", "subtract", "multiply", "divide", "power", "maximum", "minimum")
REDUCTIONS = ("sum", "mean", "max", "min", "prod", "argmax", "argmin")


@dataclass(frozen=True)
class Call:
    """A call: attributes, and what is given."""

    seed: int
    name: str
    target: str
    attributes: dict = field(default_factory=dict)
    types: tuple = ()

    @property
    def op(self):
        return OPERATORS[self.name](**self.attributes)

    @property
    def result(self):
        """The type of the result."""
        node = Node(self.op, tuple(Variable(kind, f"x{i}") for i, kind in enumerate(self.types)))
        return node.output.type

    @property
    def is_taken(self):
        """Whether the operator takes this: no window is larger than its image, and such."""
        try:
            return self.result is not None
        except GraphError:
            return False

    def arrays(self):
        """Return numbers for the inputs, and room for the result."""
        rng = np.random.default_rng(self.seed)
        made = [self._numbers(rng, i, kind) for i, kind in enumerate(self.types)]
        return [*made, np.zeros(self.result.shape, _numpy(self.result.dtype))]

    def _numbers(self, rng, place, kind):
        if kind.dtype == "int32":
            return rng.integers(0, self.types[0].shape[0], kind.shape).astype("int32")
        if self.name in (
            "argmax",
            "argmin",
            "floor",
            "ceil",
        ):  # all different, and no whole numbers
            numbers = rng.permutation(kind.size).reshape(kind.shape) / 8 + 1 / 16
        elif self.name in POSITIVE:
            numbers = rng.uniform(0.5, 1.5, kind.shape)
        else:
            numbers = rng.normal(size=kind.shape)
        return numbers.astype(_numpy(kind.dtype))


def _numpy(dtype):
    return ml_dtypes.bfloat16 if dtype == "bfloat16" else np.dtype(dtype)


def draw_call(seed, target, names):
    """Draw a call of one of some operators on a target."""
    rng = np.random.default_rng(seed)
    for _ in range(50):
        name = names[rng.integers(len(names))]
        dtype = DTYPES[target][rng.integers(len(DTYPES[target]))]
        attributes, *shapes = DRAWN[name](rng)
        types = tuple(TensorType(s, dtype) if isinstance(s, tuple) else s for s in shapes)
        call = Call(seed, name, target, attributes, types)
        if call.is_taken:
            return call
    raise AssertionError(f"seed {seed}: 50 drawn calls in a row that no operator takes")


def _one(rng, *values):
    return values[rng.integers(len(values))]


def _extent(rng, most=12):
    """Return an extent: small, and often odd."""
    return int(rng.integers(1, most + 1))


def _shape(rng, rank, most=12):
    return tuple(_extent(rng, most) for _ in range(rank))


def _flag(rng):
    return bool(rng.integers(2))


def _conv2d(rng):
    groups, each = _one(rng, 1, 1, 2, 4), _extent(rng, 6)
    channels, filters = groups * each, groups * _extent(rng, 6)
    kh, kw = _one(rng, 1, 2, 3, 5), _one(rng, 1, 3)
    n, h, w = _extent(rng, 2), _extent(rng, 14), _extent(rng, 14)
    attributes = {
        "strides": _one(rng, (1,), (2,), (1, 2)),
        "padding": _one(rng, (0,), (1,), (2, 1), (0, 1, 2, 1)),
        "dilation": _one(rng, (1,), (1,), (2,)),
        "groups": groups,
    }
    if _flag(rng) and groups == 1:
        attributes |= {"data_layout": "NHWC", "kernel_layout": "HWIO"}
        return attributes, (n, h, w, channels), (kh, kw, channels, filters)
    return attributes, (n, channels, h, w), (filters, each, kh, kw)


def _conv3d(rng):
    n, channels, filters, k = _extent(rng, 2), _extent(rng, 4), _extent(rng, 5), _one(rng, 1, 2, 3)
    d, h, w = _shape(rng, 3, 7)
    attributes = {"strides": _one(rng, (1,), (2,)), "padding": _one(rng, (0,), (1,))}
    if _flag(rng):
        attributes |= {"data_layout": "NDHWC", "kernel_layout": "DHWIO"}
        return attributes, (n, d, h, w, channels), (k, k, k, channels, filters)
    return attributes, (n, channels, d, h, w), (filters, channels, k, k, k)


def _conv2d_transpose(rng):
    n, channels, filters = _extent(rng, 2), _extent(rng, 5), _extent(rng, 5)
    attributes = {"strides": _one(rng, (1,), (2,), (2, 1)), "padding": _one(rng, (0,), (1,))}
    k = _one(rng, 2, 3, 4)
    return attributes, (n, channels, *_shape(rng, 2, 7)), (channels, filters, k, k)


def _pool(rng):
    attributes = {
        "pool_size": _one(rng, (2,), (3,), (2, 3)),
        "strides": _one(rng, (1,), (2,)),
        "padding": _one(rng, (0,), (1,), (1, 0, 0, 1)),
        "ceil_mode": _flag(rng),
        "layout": _one(rng, "NCHW", "NHWC"),
    }
    return attributes, _shape(rng, 4, 9)


def _average_pool(rng):
    attributes, shape = _pool(rng)
    return attributes | {"count_include_pad": _flag(rng)}, shape


def _global_pool(rng):
    return {"layout": _one(rng, "NCHW", "NHWC")}, _shape(rng, 4)


def _global_pool_3d(rng):
    return {"layout": _one(rng, "NCDHW", "NDHWC")}, _shape(rng, 5, 6)


def _dense(rng):
    m, n, k = _one(rng, 1, 3, 17), _extent(rng, 40), _extent(rng, 70)
    return {}, (m, k), (n, k)


def _batch_matmul(rng):
    batch, m, n, k = _extent(rng, 3), _extent(rng, 20), _extent(rng, 20), _extent(rng, 40)
    ta, tb = _flag(rng), _flag(rng)
    a, b = ((k, m) if ta else (m, k)), ((n, k) if tb else (k, n))
    attributes = {"transpose_a": ta, "transpose_b": tb}
    return attributes, (batch, *a), (_one(rng, 1, batch), *b)


def _rows(rng):
    rank = _one(rng, 1, 2, 3)
    shape = (*_shape(rng, rank - 1), _one(rng, 1, 5, 33, 130, 257))
    return {_AXIS: _one(rng, -1, -1, rank - 1, 0)}, shape


_AXIS = "axis"


def _axis_named(name):
    def rows(rng):
        attributes, shape = _rows(rng)
        return {name: attributes[_AXIS]}, shape

    return rows


def _layer_norm(rng):
    attributes, shape = _axis_named("axis_of_norm")(rng)
    flags = {"center": _flag(rng), "scale": _flag(rng), "epsilon": _one(rng, 1e-5, 0.1)}
    vectors = [(shape[attributes["axis_of_norm"]],)] * (flags["center"] + flags["scale"])
    return attributes | flags, shape, *vectors


def _rms_norm(rng):
    attributes, shape = _axis_named("axis_of_norm")(rng)
    scale = _flag(rng)
    vectors = [(shape[attributes["axis_of_norm"]],)] * scale
    return attributes | {"scale": scale, "epsilon": 0.1}, shape, *vectors


def _group_norm(rng):
    groups, each = _one(rng, 1, 2, 3), _extent(rng, 5)
    shape = (_extent(rng, 3), groups * each, *_shape(rng, _one(rng, 0, 1, 2), 7))
    both = {"center": _flag(rng), "scale": _flag(rng), "epsilon": 0.1}
    vectors = [(shape[1],)] * (both["center"] + both["scale"])
    return {"num_groups": groups, **both}, shape, *vectors


def _instance_norm(rng):
    attributes, shape, *vectors = _group_norm(rng)
    del attributes["num_groups"]
    return attributes, shape, *vectors


def _heads(rng):
    kv_heads = _one(rng, 1, 2)
    heads = kv_heads * _one(rng, 1, 2)
    return (
        _extent(rng, 2),
        heads,
        kv_heads,
        _extent(rng, 20),
        _extent(rng, 40),
        8 * _extent(rng, 4),
    )


def _seen(rng):
    return {"causal": _flag(rng), "scale": _one(rng, None, 0.3)}


def _attention(rng):
    batch, heads, kv_heads, queries, keys, size = _heads(rng)
    k = (batch, kv_heads, keys, size)
    return _seen(rng), (batch, heads, queries, size), k, k


def _rows_first_attention(rng):
    batch, heads, kv_heads, queries, keys, size = _heads(rng)
    k = (batch, keys, kv_heads, size)
    return _seen(rng), (batch, queries, heads, size), k, k


def _packed_attention(rng):
    batch, heads, kv_heads, rows, _, size = _heads(rng)
    every = (batch, rows, heads + 2 * kv_heads, size)
    return _seen(rng) | {"kv_heads": kv_heads if kv_heads < heads else 0}, every


def _cumsum(rng):
    rank = _one(rng, 1, 2, 3)
    return {"along": int(rng.integers(-rank, rank))}, _shape(rng, rank, 40)


def _reduction(rng):
    rank = _one(rng, 1, 2, 3, 4)
    axes = tuple(sorted(rng.choice(rank, _one(rng, 1, rank), replace=False).tolist()))
    return {"axes": axes, "keepdims": _flag(rng)}, _shape(rng, rank, 9)


def _transpose(rng):
    rank = _one(rng, 2, 3, 4)
    return {"axes": tuple(rng.permutation(rank).tolist())}, _shape(rng, rank, 20)


def _take(rng):
    shape = _shape(rng, _one(rng, 1, 2, 3), 9)
    return {"along": 0}, shape, TensorType(_shape(rng, _one(rng, 1, 2), 5), "int32")


def _unary(rng):
    return {}, _shape(rng, _one(rng, 1, 2, 4))


def _binary(rng):
    shape = _shape(rng, _one(rng, 1, 2, 3))
    cut = int(rng.integers(len(shape)))
    other = tuple(_one(rng, 1, n) for n in shape)[cut:]
    return {}, shape, other


def _where(rng):
    shape = _shape(rng, _one(rng, 1, 2, 3))
    return {}, shape, shape, shape


def _clip(rng):
    return {"a_min": _one(rng, -0.5, 0.0), "a_max": _one(rng, 0.5, 6.0)}, _unary(rng)[1]


def _leaky_relu(rng):
    return {"alpha": _one(rng, 0.01, 0.3)}, _unary(rng)[1]


def _gelu(rng):
    return {"approximate": _one(rng, "none", "tanh")}, _unary(rng)[1]


def _channels(name):
    def drawn(rng):
        shape = _shape(rng, _one(rng, 2, 3, 4))
        return {name: 1}, shape, (shape[1],)

    return drawn


# By operator: attributes, shapes or types of the inputs.
DRAWN = {
    **dict.fromkeys(UNARY, _unary),
    **dict.fromkeys(BINARY, _binary),
    **dict.fromkeys(REDUCTIONS, _reduction),
    "nn.conv2d": _conv2d,
    "nn.conv3d": _conv3d,
    "nn.conv2d_transpose": _conv2d_transpose,
    "nn.max_pool2d": _pool,
    "nn.avg_pool2d": _average_pool,
    "nn.global_avg_pool2d": _global_pool,
    "nn.global_max_pool2d": _global_pool,
    "nn.global_avg_pool3d": _global_pool_3d,
    "nn.dense": _dense,
    "nn.batch_matmul": _batch_matmul,
    "nn.softmax": _axis_named("axis_of_sum"),
    "nn.log_softmax": _axis_named("axis_of_sum"),
    "nn.layer_norm": _layer_norm,
    "nn.rms_norm": _rms_norm,
    "nn.group_norm": _group_norm,
    "nn.instance_norm": _instance_norm,
    "nn.scaled_dot_product_attention": _attention,
    "nn.rows_first_attention": _rows_first_attention,
    "nn.packed_attention": _packed_attention,
    "cumsum": _cumsum,
    "transpose": _transpose,
    "take": _take,
    "where": _where,
    "clip": _clip,
    "nn.leaky_relu": _leaky_relu,
    "nn.gelu": _gelu,
    "nn.bias_add": _channels("axis_of_bias"),
    "nn.prelu": _channels("axis_of_slope"),
}
