"""Norms and cumulative sums of `relay`, with the arguments that TVM gives them."""

import numpy as np
import pytest

from autotune.errors import GraphError
from autotune.graph import Graph
from autotune.tvm import relay

RNG = np.random.default_rng(0)


def run(value):
    graph = Graph.of(value)
    arrays = [RNG.normal(size=each.shape).astype("float32") for each in graph.inputs]
    return arrays, graph.run(*arrays)[0]


def test_norms_of_channels_have_the_arguments_of_relay():
    data = relay.var("data", shape=(2, 6, 3, 5))
    gamma, beta = (relay.var(name, shape=(6,)) for name in ("gamma", "beta"))
    (x, g, b), groups = run(relay.nn.group_norm(data, gamma, beta, 2, epsilon=0.1))
    rows = x.reshape(2, 2, -1)
    normal = (rows - rows.mean(2, keepdims=True)) / np.sqrt(rows.var(2, keepdims=True) + 0.1)
    want = normal.reshape(x.shape) * g[:, None, None] + b[:, None, None]
    np.testing.assert_allclose(groups, want, rtol=1e-4, atol=1e-5)
    (x, g, b), each = run(relay.nn.instance_norm(data, gamma, beta, scale=False))
    normal = (x - x.mean((2, 3), keepdims=True)) / np.sqrt(x.var((2, 3), keepdims=True) + 1e-5)
    np.testing.assert_allclose(each, normal + b[:, None, None], rtol=1e-4, atol=1e-5)
    with pytest.raises(GraphError, match="axis must not be 0, that of images"):
        relay.nn.instance_norm(data, gamma, beta, axis=0)


def test_channels_of_norms_may_be_the_last():
    data = relay.var("data", shape=(2, 3, 5, 6))
    gamma, beta = (relay.var(name, shape=(6,)) for name in ("gamma", "beta"))
    (x, g, b), groups = run(relay.nn.group_norm(data, gamma, beta, 2, axis=3))
    rows = x.transpose(0, 3, 1, 2).reshape(2, 2, -1)
    normal = (rows - rows.mean(2, keepdims=True)) / np.sqrt(rows.var(2, keepdims=True) + 1e-5)
    want = normal.reshape(2, 6, 3, 5).transpose(0, 2, 3, 1) * g + b
    np.testing.assert_allclose(groups, want, rtol=1e-4, atol=1e-5)
    (x, g, b), each = run(relay.nn.instance_norm(data, gamma, beta, axis=-1))
    normal = (x - x.mean((1, 2), keepdims=True)) / np.sqrt(x.var((1, 2), keepdims=True) + 1e-5)
    np.testing.assert_allclose(each, normal * g + b, rtol=1e-4, atol=1e-5)


def test_cumulative_sums_are_of_the_flat_data_or_along_an_axis():
    data = relay.var("data", shape=(2, 3))
    (x,), flat = run(relay.cumsum(data))
    np.testing.assert_allclose(flat, np.cumsum(x), rtol=1e-5)
    (x,), rows = run(relay.cumsum(data, axis=1))
    np.testing.assert_allclose(rows, np.cumsum(x, 1), rtol=1e-5)
    assert relay.cumsum(data, 0, "float64").dtype == "float64"
    (x,), later = run(relay.cumsum(data, axis=1, exclusive=True))
    np.testing.assert_allclose(later, np.cumsum(x, 1) - x, rtol=1e-5, atol=1e-6)
    _, none = run(relay.cumsum(relay.var("data", shape=(2, 1)), axis=1, exclusive=True))
    np.testing.assert_array_equal(none, np.zeros((2, 1)))
    with pytest.raises(GraphError, match="along must be a whole number of -2 to 1, got 2"):
        relay.cumsum(data, 2)


def test_cumulative_products_are_of_the_flat_data_or_along_an_axis():
    data = relay.var("data", shape=(2, 3))
    (x,), flat = run(relay.cumprod(data))
    np.testing.assert_allclose(flat, np.cumprod(x), rtol=1e-5)
    (x,), later = run(relay.cumprod(data, axis=1, exclusive=True))
    np.testing.assert_allclose(later[:, 1:], np.cumprod(x, 1)[:, :-1], rtol=1e-5)
    np.testing.assert_array_equal(later[:, 0], np.ones(2))
