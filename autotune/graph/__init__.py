"""Networks as graphs of operators: their types and values, passes over them, and fusion.

A `Graph` has `Node` after `Node`, each of which applies an `Operator`: its type, its computation
in te and its reference in numpy are in `ops`. `passes` rewrite a graph, and `fuse` divides it into
the functions that become kernels.
"""

from autotune.graph import ops
from autotune.graph.graph import Graph, free_variables, run_values
from autotune.graph.operator import OPERATORS, Operator, Pattern
from autotune.graph.text import digest, equal, graph_text
from autotune.graph.types import Array, TensorType
from autotune.graph.value import Constant, Node, Result, Value, Variable, apply, made_at
from autotune.graph.verify import check_computable, raise_all, verify

__all__ = [
    "OPERATORS",
    "Array",
    "Constant",
    "Graph",
    "Node",
    "Operator",
    "Pattern",
    "Result",
    "TensorType",
    "Value",
    "Variable",
    "apply",
    "check_computable",
    "digest",
    "equal",
    "free_variables",
    "graph_text",
    "made_at",
    "ops",
    "raise_all",
    "run_values",
    "verify",
]
