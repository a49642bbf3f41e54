"""Imports the `onnx` package when a model is read, and nowhere else."""

from __future__ import annotations

import importlib
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from autotune.errors import GraphError
from autotune.graph import Array
from autotune.importers.onnx.model import OnnxNode

# Most elements of a result that ONNX's evaluator computes.
_MOST = 2**28


def onnx() -> Any:
    """Return the package.

    Raises:
        GraphError: it cannot be imported.
    """
    try:
        return importlib.import_module("onnx")
    except ImportError as error:
        raise GraphError(
            f"from_onnx: the package onnx cannot be imported ({error}); install it with "
            "`pip install 'autotune[onnx]'`"
        ) from error


def parsed(data: bytes, path: str) -> Any:
    """Return the protobuf of a model.

    Raises:
        GraphError: the bytes are no model.
    """
    package = onnx()
    try:
        model = package.ModelProto.FromString(data)
    except Exception as error:  # protobuf's own class, which differs between its versions
        raise GraphError(
            f"from_onnx: {path} must be an ONNX model; it is none, or is cut off: {error}"
        ) from error
    if not model.HasField("graph") or not model.opset_import:
        raise GraphError(f"from_onnx: {path} must be an ONNX model; it has no graph or no opset")
    return model


def newest_opset() -> int:
    """Return the newest opset that the package knows."""
    return int(onnx().defs.onnx_opset_version())


def schema_function(node: OnnxNode, opset: int, types: list[Any]) -> Any | None:
    """Return the definition of an operator by others that ONNX gives for it, if there is one.

    Args:
        node: the operator.
        opset: the version of its domain.
        types: the protobufs of the types of its inputs.
    """
    package = onnx()
    try:
        schema = package.defs.get_schema(node.kind, opset, node.domain)
    except package.defs.SchemaError:
        return None
    function = package.FunctionProto()
    if schema.has_function:
        function.CopyFrom(schema.function_body)
    elif schema.has_context_dependent_function:
        given = [each.SerializeToString() for each in types]
        body = schema.get_context_dependent_function(_whole(node).SerializeToString(), given)
        if not body:
            return None
        function.ParseFromString(body)
    else:
        return None
    defaults = [each.default_value for each in schema.attributes.values()]
    function.attribute_proto.extend([each for each in defaults if each.type])
    return function


def evaluated(node: OnnxNode, opset: int, arrays: Sequence[Array | None]) -> list[Array]:
    """Return the results of one of ONNX's own operators, by the package's evaluator in numpy.

    If the evaluator fails, and no result has elements, their types say all.

    Args:
        node: the operator, which has no graphs as attributes.
        opset: the version of its domain.
        arrays: its inputs; None for those that are left out.

    Raises:
        GraphError: the evaluator fails, or a result would be large.
    """
    package = onnx()
    made = _one_operator(package, node, opset, arrays)
    types = _types(package, made)
    given = {f"x{i}": each for i, each in enumerate(arrays) if each is not None}
    try:
        evaluator = importlib.import_module("onnx.reference").ReferenceEvaluator(made)
        results: list[Array] = evaluator.run(None, given)
    except Exception as error:  # the evaluator checks little, and fails in many ways
        if not all(0 in shape for shape, _ in types):
            raise GraphError(f"with a tensor without elements: {error}") from error
        results = [np.zeros(*each) for each in types]
    found = iter(results)
    return [next(found) if name else np.zeros(0) for name in made.graph.node[0].output]


def _one_operator(package: Any, node: OnnxNode, opset: int, arrays: Sequence[Array | None]) -> Any:
    """Return the protobuf of a model of one operator; whole numbers are known in it."""
    proto = package.NodeProto()
    proto.CopyFrom(_whole(node))
    names = ["" if each is None else f"x{i}" for i, each in enumerate(arrays)]
    del proto.input[:]
    proto.input.extend(names)
    given = {name: each for name, each in zip(names, arrays, strict=True) if each is not None}
    number = package.helper.np_dtype_to_tensor_dtype
    inputs = [
        package.helper.make_tensor_value_info(name, number(each.dtype), each.shape)
        for name, each in given.items()
    ]
    outputs = [package.helper.make_empty_tensor_value_info(name) for name in proto.output if name]
    known = [
        package.numpy_helper.from_array(each, name)
        for name, each in given.items()
        if each.dtype.kind in "iu"
    ]
    graph = package.helper.make_graph([proto], "one", inputs, outputs, known)
    opsets = [package.helper.make_opsetid(node.domain, opset)]
    return package.helper.make_model(graph, opset_imports=opsets)


def _types(package: Any, model: Any) -> list[tuple[tuple[int, ...], Any]]:
    """Return the shapes of results, and their dtypes of numpy.

    Raises:
        GraphError: a result would fill the memory, or its shape is not known before.
    """
    inferred = package.shape_inference.infer_shapes(model, data_prop=True)
    found: list[tuple[tuple[int, ...], Any]] = []
    for each in inferred.graph.output:
        kind = each.type.tensor_type
        shape = tuple([dim.dim_value for dim in kind.shape.dim])
        known = kind.HasField("shape") and all(dim.HasField("dim_value") for dim in kind.shape.dim)
        if not known or math.prod(shape) > _MOST:
            raise GraphError(
                f"a result of a tensor without elements must have a shape that is known, and at "
                f"most {_MOST} elements"
            )
        found.append((shape, package.helper.tensor_dtype_to_np_dtype(kind.elem_type)))
    return found


def _whole(node: OnnxNode) -> Any:
    """Return the protobuf of a node with the attributes that are those of a function around."""
    package, proto = onnx(), node.proto
    if not any(each.ref_attr_name for each in proto.attribute):
        return proto
    whole = package.NodeProto()
    whole.CopyFrom(proto)
    own = [each for each in proto.attribute if not each.ref_attr_name]
    there = {each.name for each in own}
    del whole.attribute[:]
    whole.attribute.extend(own)
    whole.attribute.extend(
        package.helper.make_attribute(name, value)
        for name, value in node.attributes.items()
        if name not in there and isinstance(value, int | float | str | tuple)
    )
    return whole


def is_defined(kind: str, domain: str, opset: int) -> bool:
    """Return whether ONNX defines an operator by others."""
    package = onnx()
    try:
        schema = package.defs.get_schema(kind, opset, domain)
    except package.defs.SchemaError:
        return False
    return bool(schema.has_function or schema.has_context_dependent_function)


def type_proto(dtype: str | None, shape: tuple[int, ...]) -> Any:
    """Return the protobuf of the type of a tensor; of none for no dtype."""
    package = onnx()
    if dtype is None:
        return package.TypeProto()
    number = package.TensorProto.DataType.Value(_NAMES.get(dtype, dtype.upper()))
    return package.helper.make_tensor_type_proto(number, shape)


_NAMES = {"float32": "FLOAT", "float64": "DOUBLE"}
