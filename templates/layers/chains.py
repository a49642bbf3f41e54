"""Functions of networks that compute element by element, or only move elements, whole.

A chain of elementwise operators is one expression, which the templates of expressions take; a
transpose between reshapes is one of data that is seen in another shape.
"""

from __future__ import annotations

import string
from functools import partial

from autotune.graph import Pattern, Value, ops
from autotune.graph.fuse import FusedFunction
from autotune.network.expressions import text_of_node
from autotune.network.implementations import Offer, implements_whole

from ..data_movement.transpose_shape import ELEMENT_BYTES
from .cuda import FLOAT32, FLOATS, transposition
from .elementwise import MANY, expression

DTYPES = {"cuda": FLOATS, "cpu": FLOAT32}
_SEEN_ANEW = (ops.Reshape, ops.BatchFlatten, ops.ExpandDims, ops.Squeeze)


def chain(kind: str, function: FusedFunction) -> Offer | None:
    """Offer the expression of a chain, where there is enough to read."""
    graph = function.graph
    nodes, result = graph.nodes, graph.outputs[0]
    plain = len(graph.outputs) == 1 and result.type.size >= MANY
    if not plain or any(node.op.pattern > Pattern.BROADCAST for node in nodes):
        return None
    if any(value.dtype != result.dtype for node in nodes for value in node.inputs):
        return None
    if result.dtype not in DTYPES[kind] or len(graph.inputs) > len(string.ascii_lowercase):
        return None
    texts: dict[Value, str] = dict(zip(graph.inputs, string.ascii_lowercase, strict=False))
    for node in nodes:
        texts[node.output] = text_of_node(node, texts)
        if not texts[node.output]:
            return None
    shapes = [each.shape for each in graph.inputs]
    return expression(kind, texts[result], shapes, result.type, graph.inputs)


def transpose(kind: str, function: FusedFunction) -> Offer | None:
    """Offer the copy with other axes, of data that is seen in other shapes before and after."""
    graph = function.graph
    turns = [node for node in graph.nodes if not isinstance(node.op, _SEEN_ANEW)]
    if len(turns) != 1 or len(graph.nodes) < 2 or len(graph.inputs) != 1:
        return None
    (node,) = turns
    if not isinstance(node.op, ops.Transpose) or len(graph.outputs) != 1:
        return None
    (data,) = node.inputs
    rank = data.type.ndim
    axes = tuple(axis % rank for axis in node.op.axes or tuple(reversed(range(rank))))
    moves = axes != tuple(sorted(axes)) and (kind == "cpu" or data.type.size >= MANY)
    if not moves or data.dtype not in ELEMENT_BYTES:
        return None
    return transposition(kind, graph.inputs, data.shape, axes, data.dtype)


for _kind in DTYPES:
    implements_whole(_kind, f"elementwise.{_kind}")(partial(chain, _kind))
    implements_whole(_kind, f"transpose.{_kind}")(partial(transpose, _kind))
