"""Functions of networks as plain data, from which they are made again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

import numpy as np

from autotune.errors import GraphError
from autotune.graph import OPERATORS, Constant, Graph, Node, Operator, TensorType, Value, Variable
from autotune.graph.fuse import FusedFunction, function_of


def function_to_json(function: FusedFunction) -> dict[str, object]:
    """Return operators, shapes and types; of numbers only those without a dimension.

    Values are known by their places: ``["p", i]`` is input ``i``, ``["n", i, j]`` result ``j`` of
    node ``i``, ``["s", dtype, number]`` a number.
    """
    names: dict[Value, list[object]] = {v: ["p", i] for i, v in enumerate(function.graph.inputs)}
    nodes = []
    for number, node in enumerate(function.graph.nodes):
        inputs = [names.get(value) or _scalar(value) for value in node.inputs]
        attributes = {each.name: getattr(node.op, each.name) for each in fields(node.op)}
        nodes.append([node.op.name, attributes, inputs])
        names |= {value: ["n", number, i] for i, value in enumerate(node.outputs)}
    return {
        "inputs": [
            [list(value.shape), value.dtype, isinstance(value, Constant)]
            for value in function.inputs
        ],
        "nodes": nodes,
        "outputs": [names[value] for value in function.graph.outputs],
    }


def _scalar(value: Value) -> list[object]:
    assert isinstance(value, Constant), "graphs of functions hold no other constants"
    return ["s", value.dtype, value.array.item()]


def function_from_json(row: Mapping[str, object]) -> FusedFunction:
    """Read what `function_to_json` gave; weights are zeros.

    Raises:
        GraphError: it is something else, or there is no such operator any more.
    """
    try:
        return _read(row)
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise GraphError(f"a function of a network cannot be read: {error!s:.200}") from error


def _read(row: Mapping[str, Any]) -> FusedFunction:
    inputs: list[Value] = []
    for number, (shape, dtype, known) in enumerate(row["inputs"]):
        kind = TensorType(tuple(shape), str(dtype))
        inputs.append(_weights(kind) if known else Variable(kind, f"p{number}"))
    nodes: list[Node] = []

    def value_of(reference: Sequence[object]) -> Value:
        match reference:
            case ["p", int(number)]:
                return inputs[number]
            case ["n", int(number), int(result)]:
                return nodes[number].outputs[result]
            case ["s", str(dtype), number]:
                return Constant.of(np.asarray(number), dtype=dtype)
        raise ValueError(f"{reference!r} is no value")

    for name, attributes, read in row["nodes"]:
        nodes.append(Node(_operator(name, attributes), tuple(map(value_of, read)), "lock"))
    outputs = tuple(map(value_of, row["outputs"]))
    return function_of(Graph.of(*outputs))


def _weights(kind: TensorType) -> Constant:
    return Constant(kind, lambda: np.zeros(kind.shape, kind.dtype))


def _operator(name: str, attributes: Mapping[str, object]) -> Operator:
    if name not in OPERATORS:
        raise GraphError(f"there is no operator {name!r:.80}")
    return OPERATORS[name](**{key: _tuples(value) for key, value in attributes.items()})


def _tuples(value: object) -> object:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value
