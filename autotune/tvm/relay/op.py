"""TVM's ``relay.op``: operators by name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from autotune.errors import GraphError
from autotune.graph.operator import OPERATORS
from autotune.tvm.names import resolver
from autotune.utils.check import Check
from autotune.utils.names import did_you_mean


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
    """Return the operator of a name.

    Raises:
        GraphError: there is none.
    """
    name = Check(GraphError, "relay.op.get").text("op_name", op_name, "nn.conv2d")
    if name not in OPERATORS:
        raise GraphError(
            f"relay.op.get: there is no operator {name!r}{did_you_mean(name, OPERATORS)}"
        )
    return Op(name)


if not TYPE_CHECKING:
    __getattr__ = resolver(__name__)
