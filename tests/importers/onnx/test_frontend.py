"""TVM's interface: what scripts do with the results of `relay.frontend.from_onnx`."""

import numpy as np
import pytest

from autotune import tvm
from autotune.errors import GraphError
from autotune.tvm import relay
from autotune.tvm.contrib import graph_executor

onnx = pytest.importorskip("onnx")
helper = onnx.helper
WEIGHT = np.random.default_rng(0).normal(size=(4, 3, 3, 3)).astype("float32")


@pytest.fixture
def model():
    nodes = [
        helper.make_node("Conv", ["data.1", "w"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("GlobalAveragePool", ["r"], ["y"]),
    ]
    data = helper.make_tensor_value_info("data.1", 1, ["n", 3, 8, 8])
    out = helper.make_tensor_value_info("y", 1, ["n", 4, 1, 1])
    weights = [onnx.numpy_helper.from_array(WEIGHT, "w")]
    return helper.make_model(helper.make_graph(nodes, "net", [data], [out], weights))


def run(module, params, given):
    library = relay.build(module, target="c", params=params)
    net = graph_executor.GraphModule(library["default"](tvm.cpu()))
    net.set_input("data.1", given)
    net.run()
    return net.get_output(0).numpy()


@pytest.mark.parametrize("freeze", [True, False])
def test_a_script_builds_and_runs_a_model(model, freeze):
    options = {"dtype": "float32", "opset": 17, "freeze_params": freeze}
    module, params = relay.frontend.from_onnx(model, {"data.1": (1, 3, 8, 8)}, **options)
    assert sorted(params) == ([] if freeze else ["w"])
    given = np.random.default_rng(1).normal(size=(1, 3, 8, 8)).astype("float32")
    (expected,) = module["main"].graph.bind(params).run(given)
    np.testing.assert_allclose(run(module, params, given), expected, rtol=1e-4, atol=1e-5)


def test_tasks_are_extracted_from_a_model(model):
    module, params = relay.frontend.from_onnx(model, shape={"data.1": (1, 3, 8, 8)})
    tasks, weights = tvm.auto_scheduler.extract_tasks(module["main"], params, "llvm")
    assert any("conv2d" in task.desc for task in tasks)
    assert len(tasks) == len(weights)


def test_inputs_whose_shape_is_not_given_are_named(model):
    with pytest.raises(GraphError, match=r"data\.1: \[n, 3, 8, 8\]"):
        relay.frontend.from_onnx(model)


def test_renamed_nodes_are_not_written(model):
    with pytest.raises(GraphError, match="export_node_renamed_model_path is not supported"):
        relay.frontend.from_onnx(model, export_node_renamed_model_path="out")


@pytest.mark.parametrize("given", [True, False])
def test_an_optional_value_is_there_or_not(given):
    x = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [3])
    y = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [3])
    kind = helper.make_optional_type_proto(helper.make_tensor_type_proto(1, [3]))
    nodes = [
        helper.make_node("Optional", ["x"] if given else [], ["o"], type=kind),
        helper.make_node("OptionalHasElement", ["o"], ["has"]),
        helper.make_node("Cast", ["has"], ["number"], to=1),
        helper.make_node("Add", ["x", "number"], ["y"]),
    ]
    graph = helper.make_graph(nodes, "g", [x], [y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    module, _ = relay.frontend.from_onnx(model)
    array = np.arange(3, dtype="float32")
    np.testing.assert_array_equal(module["main"].graph.run(array)[0], array + given)
