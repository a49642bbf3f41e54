"""``relay.Var``: a variable that scripts ask for its name and its type in TVM's words."""

from __future__ import annotations

from autotune.errors import GraphError
from autotune.graph import TensorType, Variable
from autotune.utils.check import Check


class Var(Variable):
    """An input or a parameter of a network.

    Args:
        name_hint: its name.
        type_annotation: shape and dtype of its elements.

    Raises:
        GraphError: one of them is something else.
    """

    def __init__(self, name_hint: str, type_annotation: TensorType) -> None:
        check = Check(GraphError, "Var")
        check.kind("name_hint", name_hint, str, "a text")
        check.kind(
            "type_annotation", type_annotation, TensorType, "relay.TensorType(shape, dtype)"
        )
        super().__init__(type_annotation, name_hint)

    @property
    def name_hint(self) -> str:
        """Its name."""
        return self.name

    @property
    def type_annotation(self) -> TensorType:
        """Shape and dtype, as they were declared."""
        return self.type

    @property
    def checked_type(self) -> TensorType:
        """Shape and dtype: those that were declared."""
        return self.type


class OpenVar(Var):
    """A parameter whose shape follows from the first operator that takes it: ``relay.var("w")``.

    Args:
        name_hint: its name.
    """

    def __init__(self, name_hint: str) -> None:
        self.__dict__["name"] = name_hint
        self.__dict__["_known"] = None

    @property
    def type(self) -> TensorType:
        """Shape and dtype.

        Raises:
            GraphError: nothing says them yet.
        """
        known: TensorType | None = self.__dict__["_known"]
        if known is None:
            raise GraphError(
                f"var {self.name!r}: expected a shape, got none, and its use does not say it: "
                f"relay.var({self.name!r}, shape=(...)); weights of convolutions and nn.dense "
                "need channels and kernel_size, or units"
            )
        return known

    def settle(self, kind: TensorType) -> None:
        """Say shape and dtype, unless an operator has done so."""
        if self.__dict__["_known"] is None:
            self.__dict__["_known"] = kind


def settle(value: object, shape: tuple[int, ...], dtype: str) -> None:
    """Say what an operator expects of a parameter that has no shape yet."""
    if isinstance(value, OpenVar):
        value.settle(TensorType(shape, dtype))
