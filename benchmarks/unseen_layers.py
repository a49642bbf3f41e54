"""Layers for `unseen`, by kinds: the templates that can compute each, and what PyTorch offers.

What a layer computes is said in PyTorch too, apart from the references of the templates.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from benchmarks.layer_workloads import attention_rivals, attention_wanted
from benchmarks.rivals import Named, forget_pick, in_both_layouts

Arrays = list[Any]
Compute = Callable[[Arrays], Any]
HALVES = ("float16", "bfloat16")


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
