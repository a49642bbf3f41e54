"""TVM's ``relay.analysis``: questions about expressions."""

from __future__ import annotations

from autotune.graph import Variable, free_variables
from autotune.tvm.relay.function import flattened


def free_vars(expr: object) -> list[Variable]:
    """Return the variables of an expression, depth first, arguments from the left."""
    return list(free_variables(flattened(expr)))
