"""Layers for `unseen` that wait for memory above all: maps, norms, reductions; and attention."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from benchmarks.layer_workloads import attention_rivals, attention_wanted
from benchmarks.rivals import Named, in_both_layouts
from benchmarks.unseen.layer import Arrays, Compute, Layer, Way, eager


def norm(name: str, rows: int, columns: int, dtype: str = "float32") -> Layer:
    """Return softmax, log-softmax, layer norm or RMS norm of rows."""
    import torch

    functional = torch.nn.functional
    every: dict[str, tuple[tuple[Any, ...], Compute]] = {
        "softmax": ((), lambda t: torch.softmax(t[0], 1)),
        "log_softmax": ((), lambda t: torch.log_softmax(t[0], 1)),
        "layer_norm": (
            (1e-5, True, True),
            lambda t: functional.layer_norm(t[0], (columns,), *t[1:3], 1e-5),
        ),
        "rms_norm": ((1e-6, True), lambda t: functional.rms_norm(t[0], (columns,), t[1], 1e-6)),
    }
    options, compute = every[name]
    return eager("rows", f"{name}.cuda", (rows, columns, *options, dtype), compute)


def softmax_along(outer: int, depth: int, inner: int, dtype: str = "float32") -> Layer:
    """Return softmax along the middle of three axes."""
    import torch

    def compute(arrays: Arrays) -> Any:
        return torch.softmax(arrays[0].reshape(outer, depth, inner), 1)

    return eager("rows", "softmax.cuda", (outer, depth, dtype, inner), compute)


def group_norm(n: int, channels: int, pixels: int, groups: int, dtype: str = "float32") -> Layer:
    """Return a group norm of images NCHW."""
    import torch

    def compute(arrays: Arrays) -> Any:
        images = arrays[0].reshape(n, channels, pixels)
        out = torch.nn.functional.group_norm(images, groups, *arrays[1:3], 1e-5)
        return out.reshape(arrays[0].shape)

    args = (n, channels, pixels, groups, 1e-5, True, True, dtype)
    return eager("rows", "group_norm.cuda", args, compute)


def reduction(name: str, outer: int, depth: int, inner: int, dtype: str = "float32") -> Layer:
    """Return a reduction along the middle of three axes."""
    import torch

    def compute(arrays: Arrays) -> Any:
        data = arrays[0].reshape(outer, depth, inner)
        # Those that do not return places too are faster.
        return getattr(torch, {"max": "amax", "min": "amin"}.get(name, name))(data, 1)

    def first_place(arrays: Arrays) -> Any:  # of several equal ones PyTorch takes any
        data = arrays[0].reshape(outer, depth, inner)
        places = torch.arange(depth, device=data.device).reshape(1, -1, 1)
        return torch.where(data == data.amax(1, keepdim=True), places, depth).amin(1)

    layer = eager("reductions", "reduce.cuda", (name, outer, depth, inner, dtype), compute)
    return replace(layer, compute=first_place) if name == "argmax" else layer


def scan(rows: int, columns: int, dtype: str = "float32") -> Layer:
    """Return cumulative sums of rows."""
    import torch

    args = (rows, columns, dtype)
    return eager("scans", "cumsum.cuda", args, lambda t: torch.cumsum(t[0], 1))


def permute(shape: tuple[int, ...], axes: tuple[int, ...], dtype: str = "float32") -> Layer:
    """Return a permutation of axes."""

    def compute(arrays: Arrays) -> Any:
        return arrays[0].reshape(shape).permute(*axes).contiguous()

    return eager("moves", "transpose.cuda", (shape, axes, dtype), compute)


def pool(
    name: str, n: int, extent: tuple[int, int], channels: int, size: int, stride: int,
    padding: int | tuple[int, int, int, int], layout: str, dtype: str = "float32",
) -> Layer:  # fmt: skip
    """Return the maximum or the average, without the padding, of windows."""
    import torch

    function = getattr(torch.nn.functional, f"{name}_pool2d")
    options = {} if name == "max" else {"count_include_pad": False}
    uneven = not isinstance(padding, int)

    def pooled(images: Any) -> Any:
        if isinstance(padding, int):
            return function(images, size, stride, padding, **options)
        top, left, bottom, right = padding
        sides = (left, right, top, bottom)
        return function(torch.nn.functional.pad(images, sides, value=-math.inf), size, stride)

    def nchw(arrays: Arrays) -> Any:
        return arrays[0].permute(0, 3, 1, 2) if layout == "NHWC" else arrays[0]

    def compute(arrays: Arrays) -> Any:
        out = pooled(nchw(arrays))
        return out.permute(0, 2, 3, 1) if layout == "NHWC" else out

    def rivals(arrays: Arrays) -> Named:
        for name, (images,) in in_both_layouts(nchw(arrays)):
            yield f"PyTorch {name}", partial(pooled, images)

    assert name == "max" or not uneven, "PyTorch pads averages evenly"
    args = (name, n, *extent, channels, size, stride, padding, 1, False, layout, dtype)
    return Layer("pooling", (Way("pool2d.cuda", args),), compute, rivals)


def embedding(rows: int, columns: int, count: int, dtype: str = "float32") -> Layer:
    """Return rows of a table."""
    import torch

    args = (rows, columns, count, dtype, "int64")
    return eager(
        "moves", "take_rows.cuda", args, lambda t: torch.nn.functional.embedding(t[1], t[0])
    )


CHAINS: dict[str, Callable[..., Any]] = {
    "relu(a * s + t) + b": lambda t, a, s, u, b: t.relu(a * s + u) + b,
    "a * sigmoid(a) * b": lambda t, a, b: a * t.sigmoid(a) * b,
    "tanh(a + s) * 0.5": lambda t, a, s: t.tanh(a + s) * 0.5,
    "a * sigmoid(1.702 * a)": lambda t, a: a * t.sigmoid(1.702 * a),
    "a + s * b": lambda t, a, s, b: t.addcmul(a, s, b),
}


def chain(text: str, operands: tuple[tuple[str, tuple[int, ...]], ...], dtype: str) -> Layer:
    """Return a chain of elementwise operations with broadcast, one of `CHAINS`."""
    import torch

    args = (text, operands, dtype)
    return eager("chains", "elementwise.cuda", args, lambda t: CHAINS[text](torch, *t))


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
