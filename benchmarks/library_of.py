"""PyTorch's equivalent of a template's task."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from benchmarks import layer_workloads, rivals

Named = Iterator[tuple[str, Callable[[], Any]]]


def library_of(task: str, args: tuple[Any, ...], tensors: list[Any]) -> Named:
    """Yield what does the same as a task, by name; nothing where none of it is known here.

    Args:
        task: its name.
        args: its arguments, positional.
        tensors: the kernel's arguments on the device, in order.
    """
    find = _BY_TASK.get(task)
    return iter(()) if find is None else find(args, tensors)


def _convolution(args: tuple[Any, ...], tensors: list[Any]) -> Named:
    return rivals.conv_rivals(tensors, *args[7:9])


def _depthwise(args: tuple[Any, ...], tensors: list[Any]) -> Named:
    return rivals.depthwise_rivals(tensors, "NCHW", *args[7:9])


def _product(args: tuple[Any, ...], tensors: list[Any]) -> Named:
    odd = len(args) > 3 and any(extent % 8 for extent in args[1:3])
    return (rivals.padded_matmul_rivals if odd else rivals.matmul_rivals)(tensors)


def _linear(args: tuple[Any, ...], tensors: list[Any]) -> Named:
    _bias, activation, residual = (*args[7:10], *(False, "none", False)[len(args[7:10]) :])
    return layer_workloads.linear_rivals(
        tensors, turned=tuple(args[5:7]), gelu=activation == "gelu", residual=residual
    )


def _attention(args: tuple[Any, ...], tensors: list[Any]) -> Named:
    return layer_workloads.attention_rivals(tensors, causal=args[6])


def _rows(operation: str, _args: tuple[Any, ...], tensors: list[Any]) -> Named:
    return rivals.row_rivals(tensors, operation)


def _reduction(args: tuple[Any, ...], tensors: list[Any]) -> Named:
    return rivals.reduce_rivals(tensors, args[0])


def _scan(_args: tuple[Any, ...], tensors: list[Any]) -> Named:
    return rivals.reduce_rivals(tensors, "cumsum")


def _transpose(args: tuple[Any, ...], tensors: list[Any]) -> Named:
    return rivals.transpose_rivals(tensors, args[1])


_BY_TASK: dict[str, Callable[[tuple[Any, ...], list[Any]], Named]] = {
    "conv2d_nchw.cuda": _convolution,
    "depthwise_conv2d.cuda": _depthwise,
    "gemm_nn.cuda": _product,
    "gemm.cuda": _linear,
    "attention.cuda": _attention,
    "reduce.cuda": _reduction,
    "cumsum.cuda": _scan,
    "transpose.cuda": _transpose,
    **{
        f"{operation}.cuda": partial(_rows, operation)
        for operation in ("softmax", "log_softmax", "layer_norm", "rms_norm")
    },
}
