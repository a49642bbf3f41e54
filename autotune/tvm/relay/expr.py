"""TVM's ``relay.expr``: the classes of expressions, and replacing their variables."""

from __future__ import annotations

from collections.abc import Mapping

from autotune.errors import GraphError
from autotune.graph import Constant, Graph, Value, Variable, free_variables
from autotune.graph import Value as Expr
from autotune.tvm.relay.function import Function, IRModule, Tuple, flattened, graph_of
from autotune.tvm.relay.operators import const, var
from autotune.tvm.relay.variable import Var
from autotune.utils.check import Check

__all__ = ["Constant", "Expr", "Function", "Tuple", "Var", "bind", "const", "var"]


def bind(expr: object, binds: Mapping[Variable, Value]) -> object:
    """Return an expression, or a function, with values in place of variables.

    Args:
        expr: the expression; of a function the replaced parameters are left out.
        binds: the values, by variable.

    Raises:
        GraphError: something else was given.
    """
    check = Check(GraphError, "bind")
    expected = "a dict of variables and expressions"
    check.kind("binds", binds, Mapping, expected)
    for variable, value in binds.items():
        if not isinstance(variable, Variable) or not isinstance(value, Value):
            check.refuse("binds", expected, binds)
    if isinstance(expr, Function):
        return IRModule.from_expr(graph_of(expr).substitute(binds))["main"]
    outputs = flattened(expr)
    found = Graph(free_variables(outputs), outputs).substitute(binds).outputs
    return found[0] if isinstance(expr, Value) else Tuple(found)
