"""A pass like TVM's AlterOpLayout for the auto-scheduler: Winograd, and full ranks."""

from __future__ import annotations

import sys

from autotune.graph import ops
from autotune.graph.graph import Graph
from autotune.graph.passes.fold_constant import folded
from autotune.graph.value import Constant, Node, Value, apply

_AWARE = (ops.Convolution, ops.Conv2dTranspose, ops.WinogradConv2d, ops.Pool2d, ops.GlobalPool)
_FORGETS = (ops.Reshape, ops.BatchFlatten, ops.Transpose, ops.Squeeze)
_SIZE, _COARSE = 3, 8
# Channels with which TVM takes Winograd's convolution on a CPU: it profiled ResNets with AVX-512.
_ON_CPU = range(65, 512)


def alter_layout_cpu(graph: Graph) -> Graph:
    """Do what `alter_layout` does, with Winograd for 65 to 511 output channels, as TVM on x86."""
    return alter_layout(graph, _ON_CPU)


def alter_layout(graph: Graph, channels: range = range(1, sys.maxsize)) -> Graph:
    """Choose Winograd's convolution where it applies, and give operands of sums their full rank.

    Winograd: float convolutions NHWC of 3x3, stride 1, dilation 1, in one group, with weights
    that are known; tiles of 4 where the height is a multiple of 8, else of 2. Ranks: an operand
    of lower rank gets leading dimensions of 1 where the other comes from a convolution, pooling
    or dense layer, whose layout TVM tracks.

    Args:
        graph: a network.
        channels: output channels with which Winograd applies.
    """
    aware: set[Value] = set()

    def altered(node: Node, inputs: tuple[Value, ...]) -> Value | tuple[Value, ...] | None:
        result = _winograd(node, inputs, channels)
        if result is None:
            results: tuple[Value, ...] = node.on(_full_rank(node, inputs, aware)).outputs
        else:
            results = (result,)
        if _tracked(node, inputs, aware):
            aware.update(results)
        return results

    return graph.rewrite(altered)


def _tracked(node: Node, inputs: tuple[Value, ...], aware: set[Value]) -> bool:
    if isinstance(node.op, (*_AWARE, ops.Dense)):
        return True
    return not isinstance(node.op, _FORGETS) and any(value in aware for value in inputs)


def _full_rank(node: Node, inputs: tuple[Value, ...], aware: set[Value]) -> tuple[Value, ...]:
    if not isinstance(node.op, ops.Broadcast) or not any(value in aware for value in inputs):
        return inputs
    rank = max(value.type.ndim for value in inputs)
    return tuple([_raised(value, rank, node.origin) for value in inputs])


def _raised(value: Value, rank: int, origin: str) -> Value:
    missing = rank - value.type.ndim
    # A scalar is written into the kernel, and has no layout.
    if not missing or (isinstance(value, Constant) and value.is_scalar):
        return value
    raised = Node(ops.ExpandDims(0, missing), (value,), origin)
    return folded(raised, [value]) if isinstance(value, Constant) else raised.output


def _winograd(node: Node, inputs: tuple[Value, ...], channels: range) -> Value | None:
    op = node.op
    if not isinstance(op, ops.Conv2d) or not isinstance(inputs[1], Constant):
        return None
    data, weight = inputs
    plain = op.groups == 1 and set(op.steps) == set(op.holes) == {1}
    if not plain or op.data_layout != "NHWC" or op.kernel_layout != "HWIO":
        return None
    if weight.shape[:2] != (_SIZE, _SIZE) or not data.dtype.startswith("float"):
        return None
    if weight.shape[-1] not in channels:
        return None
    tile = 4 if data.shape[1] % _COARSE == 0 else 2
    (top, bottom), (left, right) = op.sides
    transform = Node(ops.WinogradWeight(tile), (weight,), node.origin)
    transformed = folded(transform, [inputs[1]])
    return apply(
        ops.WinogradConv2d(tile, (top, left, bottom, right)), data, transformed, origin=node.origin
    )
