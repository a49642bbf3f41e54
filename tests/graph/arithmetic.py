"""Arithmetic as importers write it, and what passes make of it."""

import numpy as np

from autotune.graph import Constant, TensorType, Variable, apply, ops
from autotune.graph.passes import OWN, compose

RNG = np.random.default_rng(0)


EPSILON = 1e-3


def variable(*shape, name="x", dtype="float32"):
    return Variable(TensorType(shape, dtype), name)


def constant(*shape, dtype="float32"):
    return Constant.of(RNG.normal(size=shape), dtype=dtype)


def number(value, dtype="float32"):
    return Constant.of(value, dtype=dtype)


def mean(x, *axes):
    return apply(ops.Mean(axes or (-1,), True), x)


def add(a, b):
    return apply(ops.Add(), a, b)


def times(a, b):
    return apply(ops.Multiply(), a, b)


def over(a, b):
    return apply(ops.Divide(), a, b)


def square(x):
    return apply(ops.Power(), x, number(2))


def less_mean(x, *axes):
    return apply(ops.Subtract(), x, mean(x, *axes))


def root(x):
    return apply(ops.Sqrt(), add(x, number(EPSILON, x.dtype)))


def reshape(x, *shape):
    return apply(ops.Reshape(shape), x)


def normal(x, *axes):
    """Normalise as TVM writes it."""
    apart = less_mean(x, *axes)
    return over(apart, root(mean(times(apart, apart), *axes)))


MOVES = ("reshape", "transpose", "expand_dims")


def work_of(graph):
    return [node.op.name for node in graph.nodes if node.op.name not in MOVES]


def composed(graph, serves=lambda node: True):
    return compose(OWN(graph), serves)


def same(graph, other, tolerance=1e-9):
    arrays = [RNG.normal(size=each.shape) for each in graph.inputs]
    for got, want in zip(other.run(*arrays), graph.run(*arrays), strict=True):
        np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)
