"""A fused function: the part of a network that one kernel computes."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from autotune import te
from autotune.errors import ExpressionError, GraphError
from autotune.graph import ops
from autotune.graph.fuse.partition import MAX_DEPTH, fused_groups
from autotune.graph.graph import Graph
from autotune.graph.text import digest
from autotune.graph.types import TensorType
from autotune.graph.value import Constant, Node, Result, Value, Variable
from autotune.graph.verify import check_computable
from autotune.te.location import without_line
from autotune.te.stores import written_shape
from autotune.te.tensor import ComputeOp, Tensor

# TVM cuts names of functions here, and adds a hash.
_NAME = 80
_MOVES_NOTHING = (ops.Reshape, ops.BatchFlatten, ops.ExpandDims, ops.Squeeze)


@dataclass(frozen=True, eq=False)
class FusedFunction:
    """Some operators that run as one.

    Attributes:
        graph: the operators, over variables p0, p1, ...
        inputs: the values of the network for which these variables stand, in order.
        outputs: the values of the network that it computes, in order.
        nodes: the nodes of the network that it runs, each after those that it reads.
        parts: for a joint function, the two functions that it replaces; see `joint_functions`.
    """

    graph: Graph
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    nodes: tuple[Node, ...] = ()
    parts: tuple[FusedFunction, ...] = ()

    @cached_property
    def name(self) -> str:
        """The name that TVM gives: ``fused_`` and the operators."""
        names = [node.op.name.replace(".", "_") for node in self.graph.nodes]
        name = "_".join(["fused", *names])
        if len(name) <= _NAME:
            return name
        return f"{name[:_NAME]}_{hashlib.sha256(name.encode()).hexdigest()[:16]}"

    @cached_property
    def signature(self) -> str:
        """A hash of the structure: functions with equal ones can run the same kernel."""
        return digest(self.graph)

    @property
    def is_free(self) -> bool:
        """Whether it only gives its input another shape, which needs no kernel."""
        single = len(self.graph.inputs) == 1
        return single and all(isinstance(n.op, _MOVES_NOTHING) for n in self.graph.nodes)

    @property
    def stores_updates(self) -> bool:
        """Whether its result is in memory of which it writes a part."""
        return any(isinstance(node.op, ops.Storing) for node in self.graph.nodes)

    @property
    def joins(self) -> bool:
        """Whether it only puts its inputs one after another in memory."""
        nodes = self.graph.nodes
        if len(nodes) != 1 or not isinstance(nodes[0].op, ops.Concatenate):
            return False
        if nodes[0].inputs != self.graph.inputs:  # one of them twice
            return False
        shape, along = nodes[0].output.shape, nodes[0].op.along
        return math.prod(shape[: along % len(shape)]) == 1

    def cut(self, count: int) -> tuple[FusedFunction, FusedFunction] | None:
        """Return two functions: the first ``count`` nodes, and the rest, which reads their result.

        None where more than one value would pass between them, or one that is an output too, and
        where the rest would have several results.
        """
        first, rest = self.nodes[:count], self.nodes[count:]
        if not first or not rest:
            return None
        between = first[-1].outputs
        inner = {value for node in first for value in node.outputs}
        read = {value for node in rest for value in node.inputs if value in inner}
        several = len(self.outputs) > 1 or len(between) != 1
        if several or read != set(between) or not inner.isdisjoint(self.outputs):
            return None
        return _of_nodes(first, between), _of_nodes(rest, self.outputs)

    @property
    def flop(self) -> float:
        """Floating-point operations of one run."""
        return self.graph.flop

    @property
    def bytes(self) -> int:
        """Bytes of all inputs and outputs, each read or written once."""
        return sum(value.type.bytes for value in (*self.inputs, *self.outputs))

    def tensors(self) -> tuple[Tensor, ...]:
        """Return inputs and outputs as tensor expressions, new ones at each call.

        Raises:
            GraphError: some operators have no tensor expression (all are listed), or none for the
                dtype.
        """
        check_computable(self.graph)
        known: dict[Value, Any] = {
            value: te.placeholder(value.shape, value.dtype, f"p{i}")
            for i, value in enumerate(self.graph.inputs)
        }
        inputs = tuple(known.values())
        known |= {each: te.const(each.array.item(), each.dtype) for each in self.graph.constants}
        for node in self.graph.nodes:
            made = _computed(node, [known[value] for value in node.inputs])
            results = made if isinstance(made, (list, tuple)) else [made]
            _check_types(node, results)
            known.update(zip(node.outputs, results, strict=True))
        return (*inputs, *[known[value] for value in self.graph.outputs])

    @cached_property
    def has_reduction(self) -> bool:
        """Whether anything is reduced: TVM tunes such functions only."""
        return any(_reduces(tensor) for tensor in self.tensors())


def _computed(node: Node, inputs: Sequence[Any]) -> Tensor | Sequence[Tensor]:
    try:
        return node.op.compute(*inputs)
    except ExpressionError as error:
        kinds = ", ".join(dict.fromkeys(value.dtype for value in node.inputs))
        why = without_line(str(error))  # the node's origin is the user's line
        raise GraphError(
            f"{node.origin}: {node.op.name} has no kernel for {kinds}: cast its inputs first "
            f"({why})"
        ) from error


def _check_types(node: Node, results: Sequence[object]) -> None:
    """Refuse what a kernel would write in another type than the one that memory is planned for."""
    for result, value in zip(results, node.outputs, strict=True):
        if not isinstance(result, Tensor):
            continue
        whole = written_shape(result.op) or TensorType.of(result).shape
        if TensorType(whole, result.dtype) != value.type:
            raise GraphError(
                f"{node.origin}: {node.op.name} has no kernel that gives {value.type}: its "
                f"tensor expression gives {TensorType.of(result)}; cast its inputs first"
            )


def _reduces(output: Tensor) -> bool:
    stack, seen = [output.op], {output.op}
    while stack:
        op = stack.pop()
        if isinstance(op, ComputeOp) and op.reduce_axis:
            return True
        new = {tensor.op for tensor in op.input_tensors} - seen
        seen |= new
        stack += new
    return False


def partition(graph: Graph, opt_level: int = 3, max_depth: int = MAX_DEPTH) -> list[FusedFunction]:
    """Cut a graph into functions by TVM's rules of fusion, in an order in which they can run."""
    groups = fused_groups(graph, opt_level, max_depth)
    return [_function(graph, nodes) for nodes in groups]


def function_of(graph: Graph) -> FusedFunction:
    """Make one function of all nodes of a graph, over its inputs and constants."""
    return _of_nodes(graph.nodes, graph.outputs)


def merged(first: FusedFunction, second: FusedFunction) -> FusedFunction:
    """Make one function of two, of which the second may read the result of the first."""
    nodes, outputs = (*first.nodes, *second.nodes), (*first.outputs, *second.outputs)
    return replace(_of_nodes(nodes, outputs), parts=(first, second))


def _function(graph: Graph, nodes: Sequence[Node]) -> FusedFunction:
    """Make the function of a group of nodes, of which only the last is read from outside."""
    root = nodes[-1]
    single = len(root.outputs) == 1
    return _of_nodes(nodes, tuple(v for v in root.outputs if single or graph.uses(v)))


def _of_nodes(nodes: Sequence[Node], outputs: tuple[Value, ...]) -> FusedFunction:
    inside = set(nodes)
    known: dict[Value, Value] = {}
    origins: dict[Value, Value] = {}
    for node in nodes:
        inputs = tuple([_given(value, known, origins) for value in node.inputs])
        known.update(zip(node.outputs, node.on(inputs).outputs, strict=True))
    body = Graph.of(*[known[value] for value in outputs])
    assert all(isinstance(value, Result) and value.node in inside for value in outputs)
    named = {value: Variable(value.type, f"p{i}") for i, value in enumerate(body.inputs)}
    inputs_of = tuple(origins[value] for value in body.inputs)
    return FusedFunction(body.substitute(named), inputs_of, outputs, tuple(nodes))


def _given(value: Value, known: dict[Value, Value], origins: dict[Value, Value]) -> Value:
    """Return the replacement of a value in the function: a scalar itself, else a parameter."""
    if isinstance(value, Constant) and value.is_scalar:
        return value
    if value not in known:
        known[value] = Variable(value.type, "p")
        origins[known[value]] = value
    return known[value]
