"""Reductions of functions of elements as one kernel of a network."""

import numpy as np
import pytest

from autotune.graph import Graph, TensorType, Variable, apply, ops
from autotune.graph.fuse import partition
from autotune.network import compile_network
from autotune.network.choice import choose_untuned
from autotune.target import Target

EMULATED = Target("cuda -emulate")


def data(dtype="float16"):
    return Variable(TensorType((1, 7, 5, 64), dtype), "x")


def norm(x):
    return apply(ops.Sqrt(), apply(ops.Sum((1, 2), True), apply(ops.Multiply(), x, x)))


def any_infinite(x):
    return apply(ops.Max(), apply(ops.Cast("int32"), apply(ops.IsInf(), x)))


def wide_mean(x):
    wide = apply(ops.Cast("float32"), x)
    return apply(ops.Mean((3,)), apply(ops.Multiply(), wide, wide))


REDUCTIONS = {
    "norm": (norm, ("sum", 1, 35, 64, "float16", "(a * a)", "(sqrt(a))", "")),
    "any": (any_infinite, ("max", 1, 2240, 1, "float16",
                           "where(abs(a) > 3.4028234663852886e+38, 1, 0)", "", "int32")),
    "mean": (wide_mean, ("mean", 35, 64, 1, "float16", "(a * a)", "", "float32")),
    "after": (lambda x: apply(ops.Sigmoid(), apply(ops.Mean((1, 2)), x)),
              ("mean", 1, 35, 64, "float16", "", "(sigmoid(a))")),
    "relu": (lambda x: apply(ops.Relu(), apply(ops.Sum((3,)), x)),
             ("sum", 35, 64, 1, "float16", "", "relu(a)")),
}  # fmt: skip


@pytest.mark.parametrize("name", REDUCTIONS)
def test_a_reduction_of_functions_is_one_kernel(name):
    make, args = REDUCTIONS[name]
    x = data()
    (function,) = partition(Graph((x,), (make(x),)))
    choice = choose_untuned(function, EMULATED)
    assert (choice.workload.name, choice.workload.args) == ("reduce.cuda", args)


@pytest.mark.parametrize("name", ["norm", "any"])
def test_it_gives_the_numbers_of_the_operators(name):
    x = data()
    graph = Graph((x,), (REDUCTIONS[name][0](x),))
    numbers = np.random.default_rng(0).standard_normal(x.shape).astype("float16")
    numbers[0, 3, 2, 5] = np.inf
    (got,) = compile_network(graph, EMULATED).instance()(numbers)
    with np.errstate(invalid="ignore"):
        (want,) = graph.run(numbers.astype("float64"))
    np.testing.assert_allclose(got.numpy().astype("float64"), want, rtol=1e-3)


def test_what_reads_another_array_or_makes_narrower_numbers_is_left_to_a_rule():
    x, y = data(), Variable(data().type, "y")
    product = apply(ops.Sum((3,)), apply(ops.Multiply(), x, y))
    (function,) = partition(Graph((x, y), (product,)))
    assert choose_untuned(function, EMULATED).kind == "rule"
    wide = data("float32")
    narrow = apply(ops.Sum((3,)), apply(ops.Cast("float16"), wide))
    (function,) = partition(Graph((wide,), (narrow,)))
    assert choose_untuned(function, EMULATED).kind == "rule"
