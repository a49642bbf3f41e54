"""Mixed precision: layers in 16 bits, what would lose by it in 32, and results that are close."""

import numpy as np
import pytest

from autotune import tvm
from autotune.errors import GraphError
from autotune.graph import Graph, ops
from autotune.graph.passes import mixed_precision
from autotune.tvm import relay
from autotune.tvm.contrib import graph_executor
from tests.graph.networks import SMALL, drawn

UNITS = {"float16": 2.0**-11, "bfloat16": 2.0**-8}


def dtypes(graph, name):
    return {n.outputs[0].dtype for n in graph.nodes if n.op.name == name}


@pytest.mark.many_cases
@pytest.mark.parametrize("dtype", UNITS)
@pytest.mark.parametrize("name", SMALL)
def test_networks_in_mixed_precision_are_close(name, dtype):
    module, params = SMALL[name]()
    params = drawn(params)
    mixed = relay.transform.ToMixedPrecision(dtype)(module)
    exact, graph = module["main"].graph.bind(params), mixed["main"].graph.bind(params)
    inputs = [np.random.default_rng(0).uniform(size=v.shape).astype(v.dtype) for v in exact.inputs]
    wanted, found = exact.run(*inputs)[0], graph.run(*inputs, dtype=None)[0]
    # Ten layers round a few times each, weights and activations.
    assert np.abs(wanted - found.astype("float64")).max() < 8 * UNITS[dtype] * np.abs(wanted).max()
    # The same in float64 is the same function.
    np.testing.assert_allclose(graph.run(*inputs)[0], wanted, rtol=1e-9, atol=1e-9)
    for layer in ("nn.conv2d", "nn.conv3d", "nn.dense", "nn.relu"):
        used = dtypes(graph, layer)
        assert used <= {dtype}, (layer, used)
    assert dtypes(graph, "nn.softmax") <= {"float32"}
    assert [v.dtype for v in graph.inputs] == [v.dtype for v in exact.inputs]


def test_what_follows_an_operator_in_32_bits_stays_there_until_the_next_layer():
    x = relay.var("x", shape=(4, 8))
    w, v = relay.var("w", shape=(8, 8)), relay.var("v", shape=(8, 8))
    scores = relay.exp(relay.nn.dense(x, w))
    scaled = scores / relay.sum(scores, axis=1, keepdims=True)
    out = relay.nn.dense(relay.nn.relu(scaled) + x, v)
    graph = mixed_precision()(Graph.of(out))
    assert dtypes(graph, "exp") == dtypes(graph, "sum") == dtypes(graph, "divide") == {"float32"}
    assert dtypes(graph, "nn.relu") == dtypes(graph, "add") == {"float32"}
    assert dtypes(graph, "nn.dense") == {"float16"}


def test_a_value_is_converted_once_and_casts_of_the_user_stay():
    x, w = relay.var("x", shape=(4, 8)), relay.var("w", shape=(8, 8))
    both = relay.nn.dense(x, w) + relay.nn.dense(relay.tanh(x), w)
    graph = mixed_precision()(Graph.of(relay.exp(both.astype("float32"))))
    casts = [node for node in graph.nodes if isinstance(node.op, ops.Cast)]
    assert len(casts) == 4  # x, w, tanh(x), and the user's


def test_masks_beyond_the_range_become_its_end():
    x, w = relay.var("x", shape=(1, 8)), relay.var("w", shape=(8, 8))
    mask = relay.const(np.array([0, -1e9, -np.inf, 1e30, 0, 0, 0, 0], "float32"))
    graph = mixed_precision()(Graph.of(relay.nn.dense(x, w) + mask))
    (constant,) = graph.constants
    assert constant.array[:4].tolist() == [0, -65504, -np.inf, 65504]


def test_outputs_keep_their_types_if_asked():
    module, _ = SMALL["mlp"]()
    body = relay.nn.dense(relay.var("x", shape=(1, 8)), relay.var("w", shape=(8, 8)))
    name = "relay.ToMixedPrecision.keep_orig_output_dtype"
    convert = relay.transform.ToMixedPrecision("bfloat16")
    assert convert(body)["main"].graph.outputs[0].dtype == "bfloat16"
    with tvm.transform.PassContext(config={name: True}):
        assert convert(body)["main"].graph.outputs[0].dtype == "float32"
    with pytest.raises(GraphError, match="mixed_precision_type must be one of 'float16'"):
        relay.transform.ToMixedPrecision("int8")(module)
    with pytest.raises(GraphError, match="missing_op_mode must be a whole number from 0 to 2"):
        relay.transform.ToMixedPrecision("float16", 5)


@pytest.mark.parametrize("dtype", UNITS)
def test_a_network_in_mixed_precision_is_built(dtype):
    module, params = SMALL["mlp"]()
    params = drawn(params)
    sequence = tvm.transform.Sequential(
        [
            relay.transform.ConvertLayout({"nn.conv2d": ["NHWC", "default"]}),
            relay.transform.ToMixedPrecision(dtype),
            relay.transform.FoldConstant(),
            relay.transform.FastMath(),
        ]
    )
    library = relay.build(sequence(module), target="llvm", params=params)
    run = graph_executor.GraphModule(library["default"](tvm.cpu()))
    x = np.random.default_rng(0).uniform(size=module["main"].params[0].shape).astype("float32")
    run.set_input("data", x)
    run.run()
    wanted = module["main"].graph.bind(params).run(x)[0]
    np.testing.assert_allclose(run.get_output(0).numpy(), wanted, rtol=20 * UNITS[dtype])
