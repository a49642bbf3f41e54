"""A network: values from its inputs to its outputs, and how to walk, rewrite and run it."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain

import numpy as np

from autotune.errors import GraphError
from autotune.graph.types import Array
from autotune.graph.value import Constant, Node, Result, Value, Variable
from autotune.utils.check import Check
from autotune.utils.names import did_you_mean

logger = logging.getLogger("autotune")

# Given a node and its new inputs: its new results, or None to keep the operator.
Rewrite = Callable[[Node, tuple[Value, ...]], "Value | Sequence[Value] | None"]


@dataclass(frozen=True, eq=False)
class Graph:
    """A network: its inputs, its outputs, and all nodes between them.

    Attributes:
        inputs: the variables, in order.
        outputs: the values that are computed, in order.
        nodes: all nodes, each after those that it reads: depth first, inputs from the left.

    Raises:
        GraphError: there is no output, or an output reads a variable that is not an input.
    """

    inputs: tuple[Variable, ...]
    outputs: tuple[Value, ...]
    nodes: tuple[Node, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if not self.outputs:
            raise GraphError("a graph must have at least one output, got none")
        nodes, variables = _post_order(self.outputs)
        object.__setattr__(self, "nodes", tuple(nodes))
        given = set(self.inputs)
        unknown = [each.name for each in variables if each not in given]
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

    @cached_property
    def _outputs_of(self) -> Mapping[Value, int]:
        return Counter(self.outputs)

    def uses(self, value: Value) -> int:
        """Return how often a value is read, as an output too."""
        return len(self.readers.get(value, ())) + self._outputs_of.get(value, 0)

    def bind(self, params: Mapping[str, object]) -> Graph:
        """Replace inputs by constants, by name; other names are ignored, slips with a warning.

        Raises:
            GraphError: the argument is not a dict, or values have another shape than their input.
        """
        Check(GraphError, "bind").kind("params", params, Mapping, "a dict of names and arrays")
        known = {v: _bound(v, params[v.name]) for v in self.inputs if v.name in params}
        self._tell_slips(params)
        return self.substitute(known)

    def _tell_slips(self, params: Mapping[str, object]) -> None:
        """Warn of names that are none of an input, but nearly that of one without a value."""
        missing = {v.name: v.type.shape for v in self.inputs if v.name not in params}
        names = {v.name for v in self.inputs}
        unknown = [each for each in params if isinstance(each, str) and each not in names]
        for name in unknown if missing else ():
            given = getattr(params[name], "shape", None)
            alike = [one for one, shape in missing.items() if shape == given]
            if hint := did_you_mean(name, alike):
                logger.warning("bind: no input is called %r%s it stays an input", name, hint)

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
            results = node.on(inputs).outputs if given is None else _several(given)
            new.update(zip(node.outputs, results, strict=True))
        outputs = tuple([new.get(value, value) for value in self.outputs])
        replaced = values or {}
        inputs_left = [v for v in self.inputs if v not in replaced]
        known = set(inputs_left)
        more = [v for v in free_variables(outputs) if v not in known]
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
    return tuple(_post_order(outputs)[1])


def run_values(
    outputs: Sequence[Value], known: Mapping[Value, Array], dtype: str | None
) -> tuple[Array, ...]:
    """Compute some values in numpy, given those of variables; see `Graph.run`."""
    wide = {value: _widen(array, dtype) for value, array in known.items()}
    nodes, _ = _post_order(outputs)
    left = Counter(chain(outputs, *(node.inputs for node in nodes)))

    def read(value: Value) -> Array:
        if value in wide:
            return wide[value]
        if not isinstance(value, Constant):
            raise GraphError(f"run: {value} has no numbers; bind it, or pass them")
        return _widen(value.array, dtype)

    for node in nodes:
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


def _post_order(outputs: Iterable[Value]) -> tuple[list[Node], dict[Variable, None]]:
    """Return the nodes behind some values, each after those that it reads, and the variables."""
    order: list[Node] = []
    variables: dict[Variable, None] = {}
    seen: set[Node] = set()
    # A node whose inputs are being visited, with those that are left; None for the outputs.
    stack: list[tuple[Node | None, Iterator[Value]]] = [(None, iter(tuple(outputs)))]
    while stack:
        node, left = stack[-1]
        for value in left:
            if isinstance(value, Result):
                if value.node not in seen:
                    seen.add(value.node)
                    stack.append((value.node, iter(value.node.inputs)))
                    break
            elif isinstance(value, Variable):
                variables[value] = None
        else:
            stack.pop()
            if node is not None:
                order.append(node)
    return order, variables
