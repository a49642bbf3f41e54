"""TVM's ``relay.op``: operators by name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from autotune.errors import GraphError
from autotune.graph.operator import OPERATORS
from autotune.tvm.relay import nn, operators
from autotune.utils.check import Check
from autotune.utils.names import did_you_mean

# Layers whose tasks are those of another: of images of one row, or with zeros between elements.
_TASKS_OF = {
    "nn.conv1d": "nn.conv2d",
    "nn.conv1d_transpose": "nn.conv2d_transpose",
    "nn.conv3d_transpose": "nn.conv3d",
}


@dataclass(frozen=True)
class Op:
    """An operator, as ``extract_from_program(ops=...)`` takes it.

    Attributes:
        name: such as ``nn.conv2d``.
    """

    name: str

    def __str__(self) -> str:
        return f"Op({self.name})"


def get(op_name: str) -> Op:
    """Return the operator of a name; of a layer that is computed as another one, that other.

    Raises:
        GraphError: there is none.
    """
    name = Check(GraphError, "relay.op.get").text("op_name", op_name, "nn.conv2d")
    name = _TASKS_OF.get(name, name)
    if name not in OPERATORS:
        raise GraphError(
            f"relay.op.get: there is no operator {name!r}{did_you_mean(name, OPERATORS)}"
        )
    return Op(name)


def name_of(operator: object) -> str:
    """Return the name of an operator that is given as such, by its function, or as a text."""
    if isinstance(operator, str):
        return operator
    for prefix, module in (("nn.", nn), ("", operators)):
        for name, function in vars(module).items():
            if function is operator and callable(operator):
                return prefix + name
    return str(getattr(operator, "name", operator))


if not TYPE_CHECKING:  # in TVM 0.6 functions of operators were here as well
    from autotune.tvm.relay.operators import *

    tensor = transform = reduce = operators
