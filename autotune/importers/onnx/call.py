"""An operator of a model as its converter sees it: inputs, attributes, and how to make nodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn, TypeVar

import numpy as np

from autotune.errors import GraphError
from autotune.graph import Array, Constant, Node, Operator, Value, Variable, ops
from autotune.graph.passes import folded
from autotune.importers.onnx.model import OnnxGraph, OnnxNode
from autotune.importers.onnx.tensors import numpy_type

# A tensor while a model is read: its numbers, where they are known and few, or may be none at all;
# else a value of the graph. Several tensors are a sequence of ONNX.
Operand = Any
T = TypeVar("T")


class UnknownInput(GraphError):
    """An operator needs the numbers of an input that are known only at run time.

    Attributes:
        value: the input.
    """

    def __init__(self, message: str, value: Value) -> None:
        super().__init__(message)
        self.value = value

    def within(self, label: str) -> UnknownInput:
        """Return the error as that of an operator around."""
        message = str(self)
        return self if label in message else UnknownInput(f"{label}: {message}", self.value)


class NoElements(GraphError):
    """An operator has an input, or makes a result, that has no elements."""


@dataclass(frozen=True)
class Call:
    """One operator with its inputs.

    Attributes:
        node: the operator in the model.
        inputs: arrays and values; None for inputs that are left out.
        opset: version of the operator's domain.
        params: numbers of variables that are parameters.
        run_graph: returns the outputs of a graph in an attribute, given its inputs.
    """

    node: OnnxNode
    inputs: tuple[Operand | None, ...]
    opset: int
    params: Mapping[Variable, Array]
    run_graph: Callable[[OnnxGraph, Sequence[Operand]], list[Operand]]

    def has(self, index: int) -> bool:
        """Return whether an input is there."""
        return index < len(self.inputs) and self.inputs[index] is not None

    def operand(self, index: int) -> Operand:
        """Return an input as it is."""
        if not self.has(index):
            self.refuse(f"expected at least {index + 1} inputs, input {index} is not there")
        return self.inputs[index]

    def value(self, index: int) -> Value:
        """Return an input as a value of the graph."""
        return self.as_value(self.operand(index))

    def values(self) -> list[Value]:
        """Return all inputs as values."""
        return [self.value(i) for i in range(len(self.inputs))]

    def optional(self, index: int) -> Value | None:
        """Return an input as a value; None where it is left out."""
        return self.value(index) if self.has(index) else None

    def as_value(self, operand: Operand) -> Value:
        """Return an operand as a value of the graph."""
        if isinstance(operand, Value):
            return operand
        if isinstance(operand, tuple):
            self.refuse("expected a tensor, got a sequence")
        array = np.asarray(operand)
        self.with_elements(array.shape)
        return Constant.of(array)

    def with_elements(self, shape: Sequence[int]) -> None:
        """Raise what leaves an operator to ONNX's own evaluator, if a shape has no elements."""
        if 0 in shape:
            raise NoElements(f"{self.node.label}: {list(shape)} has no elements")

    def known(self, index: int, name: str) -> Array:
        """Return the numbers of an input that must be known while the model is read."""
        found = self.numbers(self.operand(index))
        if found is not None:
            return found
        value = self.operand(index)
        raise UnknownInput(
            f"{self.node.label}: {name}, its input {self.node.inputs[index]!r}, must be known "
            "while the model is read, but depends on the network's inputs",
            value,
        )

    def numbers(self, operand: Operand) -> Array | None:
        """Return the numbers of an operand; None where they are known only at run time."""
        if isinstance(operand, Constant):
            return operand.array
        if isinstance(operand, Variable):
            return self.params.get(operand)
        return None if isinstance(operand, Value | tuple) else np.asarray(operand)

    def with_known_inputs(self) -> Call:
        """Return the same with the numbers of all inputs, which must be known."""
        numbers = [self.known(i, f"input {i}") for i in range(len(self.inputs)) if self.has(i)]
        return replace(self, inputs=tuple(numbers))

    def attribute(self, name: str, default: T) -> T:
        """Return an attribute, of the kind of its default."""
        found: T = self.node.attributes.get(name, default)
        return default if found is None else found

    def refuse_given(self, inputs: Mapping[int, str], attributes: Sequence[str]) -> None:
        """Raise an error if inputs, or attributes that are not 0, are there: none is supported."""
        given = [name for i, name in inputs.items() if self.has(i)]
        given += [name for name in attributes if self.attribute(name, 0)]
        if given:
            self.refuse(f"not supported: {', '.join(given)}")

    def ints(self, name: str) -> tuple[int, ...] | None:
        """Return an attribute of whole numbers; None where it is not there."""
        return self.attribute(name, None)

    def ints_of(self, name: str, since: int) -> tuple[int, ...] | None:
        """Return whole numbers that are an attribute, and the second input from an opset on."""
        if self.opset < since:
            return self.ints(name)
        return self.whole(1, name) if self.has(1) else None

    def whole(self, index: int, name: str) -> tuple[int, ...]:
        """Return the known whole numbers of an input."""
        return tuple([int(n) for n in self.known(index, name).reshape(-1)])

    def apply(self, op: Operator, *inputs: Value) -> Value:
        """Apply an operator of one result; of constants, the result is one."""
        return self.several(op, *inputs)[0]

    def several(self, op: Operator, *inputs: Value) -> Sequence[Value]:
        """Apply an operator of several results."""
        node = Node(op, inputs, self.node.label)
        constants = [each for each in inputs if isinstance(each, Constant)]
        if len(constants) < len(inputs):
            return node.outputs
        return [folded(node, constants, i) for i in range(len(node.outputs))]

    def number(self, value: float, like: Value) -> Constant:
        """Return a constant without dimensions, of the dtype of a value."""
        return Constant.of(np.asarray(value).astype(numpy_type(like.dtype)))

    def reshape(self, value: Value, shape: Sequence[int]) -> Value:
        """Return a value in another shape; shapes that it had in between are forgotten."""
        wanted = tuple([int(n) for n in shape])
        made = getattr(value, "node", None)
        if made is not None and isinstance(made.op, ops.Reshape):
            value = made.inputs[0]
        return value if value.shape == wanted else self.apply(ops.Reshape(wanted), value)

    def transpose(self, value: Value, axes: Sequence[int]) -> Value:
        """Return a value with permuted axes."""
        order = tuple(axes)
        return (
            value if order == tuple(range(len(order))) else self.apply(ops.Transpose(order), value)
        )

    def binary(self, op: Callable[[], Operator], a: Value, b: Value | float) -> Value:
        """Combine two values, or a value and a number."""
        return self.apply(op(), a, b if isinstance(b, Value) else self.number(b, a))

    def cast(self, value: Value, dtype: str) -> Value:
        """Return a value in another dtype."""
        return value if value.dtype == dtype else self.apply(ops.Cast(dtype), value)

    def broadcast(self, value: Value, shape: Sequence[int]) -> Value:
        """Return a value repeated to a shape."""
        wanted = tuple(shape)
        return value if value.shape == wanted else self.apply(ops.BroadcastTo(wanted), value)

    def axis(self, axis: int, ndim: int) -> int:
        """Return an axis counted from the front."""
        if not -ndim <= axis < ndim:
            self.refuse(f"axis must be {-ndim} to {ndim - 1}, got {axis}")
        return axis % ndim

    def refuse(self, message: str) -> NoReturn:
        """Raise the error for this operator."""
        raise GraphError(f"{self.node.label}: {message}")


# Returns the results of an operator: one, or a list of several.
Converter = Callable[[Call], Operand]
