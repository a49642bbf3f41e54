"""Networks of relay as text: TVM's ``ir.save_json`` and ``ir.load_json``."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

import numpy as np

from autotune.errors import GraphError
from autotune.graph import OPERATORS, Constant, Graph, Node, Operator, TensorType, Value, Variable
from autotune.tvm.relay.function import Function, IRModule, graph_of

# What the text begins with: its form is autotune's own.
_FORM = "autotune.relay"
_VERSION = 1


def save_json(node: object) -> str:
    """Return a module, a function or an expression of relay as JSON, with its constants.

    Only `load_json` reads it: the form is not TVM's.

    Raises:
        GraphError: it is something else.
    """
    row: dict[str, object] = {"form": _FORM, "version": _VERSION}
    if isinstance(node, IRModule):
        row["module"] = {name: _written(each.graph) for name, each in node.functions.items()}
    else:
        row["function"] = _written(graph_of(node))
    return json.dumps(row, default=_plain)


def _plain(value: object) -> object:
    """Return a number of numpy, as attributes may be, as one of Python."""
    if isinstance(value, np.generic):
        return value.item()
    raise GraphError(f"save_json: an attribute {value!r:.80} has no form as JSON")


def load_json(json_str: str) -> IRModule | Function:
    """Return what `save_json` was given: a module, or a function.

    Raises:
        GraphError: the text is something else, TVM's form too, or of operators that are unknown.
    """
    try:
        row = json.loads(json_str)
        if (row["form"], row["version"]) != (_FORM, _VERSION):
            raise ValueError(f"expected form {_FORM} {_VERSION}")
        if "module" in row:
            return IRModule({name: _function(each) for name, each in row["module"].items()})
        return _function(row["function"])
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise GraphError(
            f"load_json: expected what save_json of autotune wrote: {error!s:.200}"
        ) from error


def _written(graph: Graph) -> dict[str, object]:
    """Return values by their places: inputs, constants, results of nodes, in this order."""
    places: dict[Value, int] = {value: i for i, value in enumerate(graph.inputs)}
    constants: list[object] = []
    nodes: list[object] = []
    known = [
        value
        for value in dict.fromkeys(
            [value for node in graph.nodes for value in node.inputs] + [*graph.outputs]
        )
        if isinstance(value, Constant)
    ]
    for value in known:
        numbers = base64.b64encode(np.ascontiguousarray(value.array).tobytes()).decode()
        constants.append([[*value.shape], value.dtype, value.name, numbers])
        places[value] = len(places)
    for node in graph.nodes:
        attributes = {each.name: getattr(node.op, each.name) for each in fields(node.op)}
        nodes.append([node.op.name, attributes, [places[each] for each in node.inputs]])
        for result in node.outputs:
            places[result] = len(places)
    return {
        "inputs": [[[*each.shape], each.dtype, each.name] for each in graph.inputs],
        "constants": constants,
        "nodes": nodes,
        "outputs": [places[each] for each in graph.outputs],
    }


def _function(row: Mapping[str, Any]) -> Function:
    values: list[Value] = [Variable(_type(*each[:2]), str(each[2])) for each in row["inputs"]]
    inputs = [each for each in values if isinstance(each, Variable)]
    values += [_constant(*each) for each in row["constants"]]
    for name, attributes, read in row["nodes"]:
        node = Node(_operator(name, attributes), tuple([_at(values, i) for i in read]))
        values += node.outputs
    return Function.of(Graph(tuple(inputs), tuple([_at(values, i) for i in row["outputs"]])))


def _at(values: Sequence[Value], place: object) -> Value:
    if not isinstance(place, int) or not 0 <= place < len(values):
        raise ValueError(f"{place!r} is the place of no value before")
    return values[place]


def _type(shape: Sequence[int], dtype: str) -> TensorType:
    return TensorType(tuple(shape), dtype)


def _constant(shape: Sequence[int], dtype: str, name: str, numbers: str) -> Constant:
    kind = _type(shape, dtype)
    try:
        raw = base64.b64decode(numbers, validate=True)
    except binascii.Error as error:
        raise ValueError(f"constant {name!r}: {error}") from None
    array = np.frombuffer(raw, np.dtype(kind.dtype)).reshape(kind.shape)
    return Constant.of(array, str(name), kind.dtype)


def _operator(name: str, attributes: Mapping[str, object]) -> Operator:
    if name not in OPERATORS:
        raise ValueError(f"there is no operator {name!r:.80}")
    return OPERATORS[name](**{key: _tuples(value) for key, value in attributes.items()})


def _tuples(value: object) -> object:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value
