"""Bytes are checked by the numbers that are rounded: both neighbours of a half are right."""

import numpy as np
import pytest

from autotune.graph import Constant, Graph, TensorType, Variable, apply, ops
from autotune.network import check, compile_network
from autotune.network.check import _chosen


def quantised(x, scale, zero, dtype):
    given = Constant.of(np.float32(scale)), Constant.of(np.asarray(zero, dtype))
    return apply(ops.Dequantize(), apply(ops.Quantize(dtype=dtype), x, *given), *given)


def test_bytes_on_either_side_of_a_half_are_right():
    x = Variable(TensorType((127,), "float32"), "x")
    graph = Graph.of(quantised(x, 0.1, 0, "int8").node.inputs[0])
    # Of some of them the quotient is a half in float32, and not quite in double precision.
    halves = ((np.arange(127) + 0.5) * 0.1).astype("float32")
    instance = compile_network(graph, "c").instance()
    (got,) = instance(halves)
    assert (got.numpy() != graph.run(halves)[0]).any()
    assert check(instance, [halves], tolerance=0)


def test_sums_of_bytes_near_a_half_are_right():
    x = Variable(TensorType((1, 1, 16, 16), "float32"), "x")
    weight = Constant.of(np.ones((1, 1, 1, 1), "int8"))
    steps = Constant.of(np.float32([0.05])), Constant.of(np.int8([0]))
    filters = apply(ops.Dequantize(), weight, *steps)
    images = quantised(x, 0.1, 0, "int8")
    made = quantised(apply(ops.Conv2d(), images, filters), 0.01, 0, "int8")
    graph = Graph((x,), (made.node.inputs[0],))
    instance = compile_network(graph, "c").instance()
    numbers = np.linspace(-12, 12, 256, dtype="f4").reshape(1, 1, 16, 16)
    # Two kernels are of float32 where a CPU adds no products of bytes; a wrong byte is off by
    # at least 4e-4.
    assert check(instance, [numbers], tolerance=1e-6)


@pytest.mark.parametrize(
    ("got", "want", "exact", "right"),
    [
        (3, 2, 2.5 - 1e-9, True),
        (2, 3, 2.5 + 1e-6, True),
        (101, 100, 100.49999, True),
        (3, 2, 2.499, False),
        (1, 2, 2.4999999, False),
        (4, 2, 2.5, False),
        (3, 2, np.nan, False),
    ],
)
def test_one_step_is_right_near_a_half_alone(got, want, exact, right):
    chosen = _chosen(np.int8([got]), np.int8([want]), np.float64([exact]))
    assert chosen == (want if right else got)
