"""Chains of elementwise operators, and transposes between reshapes, by one template each."""

import numpy as np
import pytest
from autotune.templates.layers import chains

from autotune.graph import Constant, Graph, TensorType, Variable, apply, ops
from autotune.graph.fuse import partition
from autotune.network import compile_network
from autotune.network.choice import choose_untuned
from autotune.network.plan import plan_network
from autotune.target import Target

RNG = np.random.default_rng(0)
SHAPE = (3, 20, 24)


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(chains, "MANY", 1)
    monkeypatch.setattr("autotune.templates.layers.elementwise.MANY", 1)


def variable(*shape, name="x", dtype="float32"):
    return Variable(TensorType(shape or SHAPE, dtype), name)


def number(value, dtype="float32"):
    return Constant.of(value, dtype=dtype)


def binary(op, a, b):
    return apply(op, a, b)


def scaled_and_masked(dtype="float32"):
    x, mask = variable(dtype=dtype), Constant.of(RNG.normal(size=(1, 20, 24)), dtype=dtype)
    return binary(ops.Add(), binary(ops.Multiply(), x, number(0.125, dtype)), mask)


def several_times():
    x, y = variable(), variable(24, name="y")
    square = binary(ops.Multiply(), x, x)
    wave = apply(ops.Sin(), binary(ops.Subtract(), y, square))
    return binary(ops.Maximum(), apply(ops.Clip(-0.5, 0.5), wave), apply(ops.Negative(), square))


def chosen():
    x, y = variable(), variable(name="y")
    return apply(ops.Relu(), apply(ops.Where(), x, apply(ops.Gelu("tanh"), x), y))


def seen_in_other_shapes():
    """A vector is scaled as a row and as itself, and the sum is seen as images."""
    x, row, one = variable(60, 24), variable(1, 24, name="row"), variable(1, 1, name="one")
    below = apply(ops.Reshape(()), binary(ops.Add(), one, number(0.5)))
    vector = apply(ops.Reshape((24,)), binary(ops.Multiply(), row, below))
    sums = binary(ops.Add(), binary(ops.Multiply(), x, vector), row)
    return apply(ops.Relu(), apply(ops.Reshape((3, 20, 24)), sums))


CHAINS = {
    "seen in other shapes": seen_in_other_shapes,
    "scaled and masked": scaled_and_masked,
    "of 16-bit floats": lambda: scaled_and_masked("float16"),
    "values that are read several times": several_times,
    "a choice": chosen,
    "one operator and a number": lambda: binary(ops.Divide(), variable(), number(3.0)),
}


def run(graph, target="cuda -emulate"):
    """Return which templates a network runs, and how far it is from numpy."""
    network = compile_network(graph, target, jobs=1)
    arrays = [RNG.normal(size=v.shape).astype(v.dtype) for v in graph.inputs]
    (got,) = network.instance()(*arrays)
    (want,) = graph.run(*(x.astype("float64") for x in arrays))
    error = np.abs(got.numpy().astype("float64") - want).max()
    return [unit.choice.provenance.split()[0] for unit in network.plan.kernels], error


@pytest.mark.parametrize("name", CHAINS)
def test_a_chain_is_one_expression(name):
    templates, error = run(Graph.of(CHAINS[name]()))
    assert templates == ["elementwise.cuda"]
    assert error < (1e-2 if "16-bit" in name else 1e-5)


@pytest.mark.parametrize("name", [name for name in CHAINS if "16-bit" not in name])
def test_a_cpu_computes_a_chain_as_one_expression(name):
    templates, error = run(Graph.of(CHAINS[name]()), "c")
    assert templates == ["elementwise.cpu"]
    assert error < 1e-5


def test_an_expression_on_a_cpu_overwrites_what_nobody_reads_any_more():
    x = variable()
    middle = apply(ops.Softmax(), apply(ops.Exp(), apply(ops.Softmax(), x)))
    graph, target = Graph.of(apply(ops.Softmax(), middle)), Target("c")
    plan = plan_network(graph, opt_level=0, target=target, choose=choose_untuned)
    assert "elementwise.cpu" in [unit.choice.provenance.split()[0] for unit in plan.kernels]
    assert [result.type for result in plan.memory.aliases] == [x.type]


def test_a_transpose_between_reshapes_is_one_of_what_it_sees():
    seen = apply(ops.Reshape((5, 12, 24)), variable())
    graph = Graph.of(apply(ops.Reshape((60, 24)), apply(ops.Transpose((1, 0, 2)), seen)))
    assert run(graph) == (["transpose.cuda"], 0.0)


def longest():
    x = variable()
    for _ in range(12):  # each doubles the text
        x = binary(ops.Add(), apply(ops.Exp(), x), apply(ops.Sin(), x))
    return x


DECLINED = {
    "of two types": lambda: binary(ops.Add(), apply(ops.Cast("float32"), variable(dtype="int32")),
                                   variable(name="y")),
    "with an operator that has no expression": lambda: binary(
        ops.Add(), apply(ops.Cast("float16"), variable()), variable(name="y", dtype="float16")),
    "with infinity": lambda: binary(ops.Minimum(), variable(), number(np.inf)),
    "of whole numbers": lambda: binary(
        ops.Add(), variable(dtype="int32"), number(3, "int32")),
    "with a bias of an axis within": lambda: apply(
        ops.Relu(), apply(ops.BiasAdd(1), variable(), variable(20, name="b"))),
    "whose text would be long": longest,
    "a reshape alone": lambda: apply(ops.Reshape((60, 24)), variable()),
    "a transpose that moves nothing": lambda: apply(ops.Reshape((60, 24)), apply(
        ops.Transpose((0, 1, 2)), variable())),
    "two transposes": lambda: apply(ops.Transpose((1, 0)), apply(ops.Reshape((60, 24)), apply(
        ops.Transpose((1, 0, 2)), variable()))),
}  # fmt: skip


@pytest.mark.parametrize("name", DECLINED)
def test_others_are_declined(name):
    for function in partition(Graph.of(DECLINED[name]()), 3):
        assert chains.chain("cuda", function) is None
        assert all(chains.transpose(kind, function) is None for kind in ("cuda", "cpu"))


def test_small_ones_are_left_to_the_rule(monkeypatch):
    monkeypatch.setattr(chains, "MANY", 2**12)
    assert run(Graph.of(scaled_and_masked()))[0] == ["by"]


def test_what_the_template_of_a_layer_leaves_is_a_chain_of_its_own():
    x, y = variable(1, 64, 512), variable(1, 96, 512, name="y")
    mask = Constant.of(RNG.normal(size=(1, 64, 96)), dtype="float32")
    product = binary(ops.Multiply(), apply(ops.BatchMatmul(), x, y), number(0.25))
    templates, error = run(Graph.of(binary(ops.Add(), product, mask)))
    assert templates == ["gemm.cuda", "elementwise.cuda"]
    assert error < 1e-4
