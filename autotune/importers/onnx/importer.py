"""From an ONNX model to a graph."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

import numpy as np

from autotune.errors import GraphError
from autotune.graph import Array, Constant, Graph, Value, Variable
from autotune.importers.imported import ImportedNetwork
from autotune.importers.onnx.convert import Names, Walk
from autotune.importers.onnx.missing import refuse_missing
from autotune.importers.onnx.model import OnnxGraph
from autotune.importers.onnx.read import read_model
from autotune.importers.onnx.signature import Signature
from autotune.importers.onnx.tensors import is_narrow, numpy_type
from autotune.utils.check import Check
from autotune.utils.names import did_you_mean


def from_onnx(
    model: str | os.PathLike[str] | bytes | object,
    shapes: Mapping[str, Sequence[int] | int] | None = None,
    dtypes: Mapping[str, str] | None = None,
    values: Mapping[str, object] | None = None,
    freeze: bool = True,
    outputs: Sequence[str] | None = None,
) -> ImportedNetwork:
    """Read a model in ONNX, of opset 7 or newer.

    What depends on no input, such as the arithmetic of shapes in exported models, is computed
    while the model is read. Weights of models may be in files beside them.

    Args:
        model: a path, the bytes of a file, or an ``onnx.ModelProto``.
        shapes: extents of inputs by name, where the model leaves them open or others are wanted;
            also of dimensions by their names: ``{"batch": 1}``. What has an extent of 0, such as
            a cache of keys at the beginning, is no input of the network.
        dtypes: dtypes of inputs by name, in place of the model's.
        values: numbers of inputs that are always the same, by name: they are no inputs of the
            network then. Control flow and shapes may depend on them.
        freeze: whether weights are constants of the graph; else they are inputs, whose numbers are
            in ``params``.
        outputs: names of values in the model that are its results, in place of its own. What
            they do not need is not read, inputs neither: a detector ends before its
            ``NonMaxSuppression``.

    Returns:
        The graph, whose inputs have the model's names; ``params``; and the names of outputs.

    Raises:
        GraphError: there is no such file, it is no model, extents are not known, or operators are
            not supported: the message lists all of them.

    Example::

        network = from_onnx("resnet18.onnx", {"batch": 1})
        compiled = compile_network(network.graph, "cuda")
    """
    check = Check(GraphError, "from_onnx")
    for name, given in (("shapes", shapes), ("dtypes", dtypes), ("values", values)):
        if given is not None:
            check.kind(name, given, Mapping, "a dict by names of inputs")
    read = read_model(model)
    results = _results(read.graph, outputs)
    nodes, used = read.graph.needed(results)
    refuse_missing(read, nodes, read.opsets)
    fixed = _fixed(read.graph, values or {})
    left = [each for each in read.graph.inputs if each.name not in fixed]
    wanted = used if outputs is not None else {each.name for each in left}
    inputs = Signature(shapes or {}, dtypes or {}).inputs(left, wanted)
    names, params = _weights(read.graph, freeze)
    names.update(fixed)
    names.update(inputs)
    walk = Walk(read, params, read.opsets)
    walk.run(nodes, names)
    found = [_output(walk, names, name) for name in results]
    reached = Graph.of(*found).inputs
    own = [each for each in params if each in reached]
    variables = [each for each in inputs.values() if isinstance(each, Variable)]
    graph = Graph((*variables, *own), tuple(found))
    return ImportedNetwork(graph, {each.name: params[each] for each in own}, results)


def _results(graph: OnnxGraph, outputs: Sequence[str] | None) -> tuple[str, ...]:
    """Return the names of results: the model's, or those that are wanted."""
    if outputs is None:
        return graph.outputs
    Check(GraphError, "from_onnx").kind("outputs", outputs, Sequence, "a list of names")
    known = {name for node in graph.nodes for name in node.outputs if name}
    for name in [outputs] if isinstance(outputs, str) else outputs:
        if not isinstance(name, str) or isinstance(outputs, str) or name not in known:
            raise GraphError(
                f"from_onnx: outputs must be a list of names of values that the model computes, "
                f"got {outputs!r}{did_you_mean(str(name), known)}"
            )
    if not outputs:
        raise GraphError("from_onnx: outputs must be at least one name, got none")
    return tuple(outputs)


def _fixed(graph: OnnxGraph, values: Mapping[str, object]) -> dict[str, Array]:
    """Return the numbers of inputs that are given, in the model's dtypes."""
    known = {each.name: each for each in graph.inputs}
    fixed = {}
    for name, value in values.items():
        if name not in known:
            raise GraphError(
                f"from_onnx: values must name inputs of the model ({', '.join(known)}), got "
                f"{name!r}{did_you_mean(name, known)}"
            )
        array, shape = np.asarray(value), known[name].shape
        if array.dtype.kind not in "biuf" and array.dtype.name != "bfloat16":
            raise GraphError(f"from_onnx: the value of {name!r} must be numbers, got {value!r}")
        open_or_equal = shape is None or (
            len(shape) == array.ndim
            and all(isinstance(n, str) or n == m for n, m in zip(shape, array.shape, strict=True))
        )
        if not open_or_equal:
            raise GraphError(
                f"from_onnx: the value of {name!r} must have shape {list(shape or ())}, got "
                f"{list(array.shape)}"
            )
        fixed[name] = array.astype(numpy_type(known[name].dtype))
    return fixed


def _weights(graph: OnnxGraph, freeze: bool) -> tuple[Names, dict[Variable, Array]]:
    """Return the values of initialisers, and which of them are parameters."""
    names = Walk.initialisers(graph)
    params: dict[Variable, Array] = {}
    if not freeze:
        for name, value in names.items():
            if isinstance(value, Constant) and value.shape:
                variable = Variable(value.type, name)
                params[variable] = value.array
                names[name] = variable
    return names, params


def _output(walk: Walk, names: Names, name: str) -> Value:
    """Return an output of the model, which may be a number that is known."""
    if name not in names:
        raise GraphError(f"{walk.model.name}: the output {name!r} is computed by no node")
    found = names[name]
    if isinstance(found, tuple):
        raise GraphError(f"{walk.model.name}: the output {name!r} is a sequence, not a tensor")
    if found is None:
        raise GraphError(f"{walk.model.name}: the output {name!r} is an optional without a tensor")
    if isinstance(found, Value):
        return found
    array = np.asarray(found)
    if not array.size:
        raise GraphError(f"{walk.model.name}: the output {name!r} has no elements")
    if is_narrow(array):
        raise GraphError(
            f"{walk.model.name}: the output {name!r} is of {array.dtype}, which weights alone "
            "may be"
        )
    return Constant.of(array, name)
