"""Parts of models: what the wanted outputs need is read, and no more."""

import numpy as np
import pytest

from autotune.errors import GraphError
from autotune.importers import from_onnx

onnx = pytest.importorskip("onnx")
helper = onnx.helper

from tests.importers.onnx.models import FLOAT, model_of  # noqa: E402


def detector():
    """Return a model whose last operator is not supported, and whose limit is an input."""
    nodes = [
        helper.make_node("Relu", ["x"], ["boxes"]),
        helper.make_node("Strange", ["boxes", "limit"], ["y"], domain="my.own"),
    ]
    return model_of(nodes, {"x": (2, 3), "limit": ("n",)})


def test_a_model_ends_at_the_outputs_that_are_wanted_and_reads_no_more():
    network = from_onnx(detector(), outputs=["boxes"])
    assert network.output_names == ("boxes",)
    assert [each.name for each in network.graph.inputs] == ["x"]
    with pytest.raises(GraphError, match=r"my\.own\.Strange"):
        from_onnx(detector(), {"n": 1})


def test_shapes_and_values_of_inputs_that_are_not_read_may_be_given():
    for more in ({"shapes": {"limit": (1,)}}, {"shapes": {"n": 1}}, {"values": {"limit": [1]}}):
        network = from_onnx(detector(), outputs=["boxes"], **more)
        assert [each.name for each in network.graph.inputs] == ["x"]
    with pytest.raises(GraphError, match=r"inputs of the model \(x, limit, n\), got 'other'"):
        from_onnx(detector(), {"other": 1}, outputs=["boxes"])


def test_what_no_output_needs_is_not_read():
    nodes = [
        helper.make_node("Strange", ["x"], ["z"], domain="my.own"),
        helper.make_node("Relu", ["x"], ["y"]),
    ]
    network = from_onnx(model_of(nodes, {"x": (3,)}))
    assert len(network.graph.nodes) == 1


def test_values_that_only_a_branch_reads_are_needed():
    out = [helper.make_tensor_value_info("z", FLOAT, None)]
    branch = helper.make_graph([helper.make_node("Exp", ["inner"], ["z"])], "b", [], out)
    nodes = [
        helper.make_node("Neg", ["x"], ["inner"]),
        helper.make_node("If", ["yes"], ["y"], then_branch=branch, else_branch=branch),
    ]
    x = np.ones(2, "float32")
    model = model_of(nodes, {"x": (2,)}, weights={"yes": np.array(True)})
    np.testing.assert_allclose(from_onnx(model).graph.run(x)[0], np.exp(-x))
