"""Functions of networks that compute element by element, or only move elements, whole.

A chain of elementwise operators is one expression, which the templates of expressions take; a
transpose between reshapes is one of data that is seen in another shape.
"""

from __future__ import annotations

import math
import re
import string
from collections.abc import Sequence
from functools import partial

from autotune.graph import Node, Pattern, Value, ops
from autotune.graph.fuse import FusedFunction
from autotune.network.expressions import text_of_node
from autotune.network.implementations import Offer, implements_whole

from ..data_movement.transpose_shape import ELEMENT_BYTES
from .cuda import FLOAT32, FLOATS, transposition
from .elementwise import MANY, expression

DTYPES = {"cuda": FLOATS, "cpu": FLOAT32}
_NAME = re.compile(r"\bv\d+\b")
_SEEN_ANEW = (ops.Reshape, ops.BatchFlatten, ops.ExpandDims, ops.Squeeze)


def chain(kind: str, function: FusedFunction) -> Offer | None:
    """Offer the expression of a chain, where there is enough to read."""
    graph = function.graph
    nodes, result = graph.nodes, graph.outputs[0]
    if len(graph.outputs) != 1 or result.type.size < MANY or result.dtype not in DTYPES[kind]:
        return None
    if any(value.dtype != result.dtype for node in nodes for value in node.inputs):
        return None
    if all(isinstance(node.op, _SEEN_ANEW) for node in nodes):
        return None
    views = _Views(graph.inputs)
    for node in nodes:
        if not views.add(node):
            return None
    text, operands = views.expression(result)
    shapes, values = [shape for _, shape in operands], [value for value, _ in operands]
    fits = len(operands) <= len(string.ascii_lowercase)
    return expression(kind, text, shapes, result.type, values) if fits else None


class _Views:
    """Expressions of the values of a chain, over its inputs as they are seen.

    Where a value is seen in another shape, its operands are: they have extents 1 where they are
    broadcast. An input that is seen in several shapes is an operand in each of them.
    """

    def __init__(self, inputs: Sequence[Value]) -> None:
        self.operands: list[tuple[Value, tuple[int, ...]]] = [(v, v.shape) for v in inputs]
        self.texts: dict[Value, str] = {v: f"v{i}" for i, v in enumerate(inputs)}

    def add(self, node: Node) -> bool:
        """Write the result of a node; return whether that is possible."""
        seen = isinstance(node.op, _SEEN_ANEW)
        if not seen and node.op.pattern > Pattern.BROADCAST:
            return False
        text = self._seen(node) if seen else text_of_node(node, self.texts)
        self.texts[node.output] = text
        return bool(text)

    def _seen(self, node: Node) -> str:
        """Return the expression of a value in another shape; empty where operands have none."""
        before, after = node.inputs[0].shape, node.output.shape
        renamed: dict[str, str] = {}
        text = self.texts.get(node.inputs[0], "")
        for name in dict.fromkeys(_NAME.findall(text)):
            value, shape = self.operands[int(name[1:])]
            view = _view((1,) * (len(before) - len(shape)) + shape, before, after)
            if view is None:
                return ""
            if (value, view) not in self.operands:
                self.operands.append((value, view))
            renamed[name] = f"v{self.operands.index((value, view))}"
        return _NAME.sub(lambda found: renamed[found.group()], text)

    def expression(self, value: Value) -> tuple[str, list[tuple[Value, tuple[int, ...]]]]:
        """Return the expression of a value by the letters of its operands, and these."""
        text = self.texts[value]
        numbers = sorted({int(name[1:]) for name in _NAME.findall(text)})
        letters = dict(zip(numbers, string.ascii_lowercase, strict=False))
        named = _NAME.sub(lambda found: letters.get(int(found.group()[1:]), "?"), text)
        return named, [self.operands[number] for number in numbers]


def _view(
    shape: tuple[int, ...], before: tuple[int, ...], after: tuple[int, ...]
) -> tuple[int, ...] | None:
    """Return the shape of an operand of a value that is seen in another shape, or None."""
    found: list[int] = []
    i = j = 0
    while i < len(before) or j < len(after):
        # The fewest next axes of both with as many elements: all of them are broadcast, or none.
        first, begin = i, j
        i, j = min(i + 1, len(before)), min(j + 1, len(after))
        while math.prod(before[first:i]) != math.prod(after[begin:j]):
            if math.prod(before[first:i]) < math.prod(after[begin:j]):
                i += 1
            else:
                j += 1
        if math.prod(shape[first:i]) == 1:
            found += [1] * (j - begin)
        elif shape[first:i] == before[first:i]:
            found += after[begin:j]
        else:
            return None
    return tuple(found)


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
