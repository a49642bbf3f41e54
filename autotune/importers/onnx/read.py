"""Reads the protobuf of a model into frozen data."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autotune.errors import GraphError
from autotune.importers.onnx.lazy_import import newest_opset, parsed
from autotune.importers.onnx.model import (
    AttributeReference,
    OnnxFunction,
    OnnxGraph,
    OnnxInput,
    OnnxModel,
    OnnxNode,
)
from autotune.importers.onnx.tensors import TensorReader, dtype_of

# The domain of ONNX itself has two names.
_OWN_DOMAINS = ("", "ai.onnx")


def read_model(model: object) -> OnnxModel:
    """Read a model: a path, the bytes of a file, or what `onnx.load` returns.

    Raises:
        GraphError: there is no such file, or it is no model.
    """
    if isinstance(model, str | os.PathLike):
        path = Path(model)
        try:
            data = path.read_bytes()
        except OSError as error:
            raise GraphError(
                f"from_onnx: the model {str(path)!r} cannot be read: {error}"
            ) from error
        return _model(parsed(data, str(path)), path.name, path.parent)
    if isinstance(model, bytes | bytearray | memoryview):
        return _model(parsed(bytes(model), "the bytes"), "the model", None)
    if not hasattr(model, "graph") or not hasattr(model, "opset_import"):
        raise GraphError(
            "from_onnx: model must be a path, the bytes of a file or an onnx.ModelProto, got "
            f"{model!r}"
        )
    if not model.opset_import:
        raise GraphError("from_onnx: the model must say its opset in opset_import, got none")
    return _model(model, model.graph.name or "the model", None)


def _model(proto: Any, name: str, folder: Path | None) -> OnnxModel:
    reader = _Reader(TensorReader(folder))
    functions = {
        (_domain(each.domain), each.name): reader.function(each) for each in proto.functions
    }
    opsets = opsets_of(proto.opset_import)
    known = newest_opset()
    if not 1 <= opsets.get("", 1) <= known:
        raise GraphError(
            f"from_onnx: {name}: its opset must be 1 to {known}, which is the newest that the "
            f"installed package onnx knows, got {opsets['']}"
        )
    return OnnxModel(name, reader.graph(proto.graph), opsets, functions)


def read_function(proto: Any) -> OnnxFunction:
    """Read the definition of an operator by others."""
    return _Reader(TensorReader(None)).function(proto)


def opsets_of(imports: Iterable[Any]) -> Mapping[str, int]:
    """Return versions of operators, by domain."""
    return {_domain(each.domain): each.version for each in imports}


def _extent(dim: Any) -> int | str:
    """Return an extent, or the name of one that is open."""
    if dim.HasField("dim_value") and dim.dim_value > 0:
        return int(dim.dim_value)
    return "" if dim.dim_param == "?" else str(dim.dim_param)  # several are called so


def _domain(name: str) -> str:
    return "" if name in _OWN_DOMAINS else name


@dataclass(frozen=True)
class _Reader:
    """Reads the parts of a model, whose tensors are read by `tensors`."""

    tensors: TensorReader

    def function(self, proto: Any) -> OnnxFunction:
        given = {each.name: self._attribute(each) for each in proto.attribute_proto}
        return OnnxFunction(
            tuple(proto.input),
            tuple(proto.output),
            tuple([self._node(each) for each in proto.node]),
            opsets_of(proto.opset_import),
            given,
        )

    def graph(self, proto: Any) -> OnnxGraph:
        if proto.sparse_initializer:
            raise GraphError("from_onnx: sparse initialisers are not supported; make them dense")
        known = {each.name: self.tensors.read(each) for each in proto.initializer}
        # Files of old versions list what is known among the inputs too.
        inputs = [self._input(each) for each in proto.input if each.name not in known]
        outputs = tuple([each.name for each in proto.output])
        nodes = tuple([self._node(each) for each in proto.node])
        given = [each.name for each in inputs]
        for name in (name for node in nodes for name in node.outputs):
            if name in known or name in given:
                raise GraphError(
                    f"from_onnx: {name!r} is the result of a node, and an input or initialiser"
                )
        twice = next((name for name in given if given.count(name) > 1), None)
        if twice is not None:
            raise GraphError(f"from_onnx: the graph has several inputs {twice!r}")
        return OnnxGraph(tuple(inputs), outputs, nodes, known)

    @staticmethod
    def _input(proto: Any) -> OnnxInput:
        kind = proto.type.WhichOneof("value")
        if kind is None:  # of a subgraph: its type is that of what is passed
            return OnnxInput(proto.name, "float32", None)
        if kind != "tensor_type":
            raise GraphError(f"input {proto.name!r}: expected a tensor, got {kind}")
        tensor = proto.type.tensor_type
        dtype = dtype_of(tensor.elem_type, f"input {proto.name!r}")
        if not tensor.HasField("shape"):
            return OnnxInput(proto.name, dtype, None)
        shape = tuple([_extent(each) for each in tensor.shape.dim])
        return OnnxInput(proto.name, dtype, shape)

    def _node(self, proto: Any) -> OnnxNode:
        texts = (proto.op_type, proto.domain, proto.name, *proto.input, *proto.output)
        if not all(isinstance(each, str) for each in texts):
            raise GraphError(f"from_onnx: names must be text in UTF-8, got {texts!r}")
        if not proto.op_type or not proto.output:
            raise GraphError(
                f"from_onnx: node {proto.name!r} must have an operator and outputs, got "
                f"{proto.op_type!r} and {[*proto.output]}"
            )
        return OnnxNode(
            proto.op_type,
            _domain(proto.domain),
            proto.name,
            tuple(proto.input),
            tuple(proto.output),
            {each.name: self._attribute(each) for each in proto.attribute},
            proto,
        )

    def _attribute(self, proto: Any) -> Any:
        """Return the value of an attribute, by its kind."""
        if proto.ref_attr_name:
            return AttributeReference(proto.ref_attr_name)
        match proto.type:
            case 1:
                return float(proto.f)
            case 2:
                return int(proto.i)
            case 3:
                return proto.s.decode("utf-8", "replace")
            case 4:
                return self.tensors.read(proto.t)
            case 5:
                return self.graph(proto.g)
            case 6:
                return tuple(map(float, proto.floats))
            case 7:
                return tuple(map(int, proto.ints))
            case 8:
                return tuple(each.decode("utf-8", "replace") for each in proto.strings)
            case 9:
                return tuple(self.tensors.read(each) for each in proto.tensors)
            case _:
                return None
