"""Work that grows as the network does, and networks deeper than Python's stack."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest

from autotune.graph import Constant, Graph, Node, TensorType, Value, Variable, apply, ops, verify
from autotune.graph.fuse import FusedFunction, joint_functions, partition
from autotune.graph.passes import (
    OWN,
    fold_affine,
    fold_constant,
    fold_scale_backward,
)
from autotune.network import compile_network, implementations
from autotune.network.compile import simplify_graph
from autotune.network.memory import plan_memory
from autotune.target import Target
from tests.graph.work import growth

DEEP = 2 * sys.getrecursionlimit()
# Of work for four times the size; 4 if it is linear.
MOST = 4.6


def image() -> Variable:
    return Variable(TensorType((1, 8, 4, 4)), "x")


def numbers(*shape: int) -> Constant:
    return Constant.of(np.full(shape, 0.5, "float32"))


def convolved(x: Value) -> Value:
    return apply(ops.Conv2d(), x, numbers(8, 8, 1, 1))


def sums(count: int) -> Graph:
    """A convolution, and sums with vectors behind it."""
    x = convolved(image())
    for _ in range(count):
        x = apply(ops.Add(), x, numbers(8, 1, 1))
    return Graph.of(x)


def activated_sums(count: int) -> Graph:
    """A convolution, sums with a ReLU before each, and a scale behind all of them."""
    x = convolved(image())
    for _ in range(count):
        x = apply(ops.Add(), apply(ops.Relu(), x), numbers(8, 1, 1))
    return Graph.of(apply(ops.Multiply(), x, numbers(8, 1, 1)))


def sum_of_inputs(count: int) -> Graph:
    inputs = [Variable(TensorType((8,)), f"x{i}") for i in range(count)]
    total: Value = inputs[0]
    for each in inputs[1:]:
        total = apply(ops.Add(), total, each)
    return Graph(tuple(inputs), (total,))


def mirrored(count: int) -> Graph:
    """A chain whose last node reads the first, the last but one the second, and so on."""
    x: Value = image()
    made = [x := apply(ops.Tanh(), x) for _ in range(count)]
    for each in reversed(made):
        x = apply(ops.Add(), x, each)
    return Graph.of(x)


def reshaped(count: int) -> Graph:
    """A product, and sums with vectors that each see it in another shape."""
    x = apply(ops.Dense(), Variable(TensorType((4, 8)), "x"), numbers(8, 8))
    for i in range(count):
        x = apply(ops.Reshape((2, 2, 8) if i % 2 == 0 else (4, 8)), x)
        x = apply(ops.Add(), apply(ops.Exp(), x), numbers(8))
    return Graph.of(x)


def softmaxes(count: int) -> Graph:
    x: Value = Variable(TensorType((4, 8)), "x")
    for _ in range(count):
        x = apply(ops.Dense(), apply(ops.Softmax(-1), x), numbers(8, 8))
    return Graph.of(x)


NETWORKS = [sums, activated_sums, sum_of_inputs, mirrored, reshaped, softmaxes]


@pytest.mark.many_cases
@pytest.mark.parametrize("network", NETWORKS)
def test_work_of_passes_grows_as_the_network(network: Callable[[int], Graph]):
    assert growth(lambda size: partial(OWN, network(size)), 100) < MOST


@pytest.mark.many_cases
@pytest.mark.parametrize("network", NETWORKS)
def test_work_of_fusion_grows_as_the_network(network: Callable[[int], Graph]):
    def fused(graph: Graph) -> None:
        joint_functions(graph, partition(graph, max_depth=8))

    assert growth(lambda size: partial(fused, network(size)), 100) < MOST


@pytest.mark.parametrize("network", [reshaped, softmaxes])
def test_work_of_a_memory_plan_grows_as_the_network(network: Callable[[int], Graph]):
    def planned(size: int) -> Callable[[], object]:
        graph = network(size)
        functions = partition(graph)
        offered = [each.inputs for each in functions]
        return partial(plan_memory, functions, (*graph.inputs, *graph.outputs), offered)

    assert growth(planned, 100) < MOST


class Compared(Variable):
    """A variable that counts how often it is compared with another."""

    count = 0

    def __eq__(self, other: object) -> bool:
        type(self).count += 1
        return self is other

    __hash__ = object.__hash__


def test_inputs_are_found_without_a_search():
    inputs = [Compared(TensorType((8,)), f"x{i}") for i in range(200)]
    total: Value = inputs[0]
    for each in inputs[1:]:
        total = apply(ops.Add(), total, each)
    graph = Graph(tuple(inputs), (total,))
    Compared.count = 0
    graph.rewrite(lambda node, given: None)
    verify(graph)
    assert Compared.count < 10 * len(inputs)


def test_types_are_inferred_only_where_those_of_inputs_change():
    class Counted(ops.Tanh):
        count = 0

        def infer(self, *inputs: TensorType) -> TensorType:
            type(self).count += 1
            return super().infer(*inputs)

    x = Variable(TensorType((2, 8)), "x")
    graph = Graph.of(apply(Counted(), apply(ops.Add(), x, x)))
    other = Variable(TensorType((2, 8)), "y")
    Counted.count = 0
    assert graph.substitute({x: other}).outputs[0].type == x.type
    assert Counted.count == 0
    assert graph.substitute({x: Variable(TensorType((3, 8)), "z")}).outputs[0].shape == (3, 8)
    assert Counted.count == 1


def test_a_node_on_its_own_inputs_is_itself():
    x = image()
    node = Node(ops.Tanh(), (x,), "here")
    assert node.on((x,)) is node
    moved = node.on((convolved(x),))
    assert (moved.op, moved.origin, moved.output.type) == (node.op, "here", node.output.type)


def test_constants_may_be_folded_from_more_than_the_stack_holds():
    value: Value = Constant.of(np.float32(1))
    for _ in range(DEEP):
        value = apply(ops.Negative(), value)
    graph = OWN(Graph.of(apply(ops.Add(), Variable(TensorType((4,)), "x"), value)))
    (result,) = graph.run(np.zeros(4))
    np.testing.assert_array_equal(result, np.ones(4))


def test_a_scale_passes_more_nodes_than_the_stack_holds():
    graph = activated_sums(DEEP)
    folded = fold_constant(fold_scale_backward(graph))
    assert "multiply" not in [node.op.name for node in folded.nodes]
    x = np.linspace(-1, 1, 128).reshape(1, 8, 4, 4)
    np.testing.assert_allclose(folded.run(x)[0], graph.run(x)[0])


def test_sums_with_constants_are_one_however_many_there_are():
    graph = fold_affine(sums(DEEP))
    assert [node.op.name for node in graph.nodes] == ["nn.conv2d", "add"]
    x = np.zeros((1, 8, 4, 4))
    np.testing.assert_allclose(graph.run(x)[0], np.full(x.shape, DEEP / 2))


def test_a_network_deeper_than_the_stack_compiles_for_a_cpu():
    x: Value = Variable(TensorType((2, 8)), "x")
    for _ in range(DEEP // 2):
        x = apply(ops.Negative(), apply(ops.Tanh(), x))
    graph = Graph.of(x)
    data = np.linspace(-1, 1, 16, dtype="float32").reshape(2, 8)
    (result,) = compile_network(graph, "c", jobs=2).instance()(data)
    np.testing.assert_allclose(result.numpy(), graph.run(data)[0], rtol=1e-4)  # DEEP roundings


def test_only_what_is_in_a_row_ends_a_function():
    """A function of as many operators side by side may be larger."""
    x = Variable(TensorType((8,)), "x")
    parts: list[Value] = [apply(ops.Power(), x, Constant.of(np.float32(i))) for i in range(100)]
    while len(parts) > 1:
        rest = parts[-1:] if len(parts) % 2 else []
        parts = [apply(ops.Add(), *pair) for pair in zip(*[iter(parts)] * 2, strict=False)] + rest
    assert len(partition(Graph.of(*parts), max_depth=1000)) == 1


def test_templates_are_asked_once_for_layers_that_are_the_same(monkeypatch: pytest.MonkeyPatch):
    def norms(count: int) -> Graph:
        x: Value = Variable(TensorType((4, 8)), "x")
        for _ in range(count):
            x = apply(ops.LayerNorm(), apply(ops.Dense(), x, numbers(8, 8)), *[numbers(8)] * 2)
        return Graph.of(x)

    asked: list[Node] = []
    offers_of = implementations.offers_of

    def counted(function: FusedFunction, target: Target) -> list[implementations.FunctionOffer]:
        asked.extend(function.nodes)
        return offers_of(function, target)

    monkeypatch.setattr(implementations, "offers_of", counted)
    counts = []
    for count in (2, 6):
        asked.clear()
        simpler = simplify_graph(norms(count), Target("cuda -arch=sm_90"))
        counts.append(len(asked))
        assert [node.op.name for node in simpler.nodes].count("nn.layer_norm") == count
    assert counts[0] == counts[1] > 0
