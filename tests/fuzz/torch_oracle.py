"""What PyTorch says of a call by name, in float64, and how far from it a result may be.

A bound follows from how a result is made: of a sum of n products a float with unit roundoff u is
off by at most n u times the sum of their magnitudes, whatever the order. What only moves or
chooses elements is exact.
"""

import math
from dataclasses import dataclass

import torch
from torch.nn import functional

from tests.fuzz.torch_windows import avg_pool, batch_matmul, conv, conv_transpose, max_pool

ROUNDOFF = {"float64": 2.0**-53, "float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}
TINY = {"float64": 5e-324, "float32": 1.5e-45, "float16": 6e-8, "bfloat16": 1e-40}


@dataclass(frozen=True)
class Wanted:
    """A result in float64, or whole numbers, and the error of each element that is allowed."""

    value: torch.Tensor
    bound: torch.Tensor


def _over(x, a):
    axes = range(x.ndim) if a["axes"] is None else a["axes"]
    return tuple(axes)


def _flat(x, a):
    """Return the reduced axes as the last one, and what finishes a result."""
    axes = _over(x, a)
    left = [i for i in range(x.ndim) if i not in axes]
    flat = x.permute(*left, *axes).reshape(*[x.shape[i] for i in left], -1)
    shape = [1 if i in axes else n for i, n in enumerate(x.shape)]
    return flat, lambda found: found.reshape(shape) if a["keepdims"] else found


def _reduced(function):
    def run(x, a):
        flat, finish = _flat(x, a)
        return finish(function(flat))

    return run


def _spread(v, axis, x):
    return v.reshape([-1 if i == axis % x.ndim else 1 for i in range(x.ndim)])


def _normed(x, axes, a):
    """Return normalised elements, and their error for a unit roundoff of 1."""
    mean = x.mean(axes, keepdim=True)
    variance = ((x - mean) ** 2).mean(axes, keepdim=True)
    square = (x**2).mean(axes, keepdim=True)
    count = math.prod(x.shape[i] for i in axes)
    scale = (variance + a["epsilon"]).rsqrt()
    out = (x - mean) * scale
    off = (
        4
        * (count + 8)
        * (x.abs().amax(axes, keepdim=True) * scale + out.abs() * square * scale**2)
    )
    return out, off


def _affine(pair, vectors, axis, a):
    out, off = pair
    vectors = list(vectors)
    if a["scale"]:
        gamma = _spread(vectors.pop(0), axis, out)
        out, off = out * gamma, off * gamma.abs()
    if a["center"]:
        beta = _spread(vectors.pop(0), axis, out)
        out, off = out + beta, off + out.abs() + 2 * beta.abs()
    return out, off


def _layer_norm(a, x, *vectors):
    axis = a["axis_of_norm"]
    return _affine(_normed(x, (axis % x.ndim,), a), vectors, axis, a)


def _rms_norm(a, x, *vectors):
    axis = a["axis_of_norm"] % x.ndim
    scale = ((x**2).mean(axis, keepdim=True) + a["epsilon"]).rsqrt()
    out = x * scale
    pair = out, out.abs() * (x.shape[axis] + 8)
    return _affine(pair, vectors, axis, {**a, "center": False})


def _group_norm(a, x, *vectors, groups=None):
    groups = groups or a["num_groups"]
    flat = x.reshape(x.shape[0], groups, -1)
    out, off = _normed(flat, (2,), a)
    return _affine((out.reshape(x.shape), off.reshape(x.shape)), vectors, 1, a)


def _softmax(a, x):
    axis = a["axis_of_sum"]
    out = x.softmax(axis)
    away = (x - x.amax(axis, keepdim=True)).abs()
    # Powers below the normal numbers may be 0.
    return out, out * (2 * away + x.shape[axis] + 8) + torch.where(
        out < 2.0**-120, out * 2.0**24, 0
    )


def _log_softmax(a, x):
    axis = a["axis_of_sum"]
    out = x.log_softmax(axis)
    away = (x - x.amax(axis, keepdim=True)).abs()
    return out, 2 * away + out.abs() + x.shape[axis] + 8


def _attention(a, q, k, v, kind):
    """Return attention of heads-first arrays, and its error for a type and sums in float32."""
    group, (queries, keys) = q.shape[1] // k.shape[1], (q.shape[2], k.shape[2])
    k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
    factor = q.shape[3] ** -0.5 if a["scale"] is None else a["scale"]
    scores = q @ k.mT * factor
    hidden = torch.zeros(queries, keys, dtype=torch.bool)
    if a["causal"]:
        hidden = torch.arange(keys) > torch.arange(queries)[:, None] + keys - queries
        scores = scores.masked_fill(hidden, -math.inf)
    powers = scores.softmax(-1)
    # As in PyTorch from 2.5 on a query gets zeros where no score is above minus infinity.
    powers = powers.masked_fill((scores == -math.inf).all(-1, keepdim=True), 0)
    sums = max(ROUNDOFF["float32"], ROUNDOFF[kind]) if kind != "float64" else ROUNDOFF[kind]
    exact = min(ROUNDOFF["float32"], sums)
    off = exact * (q.shape[3] + 8) * (q.abs() @ k.abs().mT * abs(factor)).amax(-1, keepdim=True)
    weight = powers @ v.abs()
    return powers @ v, weight * (4 * off + exact * (keys + 8) + 2 * sums)


def _elementwise(function, ulps):
    """Return what computes elements, each of which is rounded a few times."""

    def run(a, *x):
        out = function(a, *x)
        return out, ulps * out.abs()

    return run


def _linear(function, count):
    """Return what computes sums of products: ``count`` says how long they are."""

    def run(a, *x):
        size = function(a, *[each.abs().nan_to_num(0, 0, 0) for each in x])
        return function(a, *x), (count(a, *x) + 4) * size

    return run


def _exact(function):
    def run(a, *x):
        out = function(a, *x)
        return out, torch.zeros(out.shape, dtype=torch.float64)

    return run


def _taps(a, x, w):
    last = a.get("data_layout", "NCHW")[1] != "C"
    return w[..., 0].numel() if last else w[0].numel()


def _absolute(function, ulps):
    """Return what computes elements whose error is measured by 1."""

    def run(a, *x):
        out = function(a, *x)
        return out, ulps * (1 + out.abs())

    return run


def _gelu(a, x):
    out = functional.gelu(x, approximate=a["approximate"])
    return out, 16 * (x.abs() + out.abs())


def _product(a, x):
    out = _reduced(lambda flat: flat.prod(-1))(x, a)
    return out, (x.numel() + 2) * out.abs()


def _clip(a, x, kind):
    low, high = (
        torch.tensor(v, dtype=getattr(torch, kind)).double() for v in (a["a_min"], a["a_max"])
    )
    return torch.minimum(torch.maximum(x, low), high)


_counted = {
    "sum": lambda flat: flat.sum(-1),
    "mean": lambda flat: flat.sum(-1) / flat.shape[-1],
}
EXACT_UNARY = {
    "floor": torch.floor, "ceil": torch.ceil, "abs": torch.abs, "negative": torch.neg,
    "copy": torch.clone, "nn.relu": torch.relu,
}  # fmt: skip
ROUNDED_UNARY = {
    "exp": torch.exp, "log": torch.log, "sqrt": torch.sqrt, "rsqrt": torch.rsqrt,
    "tanh": torch.tanh, "erf": torch.erf, "sin": torch.sin,
    "cos": torch.cos,
}  # fmt: skip
BINARY = {
    "add": torch.add, "subtract": torch.sub, "multiply": torch.mul, "divide": torch.div,
    "power": torch.pow,
}  # fmt: skip
EXTREMES = {"maximum": torch.maximum, "minimum": torch.minimum}
FIRST = {"argmax": torch.argmax, "argmin": torch.argmin}


def _first(function):
    """Return the place of the first extreme; a NaN goes before all numbers, as in torch."""

    def of(flat):
        best = {"argmax": flat.amax(-1), "argmin": flat.amin(-1)}[function]
        same = (flat == best[..., None]) | (best.isnan()[..., None] & flat.isnan())
        return same.to(torch.int8).argmax(-1).to(torch.int32)

    return of


ORACLES = {
    **{n: _exact(lambda a, x, f=f: f(x)) for n, f in EXACT_UNARY.items()},
    **{n: _elementwise(lambda a, x, f=f: f(x), 8) for n, f in ROUNDED_UNARY.items()},
    **{n: _elementwise(lambda a, x, y, f=f: f(x, y), 2) for n, f in BINARY.items()},
    **{n: _exact(lambda a, x, y, f=f: f(x, y)) for n, f in EXTREMES.items()},
    **{n: _exact(lambda a, x, n=n: _reduced(_first(n))(x, a)) for n in FIRST},
    **{
        n: _linear(lambda a, x, f=f: _reduced(f)(x, a), lambda a, x: x.numel())
        for n, f in _counted.items()
    },
    # Where the power of e overflows, the result is 0.
    "sigmoid": lambda a, x: (torch.sigmoid(x), 8 * torch.sigmoid(x) + 2.0**-100),
    "nn.silu": lambda a, x: (
        functional.silu(x),
        8 * functional.silu(x).abs() + 2.0**-100 * x.abs().nan_to_num(0, 0, 0),
    ),
    "power": _elementwise(lambda a, x, y: torch.pow(x, y), 16),
    "sin": _absolute(lambda a, x: torch.sin(x), 4),
    "cos": _absolute(lambda a, x: torch.cos(x), 4),
    "tanh": _absolute(lambda a, x: torch.tanh(x), 4),
    "erf": _absolute(lambda a, x: torch.erf(x), 8),
    "max": _exact(lambda a, x: _reduced(lambda flat: flat.amax(-1))(x, a)),
    "min": _exact(lambda a, x: _reduced(lambda flat: flat.amin(-1))(x, a)),
    "prod": _product,
    "nn.conv2d": _linear(lambda a, x, w: conv(x, w, a, 2), _taps),
    "nn.conv3d": _linear(lambda a, x, w: conv(x, w, a, 3), _taps),
    "nn.conv2d_transpose": _linear(
        lambda a, x, w: conv_transpose(x, w, a), lambda a, x, w: w[:, 0].numel()
    ),
    "nn.max_pool2d": _exact(lambda a, x: max_pool(x, a)),
    "nn.avg_pool2d": _linear(lambda a, x: avg_pool(x, a), lambda a, x: 16),
    "nn.global_avg_pool2d": _linear(
        lambda a, x: x.mean((2, 3) if a["layout"] == "NCHW" else (1, 2), keepdim=True),
        lambda a, x: x.numel(),
    ),
    "nn.global_max_pool2d": _exact(
        lambda a, x: x.amax((2, 3) if a["layout"] == "NCHW" else (1, 2), keepdim=True)
    ),
    "nn.global_avg_pool3d": _linear(
        lambda a, x: x.mean((2, 3, 4) if a["layout"] == "NCDHW" else (1, 2, 3), keepdim=True),
        lambda a, x: x.numel(),
    ),
    "nn.dense": _linear(lambda a, x, w: x @ w.T, lambda a, x, w: x.shape[1]),
    "nn.batch_matmul": _linear(
        lambda a, x, y: batch_matmul(x, y, a),
        lambda a, x, y: x.shape[1 if a["transpose_a"] else 2],
    ),
    "nn.softmax": _softmax,
    "nn.log_softmax": _log_softmax,
    "nn.layer_norm": _layer_norm,
    "nn.rms_norm": _rms_norm,
    "nn.group_norm": _group_norm,
    "nn.instance_norm": lambda a, x, *v: _group_norm(a, x, *v, groups=x.shape[1]),
    "cumsum": _linear(
        lambda a, x: x.cumsum(a["along"]), lambda a, x: x.shape[a["along"]]
    ),
    "transpose": _exact(lambda a, x: x.permute(*a["axes"])),
    "take": _exact(
        lambda a, x, i: x.index_select(0, i.clamp(0, x.shape[0] - 1).flatten().long()).reshape(
            *i.shape, *x.shape[1:]
        )
    ),
    "where": _exact(lambda a, c, x, y: torch.where(c != 0, x, y)),
    "nn.leaky_relu": _elementwise(
        lambda a, x: torch.where(x > 0, x, x * a["alpha"]), 2
    ),
    "nn.gelu": _gelu,
    "nn.bias_add": _elementwise(lambda a, x, b: x + _spread(b, a["axis_of_bias"], x), 2),
    "nn.prelu": _elementwise(
        lambda a, x, s: torch.where(x > 0, x, x * _spread(s, a["axis_of_slope"], x)), 2
    ),
}  # fmt: skip
# Their bounds have the unit roundoff in them.
ATTENTION = {
    "nn.scaled_dot_product_attention": lambda a, q, k, v, kind: _attention(a, q, k, v, kind),
    "nn.rows_first_attention": lambda a, q, k, v, kind: tuple(
        each.transpose(1, 2)
        for each in _attention(a, *(each.transpose(1, 2) for each in (q, k, v)), kind)
    ),
    "nn.packed_attention": lambda a, every, kind: _packed(a, every, kind),
}
# What sums 16-bit floats in float32 on every target.
WIDE = {
    "sum", "mean", "prod", "cumsum", "nn.avg_pool2d", "nn.global_avg_pool2d",
    "nn.global_avg_pool3d",
}  # fmt: skip


def _packed(a, every, kind):
    heads = every.shape[2]
    kv = a["kv_heads"] or heads // 3
    q, k, v = every.transpose(1, 2).split([heads - 2 * kv, kv, kv], 1)
    return tuple(each.transpose(1, 2) for each in _attention(a, q, k, v, kind))


def wanted(call, tensors):
    """Return what a call should give for these tensors, of its own types."""
    kind = call.types[0].dtype
    wide = [x.double() if x.is_floating_point() else x for x in tensors]
    if kind not in ROUNDOFF:
        value, _ = ORACLES[call.name](call.attributes, *wide)
        return Wanted(value, torch.zeros(value.shape, dtype=torch.float64))
    unit = ROUNDOFF[kind]
    if call.name in ATTENTION:
        value, bound = ATTENTION[call.name](call.attributes, *wide, kind)
    elif call.name == "clip":
        value = _clip(call.attributes, *wide, kind)
        bound = torch.zeros_like(value)
    else:
        value, bound = ORACLES[call.name](call.attributes, *wide)
        sums = min(unit, ROUNDOFF["float32"]) if call.name in WIDE else unit
        bound = bound * sums
    if value.is_floating_point() and (bound != 0).any():
        bound = bound + unit * value.abs().nan_to_num(0, 0, 0) + 4 * TINY[kind]
    return Wanted(value, bound.nan_to_num(math.inf, math.inf))
