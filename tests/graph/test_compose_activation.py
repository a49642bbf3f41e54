"""GELU and SiLU are found in the arithmetic that importers write, and nothing else is."""

import math

import numpy as np
import pytest

from autotune.graph import Constant, Graph, TensorType, Variable, apply, ops
from autotune.graph.passes import OWN, RELAY_CUDA, compose

ROOT = math.sqrt(2)
X = Variable(TensorType((3, 8), "float64"), "x")
Y = Variable(TensorType((3, 8), "float64"), "y")


def number(value, like=X):
    return Constant.of(value, dtype=like.dtype)


def add(a, b):
    return apply(ops.Add(), a, b)


def times(a, b):
    return apply(ops.Multiply(), a, b)


def over(a, b):
    return apply(ops.Divide(), a, b)


def erf(x):
    return apply(ops.Erf(), x)


def shifted(x, by=1.0):
    """Return 1 + erf(x / sqrt(2))."""
    return add(erf(over(x, number(ROOT, x))), number(by, x))


def torch_gelu(x):
    """Return what exporters write of PyTorch's."""
    return times(times(x, shifted(x)), number(0.5, x))


def logistic(x, sign=-1.0):
    return add(number(1.0), apply(ops.Exp(), times(x, number(sign))))


def cube(x):
    return times(times(x, x), x)


def power(x, exponent):
    return apply(ops.Power(), x, number(exponent))


def by_tanh(x, inner):
    tanh = apply(ops.Tanh(), times(number(math.sqrt(2 / math.pi)), inner(x)))
    return times(times(number(0.5), x), add(number(1.0), tanh))


FORMS = {
    "GELU as ONNX has it": (lambda: torch_gelu(X), "nn.gelu"),
    "the half first": (
        lambda: times(times(number(0.5), X), add(number(1.0), erf(times(X, number(1 / ROOT))))),
        "nn.gelu"),
    "the half last": (lambda: over(times(shifted(X), X), number(2.0)), "nn.gelu"),
    "the half inside": (
        lambda: times(X, add(number(0.5), times(number(0.5), erf(over(X, number(ROOT)))))),
        "nn.gelu"),
    "the half around the sum": (lambda: times(X, times(shifted(X), number(0.5))), "nn.gelu"),
    "GPT-2's": (lambda: by_tanh(X, lambda x: add(x, times(number(0.044715), cube(x)))), "nn.gelu"),
    "by powers": (
        lambda: by_tanh(X, lambda x: add(x, times(number(0.044715), power(x, 3.0)))), "nn.gelu"),
    "factored out": (
        lambda: by_tanh(X, lambda x: times(x, add(
            number(1.0), times(times(number(0.044715), x), x)))), "nn.gelu"),
    "SiLU": (lambda: times(apply(ops.Sigmoid(), X), X), "nn.silu"),
    "SiLU as a quotient": (lambda: over(X, logistic(X)), "nn.silu"),
    "SiLU by a negative": (
        lambda: over(X, add(apply(ops.Exp(), apply(ops.Negative(), X)), number(1.0))), "nn.silu"),
}  # fmt: skip
OTHERS = {
    "another factor": lambda: times(torch_gelu(X), number(1.5)),
    "another root": lambda: times(times(X, number(0.5)), add(erf(X), number(1.0))),
    "another sum": lambda: times(times(X, number(0.5)), shifted(X, 2.0)),
    "of other data": lambda: times(times(Y, number(0.5)), shifted(X)),
    "a square more": lambda: times(times(times(X, X), number(0.5)), shifted(X)),
    "a root over it": lambda: times(
        times(X, number(0.5)), add(erf(over(number(ROOT), X)), number(1.0))),
    "a quotient by it": lambda: over(times(X, number(0.5)), shifted(X)),
    "another's sigmoid": lambda: times(apply(ops.Sigmoid(), X), Y),
    "another cube": lambda: by_tanh(X, lambda x: add(x, times(number(0.0447), cube(x)))),
    "a square": lambda: by_tanh(X, lambda x: add(x, times(number(0.044715), power(x, 2.0)))),
    "no cube": lambda: by_tanh(X, lambda x: x),
    "a cube of other data": lambda: by_tanh(X, lambda x: add(x, times(number(0.044715), cube(Y)))),
    "a power that grows": lambda: over(X, logistic(X, 1.0)),
    "two halves that differ": lambda: times(
        X, add(number(0.5), times(number(0.25), erf(over(X, number(ROOT)))))),
}  # fmt: skip


def composed(value, serves=lambda node: True):
    return compose(OWN(Graph.of(value)), serves)


def work_of(graph):
    return [node.op.name for node in graph.nodes]


def same(graph, other):
    x = np.random.default_rng(0).normal(size=(3, 8))
    arrays = [x + i for i, _ in enumerate(graph.inputs)]
    np.testing.assert_allclose(other.run(*arrays)[0], graph.run(*arrays)[0], 1e-12, 1e-12)


@pytest.mark.parametrize("name", FORMS)
def test_an_activation_becomes_one_operator_that_computes_the_same(name):
    make, expected = FORMS[name]
    value = make()
    found = composed(value)
    assert work_of(found) == [expected]
    same(Graph.of(value), found)


@pytest.mark.parametrize("name", OTHERS)
def test_what_is_neither_stays_arithmetic(name):
    value = OTHERS[name]()
    found = composed(value)
    assert not {"nn.silu"} & set(work_of(found))
    if name != "another factor":  # of which the GELU is a part
        assert "nn.gelu" not in work_of(found)
    same(Graph.of(value), found)


def test_what_is_activated_may_be_a_product_itself():
    inner = times(X, number(3.0))
    assert work_of(composed(torch_gelu(inner))) == ["multiply", "nn.gelu"]
    assert work_of(composed(torch_gelu(times(X, Y)))) == ["multiply", "nn.gelu"]


def test_factors_may_be_those_of_16_bit_floats():
    x = Variable(TensorType((3, 8), "float16"), "x")
    assert work_of(composed(torch_gelu(x))) == ["nn.gelu"]


def test_it_is_found_whether_a_template_computes_it_by_itself_or_not():
    assert work_of(composed(torch_gelu(X), serves=lambda node: False)) == ["nn.gelu"]


def test_passes_of_tvm_leave_it_as_it_is():
    assert "nn.gelu" not in work_of(RELAY_CUDA(Graph.of(torch_gelu(X))))
