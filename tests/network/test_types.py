"""A kernel writes the type that memory is planned for, or the network is refused."""

import numpy as np
import pytest

from autotune.errors import GraphError
from autotune.graph import OPERATORS, Graph, Node, TensorType, Variable, ops
from autotune.network import compile_network, extract_tasks

OTHERWISE = [
    (OPERATORS["exp"], "int8", 1),
    (OPERATORS["sigmoid"], "int64", 1),
    (ops.Softmax, "uint8", 1),
    (OPERATORS["add"], "bool", 2),
    (OPERATORS["power"], "int8", 2),
    (ops.Dense, "bool", 2),
]


def applied(kind, dtype, count):
    inputs = tuple(Variable(TensorType((4, 4), dtype), f"x{i}") for i in range(count))
    return Graph.of(Node(kind(), inputs, "model.py:1").output)


@pytest.mark.parametrize(("kind", "dtype", "count"), OTHERWISE, ids=lambda x: str(x))
def test_an_operator_whose_expression_has_another_dtype_is_refused_with_its_place(
    kind, dtype, count
):
    graph = applied(kind, dtype, count)
    with pytest.raises(GraphError, match=r"model\.py:1: .* has no kernel that gives .*cast"):
        compile_network(graph, "c")
    with pytest.raises(GraphError, match="has no kernel that gives"):
        extract_tasks(graph, None, "llvm", include_simple_tasks=True)


@pytest.mark.parametrize("dtype", ["float16", "float64", "int8", "uint8", "int32", "int64"])
def test_arithmetic_is_in_the_dtype_of_its_inputs(dtype):
    graph = applied(OPERATORS["add"], dtype, 2)
    x = np.arange(16).reshape(4, 4).astype(dtype)
    (got,) = compile_network(graph, "c").instance()(x, x)
    assert got.dtype == dtype
    np.testing.assert_array_equal(got.numpy(), x + x)
