"""Makes quantised graphs of graphs of floats, as ONNX Runtime's static quantiser makes models.

Images, and results of layers with their bias and activation, of sums and of averages, are rounded
to steps between their least and greatest number on one input; weights have a scale for each
filter, and no zero point. What only moves numbers keeps their steps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from autotune.graph import Array, Constant, Graph, Node, Value, apply, ops
from autotune.network import compile_network
from autotune.target import Target

# What becomes part of the layer before it, and what changes no number.
_ENDS = (ops.BiasAdd, ops.Relu, ops.Clip)
_MOVES = (ops.MaxPool2d, ops.BatchFlatten)


@dataclass(frozen=True)
class Steps:
    """The steps of a value: their size, and the whole number of 0."""

    scale: float
    zero: int
    dtype: str

    @classmethod
    def between(cls, low: float, high: float, dtype: str) -> Steps:
        """Return steps that span a range, in which 0 is."""
        low, high, info = min(low, 0.0), max(high, 0.0), np.iinfo(dtype)
        scale = float(np.float32(max(high - low, 1e-6) / 255))
        return cls(scale, round(int(info.min) - low / scale), dtype)

    def rounded(self, value: Value) -> Value:
        """Return a value rounded to these steps."""
        scale, zero = Constant.of(np.float32(self.scale)), Constant.of(self._number())
        whole = apply(ops.Quantize(dtype=self.dtype), value, scale, zero)
        return apply(ops.Dequantize(), whole, scale, zero)

    def _number(self) -> Array:
        return np.asarray(self.zero, self.dtype)


def steps_of(
    graph: Graph, inputs: Mapping[str, Array], target: Target, dtype: str
) -> list[Steps | None]:
    """Return the steps of the inputs and of each node's result, None where it is not rounded.

    Args:
        graph: of floats, with known parameters.
        inputs: numbers by whose results the steps are chosen, by the names of inputs.
        target: where these results are computed.
        dtype: of the whole numbers, ``"int8"`` or ``"uint8"``.
    """
    points = [node.outputs[0] for node in graph.nodes if _is_rounded(graph, node)]
    every = Graph(graph.inputs, tuple(points))
    given = [inputs[each.name] for each in graph.inputs]
    found = compile_network(every, target).instance()(*given)
    arrays = [*given, *(each.numpy() for each in found)]
    steps = {
        value: Steps.between(float(array.min()), float(array.max()), dtype)
        for value, array in zip([*graph.inputs, *points], arrays, strict=True)
    }
    for node in graph.nodes:
        if isinstance(node.op, _MOVES) and node.inputs[0] in steps:
            steps[node.outputs[0]] = steps[node.inputs[0]]
    return [steps.get(value) for value in _values(graph)]


def _values(graph: Graph) -> list[Value]:
    return [*graph.inputs, *(node.outputs[0] for node in graph.nodes)]


def quantised(graph: Graph, steps: Sequence[Steps | None]) -> Graph:
    """Return a graph in 8-bit integers, as `Quantize` and `Dequantize` around its layers.

    Args:
        graph: of floats, with known parameters, convolutions and products.
        steps: of the graph, or of one that differs in the number of images alone.
    """
    known = dict(zip(_values(graph), steps, strict=True))

    def rounded(before: Value, value: Value) -> Value:
        own = known[before]
        return value if own is None else own.rounded(value)

    def rule(node: Node, new: tuple[Value, ...]) -> Value | None:
        if isinstance(node.op, ops.Conv2d | ops.Dense):
            new = (new[0], _of_whole_weights(new[1]))
        return rounded(node.outputs[0], apply(node.op, *new, origin=node.origin))

    return graph.rewrite(rule, {each: rounded(each, each) for each in graph.inputs})


def _is_rounded(graph: Graph, node: Node) -> bool:
    """Return whether a node's result is rounded: nothing that follows is a part of its layer."""
    readers = graph.readers.get(node.outputs[0], ())
    return not (len(readers) == 1 and _ends_layer(readers[0]))


def _ends_layer(node: Node) -> bool:
    known = [isinstance(each, Constant) for each in node.inputs]
    return isinstance(node.op, _ENDS) or (isinstance(node.op, ops.Add) and any(known))


def _of_whole_weights(weight: Value) -> Value:
    """Return weights as int8 times a scale for each filter."""
    assert isinstance(weight, Constant)
    most = np.abs(weight.array).reshape(weight.shape[0], -1).max(axis=1)
    scale = (np.maximum(most, 1e-6) / 127).astype("float32")
    steps = np.rint(weight.array / scale.reshape(-1, *[1] * (weight.array.ndim - 1)))
    zeros = np.zeros(len(scale), "int8")
    given = Constant.of(steps.astype("int8")), Constant.of(scale), Constant.of(zeros)
    return apply(ops.Dequantize(0), *given)
