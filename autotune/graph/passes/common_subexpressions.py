"""Common subexpression elimination."""

from __future__ import annotations

from collections.abc import Hashable

from autotune.graph.graph import Graph
from autotune.graph.value import Constant, Node, Result, Value


def eliminate_common(graph: Graph) -> Graph:
    """Let nodes of the same operator on the same inputs be one."""
    known: dict[Hashable, tuple[Result, ...]] = {}

    def shared(node: Node, inputs: tuple[Value, ...]) -> tuple[Result, ...]:
        key = (node.op, *map(_identity, inputs))
        if key not in known:
            known[key] = node.on(inputs).outputs
        return known[key]

    return graph.rewrite(shared)


def _identity(value: Value) -> Hashable:
    """Return what equal values share: scalars are equal by their number."""
    if isinstance(value, Constant) and value.is_scalar:
        return value.type, value.array.tobytes()
    return value
