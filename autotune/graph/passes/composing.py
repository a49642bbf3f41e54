"""Tools of the matchers of `compose`: rebuilding a graph, and reading numbers in it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from autotune.graph import ops
from autotune.graph.graph import Graph
from autotune.graph.operator import Operator
from autotune.graph.passes.fold_constant import fold_constant
from autotune.graph.value import Constant, Node, Result, Value, apply, made_at

# Whether an operator, applied to these inputs, is computed in one kernel.
Serves = Callable[[Node], bool]


Op = TypeVar("Op", bound=Operator)


@dataclass(frozen=True)
class Matched(Generic[Op]):
    """An operator of a known kind, what it is applied to, and its result."""

    op: Op
    inputs: tuple[Value, ...]
    output: Value


@dataclass
class GraphReader:
    """The graph that is rebuilt, as matchers see it: producers and readers of values.

    Attributes:
        graph: the original graph.
        serves: returns whether an operator should be created.
        before: for values of the new graph, the corresponding ones of the original.
    """

    graph: Graph
    serves: Serves
    before: dict[Value, Value] = field(default_factory=dict)

    def made_by(self, value: Value, kind: type[Op]) -> Matched[Op] | None:
        """Return how a value is made, if that is by an operator of a kind."""
        if not isinstance(value, Result) or len(value.node.outputs) != 1:
            return None
        op = value.node.op
        return Matched(op, value.node.inputs, value) if isinstance(op, kind) else None

    def is_read_once(self, value: Value) -> bool:
        """Return whether a value is read exactly once, and is not an output of the graph."""
        return self.is_read(value, 1)

    def is_read(self, value: Value, times: int) -> bool:
        """Return whether a value is read so often, outputs of the graph counted."""
        old = self.before.get(value)
        return old is None or self.graph.uses(old) == times

    def composed(self, op: Operator, *inputs: Value) -> Value | None:
        """Apply an operator, if it should be created."""
        made = apply(op, *inputs)
        return made if isinstance(made, Result) and self.serves(made.node) else None


# Returns what stands for the result of a node, whose inputs are those given; None: the node.
Matcher = Callable[[GraphReader, Node, tuple[Value, ...]], Value | None]


def rewritten(graph: Graph, serves: Serves, matchers: Sequence[Matcher]) -> Graph:
    """Return a graph in which matchers have their say of each node, the first one first."""
    reader = GraphReader(graph, serves)

    def found(node: Node, inputs: tuple[Value, ...]) -> tuple[Value, ...]:
        value = None
        if len(node.outputs) == 1:
            with made_at(node.origin):
                made = (match(reader, node, inputs) for match in matchers)
                value = next((each for each in made if each is not None), None)
        results: tuple[Value, ...] = node.on(inputs).outputs if value is None else (value,)
        reader.before.update(zip(results, node.outputs, strict=True))
        return results

    return fold_constant(graph.rewrite(found))


def scalar_of(value: Value) -> float | None:
    """Return the number of a constant of one element; None of all else.

    It is the shortest decimal that its dtype rounds to it: 1e-5, whose float32 is a little less.
    """
    if not isinstance(value, Constant) or value.type.size != 1:
        return None
    number = value.array.reshape(())[()]
    return float(number if value.dtype == "bool" else str(number))


def with_scalar(inputs: tuple[Value, ...]) -> tuple[Value, float] | None:
    """Return the other of two inputs and the number, if one of them is a constant number."""
    for value, other in (inputs, inputs[::-1]):
        number = scalar_of(other)
        if number is not None and other.type.ndim <= value.type.ndim:
            return value, number
    return None


def reshaped(value: Value, shape: tuple[int, ...]) -> Value:
    """Return a value in another shape; shapes that it had in between are forgotten."""
    while isinstance(value, Result) and isinstance(value.node.op, ops.Reshape):
        value = value.node.inputs[0]
    return value if value.shape == shape else apply(ops.Reshape(shape), value)
