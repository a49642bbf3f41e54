"""Layers that no other benchmark and no shipped record has: drawn from a seed, and nasty ones.

Each names the templates that can compute it, says in PyTorch what it computes, and lists what
PyTorch offers for it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from benchmarks.layer_workloads import attention_rivals, attention_wanted
from benchmarks.rivals import Named, forget_pick, in_both_layouts

Arrays = list[Any]
Compute = Callable[[Arrays], Any]
HALVES = ("float16", "bfloat16")
# Operations and elements above which a drawn layer is drawn again, so that a run ends.
_MOST_FLOP, _MOST_ELEMENTS = 3e10, 3e7


@dataclass(frozen=True)
class Way:
    """A template that computes a layer.

    Attributes:
        tile: of Winograd's method, for which the filters are transformed ahead; 0 of all others.
    """

    template: str
    args: tuple[Any, ...]
    tile: int = 0


@dataclass(frozen=True)
class Layer:
    """A layer, the ways to compute it, and PyTorch's.

    Attributes:
        kind: by which a summary groups layers.
        ways: the first is what a network takes untuned; all take the same arrays in and out.
        compute: the result, of the arrays that the first way takes.
        rivals: what PyTorch offers, each to be captured before the next is asked for.
    """

    kind: str
    ways: tuple[Way, ...]
    compute: Compute
    rivals: Callable[[Arrays], Named]
    tf32: bool = False

    @property
    def name(self) -> str:
        """The first way, as a call; defaults at its end are left out."""
        args = list(self.ways[0].args)
        return f"{self.ways[0].template}({', '.join(map(_shown, args))})"


def _shown(value: Any) -> str:
    if isinstance(value, (tuple, list)):
        return f"({', '.join(map(_shown, value))})"
    return value if isinstance(value, str) else str(value)


@dataclass(frozen=True)
class After:
    """What follows a sum, in the order in which templates take it."""

    bias: bool = False
    residual: bool = False
    affine: bool = False
    activation: str = "none"
    alpha: float = 1.0

    def __call__(self, sums: Any, rest: Arrays, shape: tuple[int, ...]) -> Any:
        """Apply it to sums, whose channels lie along the axis where ``shape`` is not 1."""
        arrays = iter(rest)
        out = sums if self.alpha == 1 else sums * self.alpha
        if self.bias:
            out = out + next(arrays).reshape(shape)
        if self.residual:
            out = out + next(arrays)
        if self.affine:
            out = out * next(arrays).reshape(shape) + next(arrays).reshape(shape)
        return _activated(out, self.activation)


def _activated(x: Any, activation: str) -> Any:
    import torch

    functional = torch.nn.functional
    functions: dict[str, Compute] = {
        "none": lambda y: y, "relu": functional.relu, "relu6": functional.relu6,
        "silu": functional.silu, "gelu": functional.gelu,
    }  # fmt: skip
    return functions[activation](x)


@dataclass(frozen=True)
class Conv:
    """A convolution; ``co`` is the number of filters, of each channel for a depthwise one."""

    n: int
    h: int
    w: int
    co: int
    ci: int
    size: tuple[int, int]
    stride: tuple[int, int] = (1, 1)
    padding: tuple[int, int, int, int] = (0, 0, 0, 0)
    dilation: tuple[int, int] = (1, 1)
    groups: int = 1
    layout: str = "NCHW"
    dtype: str = "float32"
    after: After = After()
    depthwise: bool = False

    @property
    def outputs(self) -> tuple[int, int]:
        """Rows and columns of the result."""
        (top, left, bottom, right), (ky, kx) = self.padding, self.size
        y = self.h + top + bottom - (ky - 1) * self.dilation[0] - 1
        x = self.w + left + right - (kx - 1) * self.dilation[1] - 1
        return y // self.stride[0] + 1, x // self.stride[1] + 1

    @property
    def flop(self) -> float:
        """Operations."""
        per = self.size[0] * self.size[1] * (1 if self.depthwise else self.ci // self.groups)
        filters = self.co * (self.ci if self.depthwise else 1)
        return 2.0 * self.n * self.outputs[0] * self.outputs[1] * filters * per

    def sums(self, data: Any, weight: Any, bias: Any = None) -> Any:
        """Return PyTorch's convolution of NCHW images; uneven padding is a copy before it."""
        import torch

        top, left, bottom, right = self.padding
        sides = (top, left)
        if (top, left) != (bottom, right):
            data, sides = torch.nn.functional.pad(data, (left, right, top, bottom)), (0, 0)
        groups = self.ci if self.depthwise else self.groups
        return torch.nn.functional.conv2d(
            data, weight, bias, self.stride, sides, self.dilation, groups
        )

    def nchw(self, arrays: Arrays) -> Arrays:
        """Return the arrays of a kernel as PyTorch sees them: NCHW and OIHW, whatever lies how."""
        data, weight, *rest = arrays
        if self.layout == "NHWC":
            data = data.permute(0, 3, 1, 2)
            weight = weight.permute(2, 3, 0, 1) if self.depthwise else weight.permute(3, 2, 0, 1)
            rest = [each.permute(0, 3, 1, 2) if each.dim() == 4 else each for each in rest]
        if self.depthwise:
            weight = weight.reshape(self.ci * self.co, 1, *self.size)
        return [data, weight, *rest]

    def compute(self, arrays: Arrays) -> Any:
        """Return the layer's result in its layout."""
        data, weight, *rest = self.nchw(arrays)
        out = self.after(self.sums(data, weight), rest, (1, -1, 1, 1))
        return out.permute(0, 2, 3, 1) if self.layout == "NHWC" else out

    def rivals(self, arrays: Arrays) -> Named:
        """Yield PyTorch in both layouts, its bias within the convolution, as cuDNN picks."""
        import torch

        torch.backends.cudnn.allow_tf32 = self.dtype == "tf32"
        torch.backends.cudnn.benchmark = True
        torch.backends.cudnn.benchmark_limit = 0
        data, weight, *rest = self.nchw(arrays)
        bias = rest.pop(0) if self.after.bias else None
        scaled = After(False, self.after.residual, self.after.affine, self.after.activation)
        images = [i for i, each in enumerate(rest) if each.dim() == 4]
        every = in_both_layouts(data, weight, *(rest[i] for i in images))
        for name, (a, b, *moved) in every:
            other = [moved[images.index(i)] if i in images else r for i, r in enumerate(rest)]
            forget_pick()
            yield f"PyTorch {name}", partial(self._run, a, b, bias, scaled, other)
            if self.after == After(True, self.after.residual, activation="relu"):
                yield f"cuDNN fused {name}", partial(self._fused, a, b, bias, other)

    def _run(self, data: Any, weight: Any, bias: Any, after: After, rest: Arrays) -> Any:
        return after(self.sums(data, weight, bias), rest, (1, -1, 1, 1))

    def _fused(self, data: Any, weight: Any, bias: Any, rest: Arrays) -> Any:
        """Run cuDNN's kernels for a bias, a residual and a ReLU; it has none for all shapes."""
        import torch

        top, left, bottom, right = self.padding
        if (top, left) != (bottom, right):
            raise RuntimeError("cuDNN pads evenly")
        groups = self.ci if self.depthwise else self.groups
        where = (self.stride, (top, left), self.dilation, groups)
        if not rest:
            return torch.cudnn_convolution_relu(data, weight, bias, *where)
        return torch.cudnn_convolution_add_relu(data, weight, rest[0], 1.0, bias, *where)

    def layer(self) -> Layer:
        """Return the layer with the templates that compute it."""
        kind = f"{'depthwise' if self.depthwise else 'conv'} {self.layout} {self.dtype}"
        made = (self._depthwise, self._nhwc, self._nchw)
        ways = made[0 if self.depthwise else 1 if self.layout == "NHWC" else 2]()
        return Layer(kind, ways, self.compute, self.rivals, self.dtype == "tf32")

    def _depthwise(self) -> tuple[Way, ...]:
        after = (self.after.bias, self.after.activation, self.after.residual, self.after.affine)
        head = (self.n, self.h, self.w, self.ci, self.co, *self.size, self.stride, self.padding)
        return (
            Way("depthwise_conv2d.cuda", (*head, *after, self.dilation, self.layout, self.dtype)),
        )

    def _nhwc(self) -> tuple[Way, ...]:
        after = (self.after.bias, self.after.activation, self.after.residual, self.after.affine)
        head = (self.n, self.h, self.w, self.co, self.ci, *self.size, self.stride, self.padding)
        return (Way("conv2d_nhwc.cuda", (*head, *after, self.dilation, self.dtype)),)

    def _nchw(self) -> tuple[Way, ...]:
        rest = self.after
        relu = rest.activation == "relu"
        head = (self.n, self.h, self.w, self.co, self.ci, *self.size, self.stride, self.padding)
        plain = (
            *head, rest.bias, relu, rest.residual, rest.affine, self.dilation, self.groups,
            "none" if relu else rest.activation,
        )  # fmt: skip
        ways = [Way("conv2d_nchw.cuda", plain)]
        moves = {*self.stride, *self.dilation, self.groups}
        if self.size == (3, 3) and moves == {1} and min(self.co, self.ci) >= 16:
            tile = 4 if min(self.outputs) > 2 else 2
            args = (self.n, self.h, self.w, self.co, self.ci, tile, self.padding)
            after = (rest.bias, rest.activation, rest.residual, rest.affine)
            ways.append(Way("winograd_conv2d.cuda", (*args, *after), tile))
        return tuple(ways)


@dataclass(frozen=True)
class Product:
    """Products of matrices with what follows."""

    m: int
    n: int
    k: int
    dtype: str = "float32"
    batch: int = 1
    transpose_a: bool = False
    transpose_b: bool = False
    after: After = After()
    shared: str = ""

    def operands(self, arrays: Arrays) -> tuple[Any, Any]:
        """Return both operands, turned as they are multiplied."""
        a, b = arrays[:2]
        return a.mT if self.transpose_a else a, b.mT if self.transpose_b else b

    def compute(self, arrays: Arrays) -> Any:
        """Return the result."""
        import torch

        return self.after(torch.matmul(*self.operands(arrays)), arrays[2:], (-1,))

    def rivals(self, arrays: Arrays) -> Named:
        """Yield cuBLAS, with bias and activation within the product where PyTorch can."""
        import torch

        torch.backends.cuda.matmul.allow_tf32 = self.dtype == "tf32"
        a, b = self.operands(arrays)
        rest, after = arrays[2:], self.after
        if self.dtype == "int8":
            yield "cuBLAS int8", lambda: torch._int_mm(a, b)
            halves = a.half(), b.half()
            yield "cuBLAS float16", lambda: torch.matmul(*halves)
            return
        yield "PyTorch", lambda: after(torch.matmul(a, b), rest, (-1,))
        if not after.bias or a.dim() != 2 or after.alpha != 1:
            return
        others = After(False, after.residual, after.affine, after.activation)
        yield "addmm", lambda: others(torch.addmm(rest[0], a, b), rest[1:], (-1,))
        if after in (After(True, activation="relu"), After(True, activation="gelu")):
            gelu = after.activation == "gelu"  # by tanh, which ours is not
            yield "cuBLASLt", lambda: torch._addmm_activation(rest[0], a, b, use_gelu=gelu)

    def layer(self) -> Layer:
        """Return the layer with the templates that compute it."""
        after = self.after
        rest = (after.bias, after.activation, after.residual, after.affine, after.alpha)
        args = (
            self.m, self.n, self.k, self.dtype, self.batch, self.transpose_a, self.transpose_b,
            *rest, self.shared,
        )  # fmt: skip
        ways = [Way("gemm.cuda", args)]
        most = {"float32": 8, "float16": 4, "bfloat16": 4}.get(self.dtype, 0)
        if self.m <= most and self.transpose_b and self.batch == 1 and not self.transpose_a:
            ways.insert(0, Way("matvec.cuda", (self.n, self.k, self.m, self.dtype, *rest)))
        kind = f"product {self.dtype}"
        return Layer(kind, tuple(ways), self.compute, self.rivals, self.dtype == "tf32")


def _eager(kind: str, template: str, args: tuple[Any, ...], compute: Compute) -> Layer:
    """Return a layer that PyTorch computes as it is said."""

    def rivals(arrays: Arrays) -> Named:
        yield "PyTorch", lambda: compute(arrays)

    return Layer(kind, (Way(template, args),), compute, rivals)


def norm(name: str, rows: int, columns: int, dtype: str = "float32") -> Layer:
    """Return softmax, log-softmax, layer norm or RMS norm of rows."""
    import torch

    functional, args = torch.nn.functional, (rows, columns, dtype)
    compute: Compute
    match name:
        case "softmax":
            compute = lambda t: torch.softmax(t[0], 1)  # noqa: E731
        case "log_softmax":
            compute = lambda t: torch.log_softmax(t[0], 1)  # noqa: E731
        case "layer_norm":
            args = (rows, columns, 1e-5, True, True, dtype)  # type: ignore[assignment]
            compute = lambda t: functional.layer_norm(t[0], (columns,), *t[1:3], 1e-5)  # noqa: E731
        case _:
            args = (rows, columns, 1e-6, True, dtype)  # type: ignore[assignment]
            compute = lambda t: functional.rms_norm(t[0], (columns,), t[1], 1e-6)  # noqa: E731
    return _eager("rows", f"{name}.cuda", args, compute)


def group_norm(n: int, channels: int, pixels: int, groups: int, dtype: str = "float32") -> Layer:
    """Return a group norm of images NCHW."""
    import torch

    def compute(arrays: Arrays) -> Any:
        images = arrays[0].reshape(n, channels, pixels)
        out = torch.nn.functional.group_norm(images, groups, *arrays[1:3], 1e-5)
        return out.reshape(arrays[0].shape)

    args = (n, channels, pixels, groups, 1e-5, True, True, dtype)
    return _eager("rows", "group_norm.cuda", args, compute)


def reduction(name: str, outer: int, depth: int, inner: int, dtype: str = "float32") -> Layer:
    """Return a reduction along the middle of three axes."""
    import torch

    def compute(arrays: Arrays) -> Any:
        data = arrays[0].reshape(outer, depth, inner)
        reduced = getattr(torch, name)(data, 1)
        return reduced[0] if name in ("max", "min") else reduced

    def first_place(arrays: Arrays) -> Any:  # of several equal ones PyTorch takes any
        data = arrays[0].reshape(outer, depth, inner)
        places = torch.arange(depth, device=data.device).reshape(1, -1, 1)
        return torch.where(data == data.amax(1, keepdim=True), places, depth).amin(1)

    layer = _eager("reductions", "reduce.cuda", (name, outer, depth, inner, dtype), compute)
    return replace(layer, compute=first_place) if name == "argmax" else layer


def scan(rows: int, columns: int, dtype: str = "float32") -> Layer:
    """Return cumulative sums of rows."""
    import torch

    args = (rows, columns, dtype)
    return _eager("scans", "cumsum.cuda", args, lambda t: torch.cumsum(t[0], 1))


def permute(shape: tuple[int, ...], axes: tuple[int, ...], dtype: str = "float32") -> Layer:
    """Return a permutation of axes."""

    def compute(arrays: Arrays) -> Any:
        return arrays[0].reshape(shape).permute(*axes).contiguous()

    return _eager("moves", "transpose.cuda", (shape, axes, dtype), compute)


def pool(
    name: str, n: int, extent: tuple[int, int], channels: int, size: int, stride: int,
    padding: int, layout: str, dtype: str = "float32",
) -> Layer:  # fmt: skip
    """Return the maximum or the average, without the padding, of windows."""
    import torch

    function = getattr(torch.nn.functional, f"{name}_pool2d")
    options = {} if name == "max" else {"count_include_pad": False}

    def compute(arrays: Arrays) -> Any:
        images = arrays[0].permute(0, 3, 1, 2) if layout == "NHWC" else arrays[0]
        out = function(images, size, stride, padding, **options)
        return out.permute(0, 2, 3, 1) if layout == "NHWC" else out

    args = (name, n, *extent, channels, size, stride, padding, 1, False, layout, dtype)
    return _eager("pooling", "pool2d.cuda", args, compute)


def embedding(rows: int, columns: int, count: int, dtype: str = "float32") -> Layer:
    """Return rows of a table."""
    import torch

    args = (rows, columns, count, dtype, "int64")
    compute = lambda t: torch.nn.functional.embedding(t[1], t[0])  # noqa: E731
    return _eager("moves", "take_rows.cuda", args, compute)


CHAINS: dict[str, Callable[..., Any]] = {
    "relu(a * s + t) + b": lambda t, a, s, u, b: t.relu(a * s + u) + b,
    "a * sigmoid(a) * b": lambda t, a, b: a * t.sigmoid(a) * b,
    "tanh(a + s) * 0.5": lambda t, a, s: t.tanh(a + s) * 0.5,
}


def chain(text: str, operands: tuple[tuple[str, tuple[int, ...]], ...], dtype: str) -> Layer:
    """Return a chain of elementwise operations with broadcast, one of `CHAINS`."""
    import torch

    compute = lambda arrays: CHAINS[text](torch, *arrays)  # noqa: E731
    return _eager("chains", "elementwise.cuda", (text, operands, dtype), compute)


def attention(
    batch: int, heads: int, queries: int, keys: int, size: int, kv_heads: int, causal: bool,
    dtype: str = "float16",
) -> Layer:  # fmt: skip
    """Return attention, forward; causal with as many queries as keys for PyTorch's sake."""
    args = (batch, heads, queries, keys, size, kv_heads, causal, 0.0, dtype)
    return Layer(
        "attention", (Way("attention.cuda", args),), partial(attention_wanted, causal=causal),
        partial(attention_rivals, causal=causal),
    )  # fmt: skip


def drawn(seed: int, of_each: int) -> Iterator[Layer]:
    """Yield layers of every kind with drawn shapes."""
    rng = random.Random(seed)
    for draw, share in _DRAWS:
        for _ in range(max(1, round(of_each * share))):
            yield draw(rng)


def _extent(rng: random.Random, low: int, high: int) -> int:
    """Return an extent, evenly by its logarithm; one in three is odd whatever it was."""
    value = round(low * (high / low) ** rng.random())
    return value | 1 if rng.random() < 1 / 3 else value


def _after(rng: random.Random, activations: tuple[str, ...]) -> After:
    plain = rng.random() < 1 / 3
    if plain:
        return After()
    residual = rng.random() < 0.3
    return After(True, residual, rng.random() < 0.2, rng.choice(activations))


_SIZES = ((1, 1), (1, 1), (3, 3), (3, 3), (5, 5), (1, 7), (7, 1), (7, 7), (2, 2), (3, 1))
_FOLLOWING = ("none", "relu", "relu6", "silu", "gelu")


def _conv(rng: random.Random) -> Layer:
    while True:
        size = rng.choice(_SIZES)
        dilation = rng.choice((1, 1, 1, 2))
        pad = [(each - 1) * dilation // 2 for each in size]
        uneven = rng.choice((0, 0, 0, 1))
        padding = (pad[0], pad[1], pad[0] + uneven, pad[1] + uneven)
        groups, layout = rng.choice((1, 1, 1, 1, 2, 4)), rng.choice(("NCHW", "NHWC"))
        dtype = "float32" if layout == "NCHW" else rng.choice(("float32", "tf32", *HALVES))
        groups = 1 if layout == "NHWC" else groups
        stride, extent = rng.choice(((1, 1), (1, 1), (2, 2), (2, 1))), _extent(rng, 7, 130)
        conv = Conv(
            rng.choice((1, 1, 1, 2, 4, 8)), extent, extent + rng.choice((0, 0, 3)),
            _extent(rng, 8, 600) * groups, _extent(rng, 3, 600) * groups, size, stride, padding,
            (dilation, dilation), groups, layout, dtype, _after(rng, _FOLLOWING),
        )  # fmt: skip
        if min(conv.outputs) >= 1 and 1e6 < conv.flop < _MOST_FLOP:
            return conv.layer()


def _depthwise(rng: random.Random) -> Layer:
    side = rng.choice((3, 3, 5, 7))
    extent, stride = _extent(rng, 7, 120), rng.choice((1, 2))
    return Conv(
        rng.choice((1, 1, 2, 8)), extent, extent, rng.choice((1, 1, 2)), _extent(rng, 16, 1000),
        (side, side), (stride, stride), (side // 2,) * 4, layout=rng.choice(("NCHW", "NHWC")),
        after=_after(rng, _FOLLOWING), depthwise=True,
    ).layer()  # fmt: skip


def _product(rng: random.Random) -> Layer:
    while True:
        dtype = rng.choice(("float32", "float32", "tf32", "float16", "float16", "bfloat16"))
        batch = rng.choice((1, 1, 1, 8, 48))
        most = 4000 if batch == 1 else 600
        m, n, k = (_extent(rng, low, most) for low in (1 if batch == 1 else 32, 16, 16))
        after = _after(rng, _FOLLOWING) if batch == 1 else After(alpha=0.125)
        given = Product(
            m,
            n,
            k,
            dtype,
            batch,
            rng.random() < 0.2,
            rng.random() < 0.6,
            after,
            "" if batch == 1 else rng.choice(("", "", "b")),
        )
        if 1e6 < 2 * batch * m * n * k < _MOST_FLOP:
            return given.layer()


def _rows(rng: random.Random) -> Layer:
    dtype = rng.choice(("float32", "float16", "bfloat16"))
    columns = _extent(rng, 20, 60000)
    rows = _extent(rng, 1, max(2, min(20000, int(_MOST_ELEMENTS / columns))))
    kind = rng.choice(("softmax", "log_softmax", "layer_norm", "rms_norm", "group", "scan"))
    if kind == "group":
        return group_norm(rng.choice((1, 2, 8)), 32 * rng.randint(1, 20), _extent(rng, 16, 4000),
                          rng.choice((1, 32)), dtype)  # fmt: skip
    return scan(rows, columns, dtype) if kind == "scan" else norm(kind, rows, columns, dtype)


def _reduction(rng: random.Random) -> Layer:
    dtype = rng.choice(("float32", "float32", "float16"))
    inner = rng.choice((1, 1, _extent(rng, 2, 3000)))
    depth = _extent(rng, 5, 30000)
    outer = _extent(rng, 1, max(2, min(30000, int(_MOST_ELEMENTS / (inner * depth)))))
    return reduction(rng.choice(("sum", "mean", "max", "argmax")), outer, depth, inner, dtype)


def _move(rng: random.Random) -> Layer:
    dtype = rng.choice(("float32", "float16"))
    shape = tuple(_extent(rng, 2, 200) for _ in range(rng.choice((2, 3, 4))))
    while max(shape) < 1e3 and len(shape) < 4 and _count(shape) < 1e5:
        shape = (*shape, _extent(rng, 2, 200))
    while _count(shape) > _MOST_ELEMENTS:
        shape = tuple(max(2, each // 2) for each in shape)
    axes = rng.sample(range(len(shape)), len(shape))
    return permute(shape, tuple(axes), dtype)


def _count(shape: tuple[int, ...]) -> int:
    count = 1
    for each in shape:
        count *= each
    return count


def _pool(rng: random.Random) -> Layer:
    size, extent = rng.choice((2, 3, 3, 7)), _extent(rng, 7, 150)
    return pool(
        rng.choice(("max", "avg")), rng.choice((1, 4)), (extent, extent), _extent(rng, 16, 600),
        size, rng.choice((1, 2)), size // 2, rng.choice(("NCHW", "NHWC")),
    )  # fmt: skip


def _attention(rng: random.Random) -> Layer:
    heads, group = rng.choice((4, 8, 12, 16)), rng.choice((1, 1, 4))
    causal, keys = rng.random() < 0.5, _extent(rng, 50, 3000)
    queries = keys if causal else rng.choice((1, keys, _extent(rng, 7, 500)))
    return attention(
        rng.choice((1, 2, 4)), heads, queries, keys, rng.choice((64, 128)), heads // group,
        causal, rng.choice(HALVES),
    )  # fmt: skip


_DRAWS: tuple[tuple[Callable[[random.Random], Layer], float], ...] = (
    (_conv, 2.0), (_product, 2.0), (_depthwise, 0.7), (_rows, 1.0), (_reduction, 0.6),
    (_move, 0.4), (_pool, 0.5), (_attention, 0.8),
)  # fmt: skip


def nasty() -> Iterator[Layer]:
    """Yield layers that were chosen because they might be slow, refused or wrong."""
    yield from (conv.layer() for conv in _NASTY_CONVS)
    yield from (product.layer() for product in _NASTY_PRODUCTS)
    yield norm("softmax", 2048, 50_257, "float16")
    for name in ("softmax", "layer_norm"):
        yield norm(name, 7, 250_001)
        yield norm(name, 100_000, 33, "float16")
    yield norm("softmax", 12 * 577, 577, "float16")
    yield norm("rms_norm", 3, 4099, "bfloat16")
    yield group_norm(2, 96, 7 * 9, 32)
    yield group_norm(2, 320, 64 * 64, 32, "float16")
    yield scan(1, 1_000_003)
    yield scan(50_000, 17, "float16")
    yield reduction("argmax", 1, 50257, 1)
    yield reduction("sum", 1, 1_000_003, 7)
    yield reduction("mean", 8, 3136, 96)
    yield permute((8, 197, 12, 64), (0, 2, 1, 3), "float16")
    yield permute((4099, 3), (1, 0))
    yield permute((5, 7, 11, 13, 17), (4, 2, 0, 3, 1))
    yield pool("max", 1, (224, 224), 3, 7, 4, 3, "NCHW")
    yield pool("avg", 2, (13, 29), 77, 3, 1, 1, "NHWC")
    yield pool("max", 8, (112, 112), 64, 3, 2, 1, "NHWC", "float16")
    yield embedding(50257, 768, 4096, "float16")
    yield embedding(1001, 33, 7)
    image = (8, 96, 28, 28)
    channels = (1, 96, 1, 1)
    arrays = (("a", image), ("s", channels), ("t", channels), ("b", image))
    yield chain("relu(a * s + t) + b", arrays, "float32")
    yield chain("a * sigmoid(a) * b", (("a", (4096, 11008)), ("b", (4096, 11008))), "float16")
    yield chain("tanh(a + s) * 0.5", (("a", (577, 1031)), ("s", (1031,))), "float32")
    yield attention(1, 12, 197, 197, 64, 12, False)
    yield attention(2, 16, 1000, 1000, 128, 4, True, "bfloat16")
    yield attention(1, 32, 1, 777, 128, 8, False)
    yield attention(16, 8, 1, 4095, 64, 8, False)
    yield attention(1, 8, 33, 3000, 64, 8, False)
    yield attention(1, 8, 1024, 1024, 40, 8, False)
    yield attention(2, 16, 729, 729, 72, 16, False, "bfloat16")


_RELU, _SILU = After(True, activation="relu"), After(True, activation="silu")
_NASTY_CONVS = (
    Conv(1, 224, 224, 64, 3, (11, 11), (4, 4), (2, 2, 2, 2), after=_RELU),
    Conv(8, 224, 224, 64, 3, (11, 11), (4, 4), (2, 2, 2, 2), layout="NHWC", dtype="float16"),
    Conv(1, 224, 224, 32, 3, (3, 3), (2, 2), (0, 0, 1, 1), after=After(True, activation="relu6")),
    Conv(1, 17, 17, 192, 768, (1, 7), padding=(0, 3, 0, 3), after=_RELU),
    Conv(1, 17, 17, 192, 160, (7, 1), padding=(3, 0, 3, 0), after=_RELU),
    Conv(2, 35, 35, 64, 48, (5, 5), padding=(2, 2, 2, 2), after=_RELU),
    Conv(1, 28, 28, 512, 512, (3, 3), padding=(2, 2, 2, 2), dilation=(2, 2), after=_RELU),
    Conv(1, 33, 33, 256, 2048, (3, 3), padding=(12,) * 4, dilation=(12, 12), layout="NHWC",
         dtype="float16"),
    Conv(1, 56, 56, 128, 128, (3, 3), padding=(1,) * 4, groups=32, after=_RELU),
    Conv(4, 28, 28, 240, 240, (1, 1), groups=3, after=_RELU),
    Conv(1, 1, 1, 480, 120, (1, 1), after=_SILU),
    Conv(1, 7, 7, 2048, 512, (1, 1), after=After(True, residual=True, activation="relu")),
    Conv(1, 3, 3, 37, 53, (3, 3), padding=(1,) * 4),
    Conv(8, 14, 14, 1024, 256, (1, 1), layout="NHWC", dtype="float16",
         after=After(True, residual=True, activation="relu")),
    Conv(8, 7, 7, 512, 512, (3, 3), padding=(1,) * 4, layout="NHWC", dtype="bfloat16",
         after=_RELU),
    Conv(1, 64, 64, 320, 320, (3, 3), padding=(1,) * 4, layout="NHWC", dtype="float16",
         after=_SILU),
    Conv(1, 64, 64, 4, 320, (3, 3), padding=(1,) * 4, layout="NHWC", dtype="float16"),
    Conv(1, 65, 63, 19, 21, (3, 3), padding=(1,) * 4, layout="NHWC", dtype="tf32"),
    Conv(1, 14, 14, 2, 512, (3, 3), (2, 2), (1,) * 4, depthwise=True),
    Conv(8, 112, 112, 1, 64, (3, 3), (2, 2), (0, 0, 1, 1), layout="NHWC", depthwise=True,
         after=After(True, activation="relu6")),
    Conv(1, 56, 56, 1, 96, (7, 7), padding=(3,) * 4, depthwise=True, after=After(True)),
    Conv(1, 28, 28, 1, 77, (5, 5), (2, 2), (2,) * 4, depthwise=True, after=_SILU),
    Conv(1, 28, 28, 1, 192, (3, 3), (1, 1), (1,) * 4, depthwise=True, dtype="float16",
         layout="NHWC", after=After(True, activation="relu6")),
    Conv(4, 56, 56, 1, 144, (3, 3), (2, 2), (1,) * 4, depthwise=True, dtype="bfloat16"),
)  # fmt: skip
_NASTY_PRODUCTS = (
    Product(128, 768, 768, "float16", 1, False, True, After(True, residual=True)),
    Product(577, 2304, 768, "float16", 1, False, True, After(True)),
    Product(77, 3072, 768, "bfloat16", 1, False, True, After(True, activation="gelu")),
    Product(1000, 1000, 1000, "float16"),
    Product(333, 4097, 511, "float16", 1, False, True),
    Product(64, 64, 16384, "float16", 1, True, False),
    Product(4096, 32, 4096, "bfloat16", 1, False, True),
    Product(1, 32000, 4096, "float16", 1, False, True),
    Product(5, 4096, 11008, "bfloat16", 1, False, True),
    Product(12, 1001, 2048, "float32", 1, False, True, After(True)),
    Product(128, 3072, 768, "float32", 1, False, True, After(True, activation="gelu")),
    Product(384, 384, 64, "float16", 96, False, True, After(alpha=0.125)),
    Product(384, 64, 384, "float16", 96),
    Product(49, 49, 32, "float16", 512, False, True, After(alpha=0.17)),
    Product(100, 100, 100, "float32", 200),
    Product(2049, 2047, 33, "float32"),
    Product(256, 256, 50_000, "float32", 1, True, False),
    Product(1023, 1023, 1023, "tf32", 1, False, True),
    Product(512, 30522, 768, "tf32", 1, False, True),
    Product(999, 1001, 1004, "int8", 1, False, True),
    Product(32, 4096, 4096, "int8", 1, False, True),
    Product(200, 300, 100, "float16", 16, False, False, After(), "b"),
)  # fmt: skip
