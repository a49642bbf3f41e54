"""What a script would call of numpy and PyTorch instead of a C template."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from autotune.target import Target
from benchmarks import memory_cpu

Call = Callable[[], Any]


def rivals(template: str, args: tuple[Any, ...], arrays: Sequence[Any]) -> dict[str, Call]:
    """Return the calls of all libraries by name: numpy's, and PyTorch's in its layouts."""
    return of_numpy(template, arrays) | of_torch(template, args, arrays)


def of_numpy(template: str, arrays: Sequence[Any]) -> dict[str, Call]:
    """Return numpy's product, if that is what a template computes."""
    if template != "gemm_nn":
        return {}
    a, b, c = arrays
    return {"numpy": lambda: np.matmul(a, b, out=c)}


def of_torch(template: str, args: tuple[Any, ...], arrays: Sequence[Any]) -> dict[str, Call]:
    """Return PyTorch's calls: eager ones, and of convolutions also those of frozen modules."""
    import torch

    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", Target("llvm").limits.sm_count)))
    given = [torch.from_numpy(each) for each in arrays]
    if template == "gemm_nn":
        return {"torch": lambda: torch.mm(given[0], given[1], out=given[2])}
    if template in memory_cpu.TEMPLATES:
        call = memory_cpu.library(template, args)
        return {"torch": lambda: _without_grad(torch, call, *given[:-1])}
    if template == "softmax":
        return {"torch": lambda: torch.softmax(given[0], 1, out=given[1])}
    layouts = {"NCHW": torch.contiguous_format, "channels_last": torch.channels_last}
    if template == "pool2d":
        of = pool(torch, args)
        both = {name: given[0].contiguous(memory_format=f) for name, f in layouts.items()}
        return {name: lambda x=x: _without_grad(torch, of, x) for name, x in both.items()}
    return _convolutions(torch, args, given, layouts)


def _convolutions(
    torch: Any, args: tuple[Any, ...], given: Sequence[Any], layouts: dict[str, Any]
) -> dict[str, Call]:
    (x, w, bias), layer, found = given[:3], convolution(torch, args), {}
    images = {name: x.contiguous(memory_format=f) for name, f in layouts.items()}
    filters = {name: w.contiguous(memory_format=f) for name, f in layouts.items()}
    for name in layouts:
        inputs = images[name], filters[name], bias
        found[name] = lambda inputs=inputs: _without_grad(torch, layer, *inputs)
    module = _module(torch, args, w, bias)
    for name, layout in layouts.items():
        found[f"frozen {name}"] = _frozen(torch, module, images[name], layout)
    return found


def pool(torch: Any, args: tuple[Any, ...]) -> Callable[[Any], Any]:
    """Return PyTorch's pooling for the arguments of ``pool2d``."""
    kind, *_, side, stride, padding = args
    of = torch.nn.functional
    if kind == "max":
        return lambda x: of.max_pool2d(x, side, stride, padding)
    return lambda x: of.avg_pool2d(x, side, stride, padding, count_include_pad=False)


def convolution(torch: Any, args: tuple[Any, ...]) -> Callable[[Any, Any, Any], Any]:
    """Return PyTorch's convolution with a ReLU of data, weight and bias."""
    stride, padding, dilation = _moves(args)
    of = torch.nn.functional

    def layer(x: Any, w: Any, bias: Any) -> Any:
        padded, both = _padded(torch, x, padding)
        groups = x.shape[1] // w.shape[1]
        moves = stride, both, dilation, groups
        return torch.relu_(of.conv2d(padded, w, bias.reshape(-1), *moves))

    return layer


def _padded(torch: Any, x: Any, padding: Any) -> tuple[Any, Any]:
    """Return an image and its padding, which PyTorch's layers have alike on opposite sides."""
    if isinstance(padding, int) or len(padding) == 2:
        return x, padding
    top, left, bottom, right = padding
    return torch.nn.functional.pad(x, (left, right, top, bottom)), 0


def _moves(args: tuple[Any, ...]) -> tuple[Any, Any, Any]:
    """Return stride, padding and dilation of a convolution, or of one of each channel."""
    is_depthwise = isinstance(args[10], str)
    at = 13 if is_depthwise else 15
    return args[7], args[8], args[at] if len(args) > at else 1


def _module(torch: Any, args: tuple[Any, ...], w: Any, bias: Any) -> Any:
    stride, padding, dilation = _moves(args)
    channels = args[3] if isinstance(args[10], str) else args[4]
    is_uneven = not isinstance(padding, int) and len(padding) == 4
    first = []
    if is_uneven:
        top, left, bottom, right = padding
        first, padding = [torch.nn.ZeroPad2d((left, right, top, bottom))], 0
    conv = torch.nn.Conv2d(
        channels, len(w), args[5:7], stride, padding, dilation, channels // w.shape[1]
    )
    with torch.no_grad():
        conv.weight.copy_(w)
        conv.bias.copy_(bias.reshape(-1))
    return torch.nn.Sequential(*first, conv, torch.nn.ReLU())


def _frozen(torch: Any, module: Any, x: Any, layout: Any) -> Call:
    model = module.eval().to(memory_format=layout)
    with torch.no_grad():
        frozen = torch.jit.optimize_for_inference(torch.jit.trace(model, x))
    return lambda: _without_grad(torch, frozen, x)


def _without_grad(torch: Any, call: Callable[..., Any], *inputs: Any) -> Any:
    with torch.no_grad():
        return call(*inputs)
