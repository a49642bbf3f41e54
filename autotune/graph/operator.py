"""The interface of a network's operator: its attributes, and five methods."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import ClassVar, NoReturn

from autotune.errors import GraphError
from autotune.graph.types import Array, TensorType
from autotune.te.tensor import Tensor
from autotune.utils.check import shown


class Pattern(IntEnum):
    """The dependence of an operator's outputs on its inputs, which decides what may fuse with it.

    The order, and the numbers, are those of TVM's ``OpPatternKind``: of a path of operators the
    greatest pattern says what the whole path is.
    """

    ELEMWISE = 0
    BROADCAST = 1
    INJECTIVE = 2
    COMM_REDUCE = 3
    OUT_ELEMWISE_FUSABLE = 4
    TUPLE = 7
    OPAQUE = 8


# Name -> class of every operator, entered as the class is made.
OPERATORS: dict[str, type[Operator]] = {}

Types = TensorType | tuple[TensorType, ...]


@dataclass(frozen=True)
class Operator(ABC):
    """An operator with its attributes; two with equal attributes are equal.

    A subclass is a frozen dataclass whose fields are the attributes. It says
    `infer` (types of the results), `compute` (their definition as tensor expressions, by which
    kernels are made), `reference` (the same in numpy, in whatever precision the arrays have),
    `pattern` and `flop`.
    """

    name: ClassVar[str] = ""
    pattern: ClassVar[Pattern] = Pattern.OPAQUE

    def __init_subclass__(cls, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        if "name" in cls.__dict__:
            OPERATORS[cls.name] = cls

    @abstractmethod
    def infer(self, *inputs: TensorType) -> Types:
        """Return the types of the results.

        Raises:
            GraphError: the inputs do not fit the operator.
        """

    @abstractmethod
    def compute(self, *inputs: Tensor) -> Tensor | Sequence[Tensor]:
        """Return the result as a tensor expression; a list where there are several."""

    @abstractmethod
    def reference(self, *inputs: Array) -> Array | tuple[Array, ...]:
        """Return the result of numpy arrays; a tuple where there are several."""

    def flop(self, *types: TensorType) -> float:
        """Return the floating-point operations, given the types of inputs and results."""
        return float(types[-1].size) if self.pattern <= Pattern.BROADCAST else 0.0

    @property
    def has_compute(self) -> bool:
        """Whether `compute` can be called: a pass may have to replace the operator before."""
        return True

    def take(self, inputs: Sequence[TensorType], least: int, most: int | None = None) -> None:
        """Refuse another number of inputs."""
        most = least if most is None else most
        if not least <= len(inputs) <= most:
            number = str(least) if least == most else f"{least} to {most}"
            word = "input" if most == 1 else "inputs"
            raise GraphError(f"{self.name}: expected {number} {word}, got {len(inputs)}")

    def refuse(self, argument: str, expected: str, got: object) -> NoReturn:
        """Raise the error for an argument."""
        types = got if isinstance(got, tuple) else (got,)
        known = types and all(isinstance(each, TensorType) for each in types)
        value = ", ".join(map(str, types)) if known else shown(got)
        raise GraphError(f"{self.name}: {argument} must be {expected}, got {value}")

    def axis(self, axis: int, ndim: int, name: str = "axis") -> int:
        """Return an axis counted from the front."""
        if isinstance(axis, bool) or not isinstance(axis, int) or not -ndim <= axis < ndim:
            self.refuse(name, f"a whole number of {-ndim} to {ndim - 1}", axis)
        return axis % ndim
