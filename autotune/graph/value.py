"""Values of a network and the nodes that compute them: a directed graph without cycles."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt

from autotune.errors import ExpressionError, GraphError
from autotune.graph.operator import Operator
from autotune.graph.types import Array, TensorType
from autotune.ir import check_dtype
from autotune.te.location import user_line


@dataclass(frozen=True, eq=False)
class Value:
    """A tensor of the graph; two are the same only if they are one object."""

    type: TensorType

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents of all dimensions."""
        return self.type.shape

    @property
    def dtype(self) -> str:
        """Name of the type of an element."""
        return self.type.dtype


@dataclass(frozen=True, eq=False)
class Variable(Value):
    """A tensor that is given from outside: an input, or a parameter without its numbers yet."""

    name: str


@dataclass(frozen=True, eq=False)
class Constant(Value):
    """A tensor whose numbers are known.

    They are made when first asked for, so that passes may rewrite weights that nobody reads.

    Attributes:
        make: returns the numbers, in the shape and dtype of the type.
        name: of the parameter that it was; may be empty.
    """

    make: Callable[[], Array] = field(repr=False)
    name: str = ""

    @staticmethod
    def of(array: npt.ArrayLike, name: str = "", dtype: str | None = None) -> Constant:
        """Make a constant of numbers that are there."""
        numbers = np.asarray(array, dtype)
        kind = TensorType(numbers.shape, check_dtype(numbers.dtype.name))
        return Constant(kind, lambda: numbers, name)

    @cached_property
    def array(self) -> Array:
        """The numbers; not to be written to."""
        numbers = np.asarray(self.make(), self.dtype).view()
        if numbers.shape != self.shape:
            raise GraphError(
                f"constant {self.name!r}: expected numbers of shape {self.shape}, got "
                f"{numbers.shape}"
            )
        numbers.flags.writeable = False
        result: Array = numbers
        return result

    @property
    def is_scalar(self) -> bool:
        """Whether it has no dimension: it is written into kernels then, and is no argument."""
        return not self.shape


@dataclass(frozen=True, eq=False)
class Result(Value):
    """Output ``index`` of a node."""

    node: Node = field(repr=False)
    index: int = 0


@dataclass(frozen=True, eq=False)
class Node:
    """One application of an operator.

    Attributes:
        op: the operator with its attributes.
        inputs: what it is applied to.
        origin: where it was made, as ``file:line`` or the place in a model.
        outputs: its results.

    Raises:
        GraphError: the operator does not take such inputs.
    """

    op: Operator
    inputs: tuple[Value, ...]
    origin: str = ""
    outputs: tuple[Result, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        for i, value in enumerate(self.inputs):
            if not isinstance(value, Value):
                raise GraphError(
                    f"{self.origin or user_line()}: {self.op.name}: input {i} must be a value of "
                    f"a graph, got {value!r}"
                )
        try:
            types = self.op.infer(*[value.type for value in self.inputs])
        except (GraphError, ExpressionError) as error:
            raise GraphError(f"{self.origin or user_line()}: {error}") from None
        every = types if isinstance(types, tuple) else (types,)
        results = tuple([Result(each, self, i) for i, each in enumerate(every)])
        object.__setattr__(self, "outputs", results)

    @property
    def output(self) -> Result:
        """The only result."""
        (single,) = self.outputs
        return single

    @property
    def flop(self) -> float:
        """Floating-point operations."""
        return self.op.flop(*[v.type for v in (*self.inputs, *self.outputs)])


def apply(op: Operator, *inputs: Value, origin: str | None = None) -> Value:
    """Apply an operator of one result.

    ``origin`` is by default the line of the user's program.

    Raises:
        GraphError: the operator does not take such inputs; the message begins with the origin.
    """
    return Node(op, inputs, user_line() if origin is None else origin).output
