"""Signed bytes whose least number stands for 0 become unsigned ones, whose 0 does.

Quantisers choose such steps for what is never negative, as behind a ReLU. Then images are padded
with zeros, and no kernel subtracts a zero point. Results are the same: all numbers are 128 more.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from autotune.graph import ops
from autotune.graph.graph import Graph
from autotune.graph.passes.whole_numbers import moves
from autotune.graph.value import Constant, Node, Value, apply


def unsigned_bytes(graph: Graph) -> Graph:
    """Quantise to uint8 from 0 on what is quantised to int8 from -128 on, and only dequantised.

    It may be moved in between: elements keep their order.
    """
    quantised = [node for node in graph.nodes if _is_from_least(node, ops.Quantize)]
    changed = {value for node in quantised for value in _until_floats(graph, node.output) or ()}
    if not changed:
        return graph

    def rule(node: Node, inputs: tuple[Value, ...]) -> Value | None:
        zero = Constant.of(np.uint8(0))
        if isinstance(node.op, ops.Dequantize) and node.inputs[0] in changed:
            return apply(node.op, *inputs[:2], zero, origin=node.origin)
        if isinstance(node.op, ops.Quantize) and node.output in changed:
            return apply(replace(node.op, dtype="uint8"), *inputs[:2], zero, origin=node.origin)
        return None

    return graph.rewrite(rule)


def _until_floats(graph: Graph, value: Value) -> set[Value] | None:
    """Return bytes and all that is moved of them; None if any is read otherwise."""
    readers = graph.readers.get(value, ())
    found = {value}
    for node in readers:
        if _is_from_least(node, ops.Dequantize):
            continue
        single = moves(node.op) and len(node.inputs) == len(node.outputs) == 1
        more = _until_floats(graph, node.output) if single else None
        if more is None:
            return None
        found |= more
    return found if graph.uses(value) == len(readers) else None


def _is_from_least(node: Node, kind: type[ops.Quantize | ops.Dequantize]) -> bool:
    """Return whether a node rounds to int8 or scales them, and their least number stands for 0."""
    if not isinstance(node.op, kind):
        return False
    zero = node.inputs[2]
    if not isinstance(zero, Constant) or zero.dtype != "int8" or zero.shape:
        return False
    return int(zero.array) == np.iinfo("int8").min
