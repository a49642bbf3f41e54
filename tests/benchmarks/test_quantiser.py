"""The quantiser of the benchmarks: every layer of its graphs runs on bytes, near the floats."""

import numpy as np

from autotune.graph import Graph, TensorType, Variable, ops
from autotune.graph.passes import OWN, integer_layers
from benchmarks.networks.block_writers import Ours
from benchmarks.networks.quantiser import Steps, quantised


def test_layers_of_a_quantised_graph_are_layers_of_bytes_with_nearly_the_same_results():
    writer, x = Ours(0), Variable(TensorType((1, 4, 6, 6), "float32"), "x")
    y = writer.unary(writer.conv(x, 8, 3), "relu")
    graph = Graph.of(writer.mean(writer.add(writer.conv(y, 8), y)))
    data = np.random.default_rng(0).normal(size=x.shape).astype("float32")
    values = [x, *(node.outputs[0] for node in graph.nodes)]
    results = [data, *(Graph((x,), (value,)).run(data)[0] for value in values[1:])]
    # A sum with a bias, or behind it a ReLU, ends a layer.
    inner = [
        isinstance(reader.op, ops.BiasAdd | ops.Relu)
        for value in values
        for reader in graph.readers.get(value, ())[:1]
    ]
    steps = [
        None if ends_later else Steps.between(float(each.min()), float(each.max()), "uint8")
        for each, ends_later in zip(results, [*inner, False], strict=True)
    ]
    whole = quantised(graph, steps)
    found = integer_layers(OWN(whole), lambda node: True)
    assert sum(isinstance(node.op, ops.QuantisedConv2d) for node in found.nodes) == 2
    assert not any(isinstance(node.op, ops.Conv2d) for node in found.nodes)
    (want,), (got,) = graph.run(data), found.run(data)
    np.testing.assert_allclose(got, want, atol=0.03 * np.abs(want).max())


def test_steps_span_a_range_with_0_in_it():
    steps = Steps.between(0.5, 2.55, "uint8")
    assert (steps.zero, round(steps.scale, 6)) == (0, 0.01)
    assert Steps.between(-1.0, 1.55, "int8").zero == -28
