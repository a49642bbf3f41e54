"""A network: values from its inputs to its outputs, and how to walk, rewrite and run it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from autotune.errors import GraphError
from autotune.graph.types import Array
from autotune.graph.value import Constant, Node, Result, Value, Variable
from autotune.utils.check import Check

# Given a node and its new inputs: its new results, or None to keep the operator.
Rewrite = Callable[[Node, tuple[Value, ...]], "Value | Sequence[Value] | None"]


@dataclass(frozen=True, eq=False)
class Graph:
    """A network: its inputs, its outputs, and all nodes between them.

    Attributes:
        inputs: the variables, in order.
        outputs: the values that are computed, in order.

    Raises:
        GraphError: there is no output, or an output reads a variable that is not an input.
    """

    inputs: tuple[Variable, ...]
    outputs: tuple[Value, ...]

    def __post_init__(self) -> None:
        if not self.outputs:
            raise GraphError("a graph must have at least one output, got none")
        unknown = [each.name for each in free_variables(self.outputs) if each not in self.inputs]
        if unknown:
            raise GraphError(
                f"the outputs of a graph must depend on its inputs only; {', '.join(unknown)} "
                "must be among them"
            )

    @staticmethod
    def of(*outputs: Value) -> Graph:
        """Make the graph of some outputs; inputs are its variables, depth first."""
        return Graph(free_variables(outputs), outputs)

    @cached_property
    def nodes(self) -> tuple[Node, ...]:
        """All nodes, each after those that it reads: depth first, inputs from the left."""
        return tuple(_post_order(self.outputs))

    @cached_property
    def readers(self) -> Mapping[Value, tuple[Node, ...]]:
        """The nodes that read a value, once for each time."""
        found: dict[Value, list[Node]] = {}
        for node in self.nodes:
            for value in node.inputs:
                found.setdefault(value, []).append(node)
        return {value: tuple(nodes) for value, nodes in found.items()}

    @cached_property
    def constants(self) -> tuple[Constant, ...]:
        """The constants that are read, in the order of reading."""
        found = dict.fromkeys(
            value
            for values in (*(node.inputs for node in self.nodes), self.outputs)
            for value in values
            if isinstance(value, Constant)
        )
        return tuple(found)

    @property
    def flop(self) -> float:
        """Floating-point operations of one run."""
        return sum(node.flop for node in self.nodes)

    def uses(self, value: Value) -> int:
        """Return how often a value is read, as an output too."""
        return len(self.readers.get(value, ())) + self.outputs.count(value)

    def bind(self, params: Mapping[str, object]) -> Graph:
        """Replace inputs by constants, by name; other names are ignored.

        Raises:
            GraphError: the argument is not a dict, or values have another shape than their input.
        """
        Check(GraphError, "bind").kind("params", params, Mapping, "a dict of names and arrays")
        known = {v: _bound(v, params[v.name]) for v in self.inputs if v.name in params}
        return self.substitute(known)

    def substitute(self, values: Mapping[Variable, Value]) -> Graph:
        """Replace inputs by other values."""
        return self.rewrite(lambda node, inputs: None, values)

    def rewrite(self, rule: Rewrite, values: Mapping[Variable, Value] | None = None) -> Graph:
        """Rebuild the graph from its inputs on.

        Args:
            rule: called for each node with its new inputs.
            values: what to put in place of inputs.
        """
        new: dict[Value, Value] = dict((values or {}).items())
        for node in self.nodes:
            inputs = tuple([new.get(value, value) for value in node.inputs])
            given = rule(node, inputs)
            results = _kept(node, inputs) if given is None else _several(given)
            new.update(zip(node.outputs, results, strict=True))
        outputs = tuple([new.get(value, value) for value in self.outputs])
        replaced = values or {}
        inputs_left = [v for v in self.inputs if v not in replaced]
        more = [v for v in free_variables(outputs) if v not in inputs_left]
        return Graph((*inputs_left, *more), outputs)

    def run(self, *arrays: object, dtype: str | None = "float64") -> tuple[Array, ...]:
        """Compute the outputs in numpy.

        Args:
            arrays: one for each input, in order.
            dtype: precision in which numbers with a fraction are kept; None for their own.
        """
        if len(arrays) != len(self.inputs):
            names = ", ".join(each.name for each in self.inputs)
            raise GraphError(f"run: expected an array for each of {names}, got {len(arrays)}")
        known = dict(zip(self.inputs, arrays, strict=True))
        return run_values(self.outputs, {v: _bound(v, a).array for v, a in known.items()}, dtype)


def free_variables(outputs: Iterable[Value]) -> tuple[Variable, ...]:
    """Return the variables behind some values, depth first, inputs from the left."""
    found: dict[Variable, None] = {}
    outputs = tuple(outputs)
    nodes = _post_order(outputs, found)
    assert nodes is not None
    return tuple(found)


def run_values(
    outputs: Sequence[Value], known: Mapping[Value, Array], dtype: str | None
) -> tuple[Array, ...]:
    """Compute some values in numpy, given those of variables; see `Graph.run`."""
    wide = {value: _widen(array, dtype) for value, array in known.items()}
    left = _counts(outputs)

    def read(value: Value) -> Array:
        if value in wide:
            return wide[value]
        if not isinstance(value, Constant):
            raise GraphError(f"run: {value} has no numbers; bind it, or pass them")
        return _widen(value.array, dtype)

    for node in _post_order(outputs):
        arrays = [read(value) for value in node.inputs]
        results = node.op.reference(*arrays)
        for result, array in zip(
            node.outputs, results if isinstance(results, tuple) else (results,), strict=True
        ):
            numbers = np.asarray(array)
            if numbers.shape != result.shape:
                raise GraphError(
                    f"{node.op.name}: its numpy reference gives shape {numbers.shape}, its type "
                    f"is {result.type}"
                )
            wide[result] = numbers if dtype else numbers.astype(result.dtype, copy=False)
        for value in node.inputs:
            left[value] -= 1
            if not left[value] and value not in known:
                wide.pop(value, None)
    return tuple([read(value) for value in outputs])


def _counts(outputs: Sequence[Value]) -> dict[Value, int]:
    left: dict[Value, int] = {}
    for values in (outputs, *(node.inputs for node in _post_order(outputs))):
        for value in values:
            left[value] = left.get(value, 0) + 1
    return left


def _widen(array: Array, dtype: str | None) -> Array:
    numbers = np.asarray(array)
    kind = numbers.dtype.kind
    return numbers.astype(dtype, copy=False) if dtype and kind not in "iub" else numbers


def _bound(variable: Variable, array: object) -> Constant:
    # TVM's params are arrays of a device, which give their numbers by a method.
    numbers = np.asarray(array.numpy() if hasattr(array, "numpy") else array)
    if numbers.dtype.kind in "OUSMm":
        Check(GraphError, f"input {variable.name!r}").refuse(
            "numbers", "an array of numbers", array
        )
    if numbers.shape != variable.shape:
        raise GraphError(
            f"input {variable.name!r}: expected numbers of shape {variable.shape}, got "
            f"{numbers.shape}"
        )
    return Constant(variable.type, lambda: numbers.astype(variable.dtype), variable.name)


def _several(given: Value | Sequence[Value]) -> Sequence[Value]:
    return (given,) if isinstance(given, Value) else given


def _kept(node: Node, inputs: tuple[Value, ...]) -> Sequence[Value]:
    same = all(a is b for a, b in zip(inputs, node.inputs, strict=True))
    return node.outputs if same else Node(node.op, inputs, node.origin).outputs


def _post_order(
    outputs: Iterable[Value], variables: dict[Variable, None] | None = None
) -> list[Node]:
    """Return the nodes behind some values; collect the variables among them."""
    done: set[Node] = set()
    order: list[Node] = []
    stack: list[tuple[Value | Node, bool]] = [(value, False) for value in reversed([*outputs])]
    while stack:
        item, ready = stack.pop()
        if isinstance(item, Variable) and variables is not None:
            variables[item] = None
        node = item.node if isinstance(item, Result) else item
        if not isinstance(node, Node) or node in done:
            continue
        if ready:
            done.add(node)
            order.append(node)
            continue
        stack.append((node, True))
        stack.extend((value, False) for value in reversed(node.inputs))
    return order
