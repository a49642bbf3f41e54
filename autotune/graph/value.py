"""Values of a network and the nodes that compute them: a directed graph without cycles."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import InitVar, dataclass, field
from functools import cached_property
from typing import Any

import ml_dtypes  # noqa: F401 - with which numpy knows the name bfloat16
import numpy as np
import numpy.typing as npt

from autotune.errors import ExpressionError, GraphError
from autotune.graph.operator import OPERATORS, Operator
from autotune.graph.types import Array, TensorType
from autotune.ir import check_dtype
from autotune.te.location import user_line


def _both(name: str) -> tuple[Callable[..., Value], Callable[..., Value]]:
    """Return the methods of Python's operator, and of it with its operands swapped."""

    def method(self: Value, other: object) -> Any:
        return _combined(name, self, other, swapped=False)

    def reflected(self: Value, other: object) -> Any:
        return _combined(name, self, other, swapped=True)

    for each in (method, reflected):
        each.__doc__ = f"Combine both by ``{name}``; a number becomes a constant of our type."
    return method, reflected


@dataclass(frozen=True, eq=False)
class Value:
    """A tensor of the graph; two are the same only if they are one object.

    Python's arithmetic and its comparisons apply operators: ``(a + b) * 2``.
    """

    type: TensorType

    __add__, __radd__ = _both("add")
    __sub__, __rsub__ = _both("subtract")
    __mul__, __rmul__ = _both("multiply")
    __truediv__, __rtruediv__ = _both("divide")
    __pow__, __rpow__ = _both("power")
    (__lt__, _), (__le__, _) = _both("less"), _both("less_equal")
    (__gt__, _), (__ge__, _) = _both("greater"), _both("greater_equal")
    __array_ufunc__ = None  # an array leaves ``array + value`` to us

    def __neg__(self) -> Value:
        """Change the sign of each element."""
        return apply(OPERATORS["negative"](), self)

    def astype(self, dtype: str) -> Value:
        """Convert each element."""
        cast: Callable[[str], Operator] = OPERATORS["cast"]
        return apply(cast(dtype), self)

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
    """A tensor whose values are known.

    They are computed on first use, so that passes can rewrite weights without cost.

    Attributes:
        make: returns the values, in the shape and dtype of the type.
        name: name of the parameter that it was; may be empty.
        node: what it was folded from: passes find quantised weights behind it.
    """

    make: Callable[[], Array] = field(repr=False)
    name: str = ""
    node: Node | None = field(default=None, repr=False)

    @staticmethod
    def of(array: npt.ArrayLike, name: str = "", dtype: str | None = None) -> Constant:
        """Make a constant of numbers that are there."""
        numbers = np.asarray(array, dtype)
        kind = TensorType(numbers.shape, check_dtype(numbers.dtype.name))
        return Constant(kind, lambda: numbers, name)

    @cached_property
    def array(self) -> Array:
        """The numbers; not to be written to."""
        for source in self._unread_sources():
            _ = source.array  # now, as they may be deeper than Python's stack
        numbers = np.asarray(self.make(), self.dtype).view()
        if numbers.shape != self.shape:
            raise GraphError(
                f"constant {self.name!r}: expected numbers of shape {self.shape}, got "
                f"{numbers.shape}"
            )
        numbers.flags.writeable = False
        result: Array = numbers
        return result

    def _unread_sources(self) -> Iterator[Constant]:
        """Yield the constants that it was folded from and whose numbers are not there yet.

        Each comes after its own sources.
        """
        stack = [(self, self._sources())]
        while stack:
            constant, left = stack[-1]
            unread = (each for each in left if "array" not in each.__dict__)
            source = next(unread, None)
            if source is not None:
                stack.append((source, source._sources()))
                continue
            stack.pop()
            if stack:
                yield constant

    def _sources(self) -> Iterator[Constant]:
        inputs = self.node.inputs if self.node is not None else ()
        return iter([value for value in inputs if isinstance(value, Constant)])

    @property
    def is_scalar(self) -> bool:
        """Whether it has no dimensions: then it is part of a kernel's text, not an argument."""
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
        types: of its results, where they are known; by default the operator infers them.
        outputs: its results.

    Raises:
        GraphError: the operator does not take such inputs.
    """

    op: Operator
    inputs: tuple[Value, ...]
    origin: str = ""
    types: InitVar[tuple[TensorType, ...] | None] = None
    outputs: tuple[Result, ...] = field(init=False, repr=False)

    def __post_init__(self, types: tuple[TensorType, ...] | None) -> None:
        results = self._inferred() if types is None else types
        outputs = tuple([Result(each, self, i) for i, each in enumerate(results)])
        object.__setattr__(self, "outputs", outputs)

    def _inferred(self) -> tuple[TensorType, ...]:
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
        return types if isinstance(types, tuple) else (types,)

    def on(self, inputs: tuple[Value, ...]) -> Node:
        """Return the same operator on other inputs: this node, where they are its own.

        Types of results are inferred anew only where those of inputs are others.
        """
        if all(a is b for a, b in zip(inputs, self.inputs, strict=True)):
            return self
        same = all(a.type == b.type for a, b in zip(inputs, self.inputs, strict=True))
        known = tuple([each.type for each in self.outputs]) if same else None
        return Node(self.op, inputs, self.origin, known)

    @property
    def output(self) -> Result:
        """The only result."""
        (single,) = self.outputs
        return single

    @property
    def flop(self) -> float:
        """Floating-point operations."""
        return self.op.flop(*[v.type for v in (*self.inputs, *self.outputs)])


_ORIGIN: ContextVar[str | None] = ContextVar("origin", default=None)


@contextmanager
def made_at(origin: str) -> Iterator[None]:
    """Let all operators that are applied inside ``with`` have an origin: a place in a model."""
    token = _ORIGIN.set(origin)
    try:
        yield
    finally:
        _ORIGIN.reset(token)


def apply(op: Operator, *inputs: Value, origin: str | None = None) -> Value:
    """Apply an operator of one result.

    ``origin`` is by default that of the enclosing `made_at`, or the line of the user's program.

    Raises:
        GraphError: the operator does not take such inputs; the message begins with the origin.
    """
    if origin is None:
        origin = _ORIGIN.get()
    return Node(op, inputs, user_line() if origin is None else origin).output


def _combined(name: str, value: Value, other: object, swapped: bool) -> Any:
    """Apply an operator of two operands, of which one may be a number or an array of numbers."""
    if not isinstance(other, Value):
        numbers = np.asarray(other)
        # Numpy does not know the kind of bfloat16.
        if numbers.dtype.kind not in "biuf" and numbers.dtype.name != "bfloat16":
            return NotImplemented
        if not isinstance(other, np.ndarray | np.generic):
            exact = numbers.astype(value.dtype)
            if numbers.dtype.kind == "f" and exact.dtype.kind in "iu":
                raise GraphError(f"{name}: {other!r} is no {value.dtype}; cast the tensor first")
            numbers = exact
        other = Constant.of(numbers)
    return apply(OPERATORS[name](), *((other, value) if swapped else (value, other)))
