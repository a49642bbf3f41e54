"""Operators as text for templates: what they mean, and numbers that text cannot hold."""

import math

import numpy as np
import pytest
from autotune.templates.elementwise import expression
from autotune.templates.elementwise.expression import CUDA, Expression

from autotune.graph import Constant, Graph, TensorType, Variable, apply, ops
from autotune.network import expressions
from autotune.network.expressions import function_of_one, text_of

X = Variable(TensorType((9,)), "x")
LARGEST = float(np.finfo("float32").max)


def number(value):
    return Constant.of(np.float32(value))


def text_made(out):
    return function_of_one(Graph.of(out).nodes, X)


@pytest.mark.parametrize("made", [
    lambda: (X - number(-2)) * (number(1) - X),
    lambda: number(-3) / (X / number(1e-6)),
    lambda: apply(ops.Power(), apply(ops.Negative(), X), number(2)),
    lambda: apply(ops.Negative(), apply(ops.Power(), X, number(2))),
    lambda: apply(ops.LeakyRelu(-0.3), X + X) * apply(ops.Abs(), X),
    lambda: apply(ops.Clip(-LARGEST, 1.0), X),
])  # fmt: skip
def test_an_expression_is_what_the_operators_compute(made):
    graph, x = Graph.of(made()), np.linspace(-2, 2.5, 9)
    expression = Expression(text_made(made()), ("a",))
    assert "x(0)" in expression.text_in(CUDA)
    np.testing.assert_allclose(expression.numpy({"a": x}), graph.run(x)[0], rtol=1e-5)


@pytest.mark.parametrize("limits", [(math.inf, math.inf), (-1.0, -math.inf), (math.nan, 1.0)])
def test_limits_that_are_not_finite_are_no_expression(limits):
    assert text_of(ops.Clip(*limits)) is None
    assert text_made(apply(ops.Tanh(), apply(ops.Clip(*limits), X))) == ""


def test_constants_that_are_not_finite_are_no_expression():
    for value in (math.inf, -math.inf, math.nan):
        assert text_made(X + number(value)) == ""


def test_chains_deeper_than_templates_translate_are_no_expression():
    def chain(count):
        value = X
        for number in range(count):
            value = apply(ops.Tanh() if number % 2 else ops.Negative(), value)
        return text_made(value)

    Expression(chain(40), ("a",))
    assert chain(150) == ""


def test_templates_translate_as_many_levels_as_networks_write():
    assert expressions.DEEPEST <= expression.DEEPEST
