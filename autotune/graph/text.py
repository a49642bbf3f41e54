"""Graphs as text: one line a node, the same for equal graphs."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import fields

from autotune.graph.graph import Graph
from autotune.graph.operator import Operator
from autotune.graph.value import Constant, Value, Variable

_DIGITS = 16


def graph_text(graph: Graph) -> str:
    """Return a graph for reading; constants are shown by name or number, and type.

    Example::

        data: float32[1, 3, 8, 8]
        %0 = nn.conv2d(data, conv_weight: float32[4, 3, 3, 3], padding=(1, 1, 1, 1))
            : float32[1, 4, 8, 8]
        return %0
    """
    names = _names(graph, named=True)
    lines = [f"{each.name}: {each.type}" for each in graph.inputs]
    for node in graph.nodes:
        results = ", ".join(names[each] for each in node.outputs)
        types = ", ".join(str(each.type) for each in node.outputs)
        inputs = [names.get(value) or _constant(value) for value in node.inputs]
        lines.append(f"{results} = {call_text(node.op, inputs)} : {types}")
    outputs = [names.get(value) or _constant(value) for value in graph.outputs]
    return "\n".join([*lines, f"return {', '.join(outputs)}", ""])


def call_text(op: Operator, inputs: Iterable[str]) -> str:
    """Return an operator applied to what has these names; attributes at their default are left
    out.
    """
    attributes = [
        f"{each.name}={getattr(op, each.name)!r}"
        for each in fields(op)
        if getattr(op, each.name) != each.default
    ]
    return f"{op.name}({', '.join([*inputs, *attributes])})"


def structure_text(graph: Graph) -> str:
    """Return what two graphs that compute the same by the same steps have in common.

    Names do not matter, and numbers of constants do not, unless they have no dimension.
    """
    names = _names(graph, named=False)
    lines = [f"{names[each]}: {each.type}" for each in graph.inputs]
    constants = [value for value in graph.constants if not value.is_scalar]
    names |= {value: f"c{i}" for i, value in enumerate(constants)}
    lines += [f"{names[each]}: {each.type}" for each in constants]
    for node in graph.nodes:
        results = ", ".join(names[each] for each in node.outputs)
        inputs = [names.get(value) or _constant(value) for value in node.inputs]
        lines.append(f"{results} = {call_text(node.op, inputs)}")
    outputs = [names.get(value) or _constant(value) for value in graph.outputs]
    return "\n".join([*lines, f"return {', '.join(outputs)}"])


def digest(graph: Graph) -> str:
    """Return a hash of the structure, the same in every process."""
    return hashlib.sha256(structure_text(graph).encode()).hexdigest()[:_DIGITS]


def equal(a: Graph, b: Graph) -> bool:
    """Returns whether two graphs are built in the same way; see `structure_text`."""
    return structure_text(a) == structure_text(b)


def _names(graph: Graph, named: bool) -> dict[Value, str]:
    found: dict[Value, str] = {
        each: each.name if named else f"p{i}" for i, each in enumerate(graph.inputs)
    }
    for node in graph.nodes:
        for value in node.outputs:
            found[value] = f"%{len(found) - len(graph.inputs)}"
    return found


def _constant(value: Value) -> str:
    assert isinstance(value, Constant | Variable)
    if isinstance(value, Constant) and value.is_scalar:
        return f"{value.array.item()!r}: {value.dtype}"
    return f"{value.name or 'constant'}: {value.type}"
