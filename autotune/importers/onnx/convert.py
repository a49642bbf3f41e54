"""Walks the nodes of a model and converts each: known numbers at once, the rest to a graph."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

import numpy as np

from autotune.errors import GraphError
from autotune.graph import Array, Constant, Value, Variable
from autotune.importers.onnx.call import Call, NoElements, Operand, UnknownInput
from autotune.importers.onnx.emptiness import without_elements
from autotune.importers.onnx.evaluate import EVALUATED
from autotune.importers.onnx.lazy_import import schema_function, type_proto
from autotune.importers.onnx.missing import refuse_missing
from autotune.importers.onnx.model import (
    AttributeReference,
    OnnxFunction,
    OnnxGraph,
    OnnxModel,
    OnnxNode,
)
from autotune.importers.onnx.operators.table import CONVERTERS
from autotune.importers.onnx.read import read_function
from autotune.importers.onnx.tensors import is_narrow

# Up to so many known whole numbers are computed at once; weights when they are used.
_FEW = 4096
# How deep functions may call each other, and how many operators a model may unroll to.
_DEPTH, _MOST = 32, 1 << 17

# What a model whose inputs or attributes contradict ONNX's definitions meets in the arithmetic of
# shapes, numpy and ONNX's own functions.
_MISFITS = (ArithmeticError, LookupError, MemoryError, RuntimeError, TypeError, ValueError)

Names = dict[str, Operand | None]


@dataclass(frozen=True)
class Walk:
    """Converts the nodes of a graph, and of what it calls.

    Attributes:
        model: the model.
        params: numbers of variables that are parameters.
        opsets: versions of operators, by domain.
        attributes: those of the function around.
        depth: how many functions are around.
        converted: counts operators, those of functions and loops each time.
    """

    model: OnnxModel
    params: Mapping[Variable, Array]
    opsets: Mapping[str, int]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    depth: int = 0
    converted: Iterator[int] = field(default_factory=count)

    def run(self, nodes: Sequence[OnnxNode], names: Names) -> None:
        """Convert nodes in order; ``names`` has the values that are known, and gets the others.

        Raises:
            GraphError: an operator cannot be converted.
        """
        made: set[str] = set()
        for node in nodes:
            node = self._with_attributes(node)
            if next(self.converted) >= _MOST:
                raise GraphError(
                    f"{node.label}: functions and loops unroll to more than {_MOST} operators"
                )
            twice = next((name for name in node.outputs if name and name in made), None)
            if twice is not None:
                raise GraphError(f"{node.label}: its output {twice!r} is one of a node before it")
            made.update(node.outputs)
            missing = [name for name in node.inputs if name and name not in names]
            if missing:
                raise GraphError(
                    f"{node.label}: its input {missing[0]!r} is computed by no node before it"
                )
            inputs = tuple([names[name] if name else None for name in node.inputs])
            results = self.results(node, inputs, names)
            for name, result in zip(node.outputs, results, strict=False):
                if name:
                    names[name] = result
            lost = [name for name in node.outputs[len(results) :] if name]
            if lost:
                raise GraphError(f"{node.label}: its output {lost[0]!r} is not supported")

    def results(
        self, node: OnnxNode, inputs: tuple[Operand | None, ...], names: Names
    ) -> Sequence[Operand | None]:
        """Return the results of a node."""

        def run_graph(graph: OnnxGraph, given: Sequence[Operand]) -> list[Operand]:
            return self.subgraph(graph, names, given)

        opset = self.opsets.get(node.domain, 1)
        call = Call(node, inputs, opset, self.params, run_graph)
        try:
            found = self._converted(call)
        except UnknownInput as error:
            raise error.within(node.label) from error
        except GraphError as error:
            if node.label in str(error):
                raise
            raise GraphError(f"{node.label}: {error}") from error
        except _MISFITS as error:
            raise GraphError(
                f"{node.label}: its inputs or attributes do not fit the operator: {error}"
            ) from error
        results = found if isinstance(found, list) else [found]
        return [_at_once(each) for each in results]

    def _converted(self, call: Call) -> Operand | list[Operand | None]:
        try:
            return self._by_table(call)
        except NoElements:
            return without_elements(call)

    def _by_table(self, call: Call) -> Operand | list[Operand | None]:
        node = call.node
        key = (node.domain, node.kind)
        if own := self.model.functions.get(key):
            return self._inlined(own, call)
        evaluate = EVALUATED.get(node.kind) if key[0] == "" else None
        if evaluate and all(each is None or isinstance(each, np.ndarray) for each in call.inputs):
            with np.errstate(all="ignore"):
                return evaluate(call)
        if converter := CONVERTERS.get(key):
            found = converter(call)
            if found is not NotImplemented:
                return found
        elif evaluate:
            with np.errstate(all="ignore"):
                return evaluate(call.with_known_inputs())
        if defined := self.definition(call):
            return self._inlined(defined, call)
        call.refuse("this operator is not supported")

    def definition(self, call: Call) -> OnnxFunction | None:
        """Return how ONNX defines an operator by others, if it does."""
        node = call.node
        if node.domain not in self.opsets:
            return None
        types = [_type_of(each) for each in call.inputs]
        found = schema_function(node, call.opset, types)
        return read_function(found) if found is not None else None

    def _inlined(self, function: OnnxFunction, call: Call) -> list[Operand | None]:
        """Return the results of a function's nodes."""
        if self.depth >= _DEPTH:
            raise GraphError(f"{call.node.label}: functions call each other {_DEPTH} deep")
        given = {**function.defaults, **call.node.attributes}
        names: Names = dict.fromkeys(function.inputs)
        names.update(zip(function.inputs, call.inputs, strict=False))
        inner = replace(
            self,
            opsets={**self.opsets, **function.opsets},
            attributes=given,
            depth=self.depth + 1,
        )
        inner.run(function.nodes, names)
        return [names.get(name) for name in function.outputs]

    def subgraph(
        self, graph: OnnxGraph, around: Names, inputs: Sequence[Operand]
    ) -> list[Operand]:
        """Return the outputs of a graph in an attribute, which reads values from around it."""
        refuse_missing(self.model, graph.nodes, self.opsets)
        names: Names = {**around, **self.initialisers(graph)}
        names.update(zip([each.name for each in graph.inputs], inputs, strict=True))
        self.run(graph.nodes, names)
        lost = [name for name in graph.outputs if name not in names]
        if lost:
            raise GraphError(f"the output {lost[0]!r} of a graph inside is computed by no node")
        return [names[name] for name in graph.outputs]

    @staticmethod
    def initialisers(graph: OnnxGraph) -> Names:
        """Return the numbers that a graph knows from the beginning."""
        return {name: operand_of(array, name) for name, array in graph.initialisers.items()}

    def _with_attributes(self, node: OnnxNode) -> OnnxNode:
        """Return a node with the attributes that it takes from the function around it."""
        if not any(isinstance(each, AttributeReference) for each in node.attributes.values()):
            return node
        own: dict[str, Any] = {}
        for name, value in node.attributes.items():
            known = (
                self.attributes.get(value.name) if isinstance(value, AttributeReference) else value
            )
            if known is not None:
                own[name] = known
        return replace(node, attributes=own)


def operand_of(array: Array, name: str) -> Operand:
    """Return numbers as an operand: whole and few ones as they are, others as a constant."""
    if array.dtype.kind in "iub" or array.size <= 1 or is_narrow(array):
        return array
    return Constant.of(array, name)


def _at_once(operand: Operand | None) -> Operand | None:
    """Return few known whole numbers as such: shapes may depend on them."""
    if not isinstance(operand, Constant) or operand.type.size > _FEW:
        return operand
    few = "float" not in operand.dtype or operand.type.size == 1
    return operand.array if few else operand


def _type_of(operand: Operand | None) -> Any:
    if operand is None:
        return type_proto(None, ())
    if isinstance(operand, Value):
        return type_proto(operand.dtype, operand.shape)
    if isinstance(operand, tuple):
        return type_proto(None, ())
    return type_proto(operand.dtype.name, operand.shape)
