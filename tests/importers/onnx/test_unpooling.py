"""Places of maxima in ONNX, elements that are put there, and diagonals of products."""

import numpy as np
import pytest

pytest.importorskip("onnx")

from onnx import helper

from autotune.errors import GraphError
from autotune.importers import from_onnx
from autotune.network import compile_network

X = np.random.default_rng(0).permutation(2 * 3 * 6 * 5).reshape(2, 3, 6, 5).astype("float32")


def model(nodes, inputs, outputs):
    made = [helper.make_tensor_value_info(name, kind, shape) for name, kind, shape in inputs]
    results = [helper.make_tensor_value_info(name, kind, None) for name, kind in outputs]
    return helper.make_model(helper.make_graph(nodes, "model", made, results))


def test_places_of_maxima_are_indices_of_all_elements_and_lead_back():
    window = {"kernel_shape": [3, 2], "strides": [2, 2]}
    moved = {"pads": [1, 0, 1, 1], "dilations": [2, 1], "strides": [1, 2], "kernel_shape": [2, 3]}
    nodes = [
        helper.make_node("MaxPool", ["x"], ["y", "at"], **window),
        helper.make_node("MaxPool", ["x"], ["z", "there"], **moved),
        helper.make_node("MaxUnpool", ["y", "at"], ["back"], kernel_shape=[2, 2], strides=[2, 2]),
    ]
    outputs = [("y", 1), ("at", 7), ("z", 1), ("there", 7), ("back", 1)]
    network = from_onnx(model(nodes, [("x", 1, X.shape)], outputs))
    compiled = [each.numpy() for each in compile_network(network.graph, "c").instance()(X)]
    for y, at, z, there, back in (network.graph.run(X, dtype=None), compiled):
        assert at.dtype == there.dtype == np.int64
        np.testing.assert_array_equal(X.reshape(-1)[at], y)
        np.testing.assert_array_equal(X.reshape(-1)[there], z)
        assert back.shape == (2, 3, 4, 4)
        assert {*back[back != 0]} <= {*y.reshape(-1)}


def test_places_of_maxima_are_inside_where_all_is_the_least_number():
    node = helper.make_node("MaxPool", ["x"], ["y", "at"], kernel_shape=[2], pads=[1, 1])
    x = np.array([[[0, 0, 3], [0, 0, 0]]], "uint8")
    network = from_onnx(model([node], [("x", 2, x.shape)], [("y", 2), ("at", 7)]))
    np.testing.assert_array_equal(network.graph.run(x)[1], [[[0, 0, 2, 2], [3, 3, 4, 5]]])


def test_equal_letters_of_a_term_are_a_diagonal():
    node = helper.make_node("Einsum", ["a", "b"], ["y"], equation="iji,ik->jk")
    a, b = X[0, :, :3, :3].copy(), X[1, 0, :3, :4].copy()
    network = from_onnx(model([node], [("a", 1, a.shape), ("b", 1, b.shape)], [("y", 1)]))
    (got,) = network.graph.run(a, b)
    np.testing.assert_allclose(got, np.einsum("iji,ik->jk", a, b), rtol=1e-5)
    with pytest.raises(GraphError, match="must have equal extents"):
        from_onnx(model([node], [("a", 1, (3, 3, 2)), ("b", 1, b.shape)], [("y", 1)]))
