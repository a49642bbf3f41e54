"""Arguments of `relay` that change what is computed are followed as in TVM, or refused."""

import numpy as np
import pytest

from autotune.errors import GraphError
from autotune.graph import Graph
from autotune.tvm import relay

DATA = relay.var("data", shape=(3, 4))
IMAGE = relay.var("image", shape=(1, 3, 4, 4))
ROWS = relay.const(np.array([0, 5], "int32"))


def run(value):
    graph = Graph.of(value)
    arrays = [np.arange(np.prod(v.shape)).reshape(v.shape).astype(v.dtype) for v in graph.inputs]
    return graph.run(*arrays)[0]


def test_elements_of_the_flat_data_are_taken_where_no_axis_is_given():
    np.testing.assert_array_equal(run(relay.take(DATA, ROWS)), [0, 5])


def test_a_full_tensor_has_the_dtype_that_is_asked_for():
    assert run(relay.full(relay.const(2), (4,), "float32")).dtype == "float32"
    assert run(relay.full(relay.const(2), (4,))).dtype == "int32"


@pytest.mark.parametrize("numbers", [7, 2.5, [1.5, float("inf")], [float("nan")], -(2**31), True])
def test_constants_that_fit_are_what_they_were(numbers):
    np.testing.assert_array_equal(relay.const(numbers).array, np.asarray(numbers))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: relay.take(DATA, ROWS, 0, batch_dims=1),
            "take: batch_dims must be at most the ax",
        ),
        (lambda: relay.take(DATA, ROWS, 0, batch_dims=3), "batch_dims must be .* -1 to 1, got 3"),
        (lambda: relay.take(DATA, ROWS, 0, mode="raise"), "mode must be .*, got 'raise'"),
        (lambda: relay.sum(DATA, axis=7, exclude=True), "axis must be .* from -2 to 1, got 7"),
        (lambda: relay.nn.max_pool2d(IMAGE, out_layout="NCHW4c"), "a permutation of NCHW"),
        (lambda: relay.split(DATA, [2, 2], 1), "increasing indices from 1 to 3"),
        (lambda: relay.reshape(DATA, (-4, 2, -1)), "two numbers whose product is 3"),
        (lambda: relay.reshape(DATA, (-3, -3)), "a way to write the extents"),
        (lambda: relay.where(DATA, IMAGE, ROWS), "shapes that broadcast"),
        (lambda: relay.nn.pad(DATA, ((0, 0), (4, 0)), pad_mode="reflect"), "at most 3"),
        (lambda: relay.nn.pad(DATA, ((0, 0), (1, 0)), pad_mode="wrap"), "pad_mode must be"),
        (lambda: relay.tile(DATA, (0, 2)), "reps must be whole numbers of at least 1"),
        (
            lambda: relay.const(1 << 40),
            "value must be numbers that int32 holds, got 1099511627776",
        ),
        (lambda: relay.const(300, "int8"), "numbers that int8 holds, got 300"),
        (lambda: relay.const(-1, "uint8"), "numbers that uint8 holds, got -1"),
        (lambda: relay.const(float("nan"), "int32"), "numbers that int32 holds, got nan"),
        (lambda: relay.const(1e300), "numbers that float32 holds, got 1e\\+300"),
        (lambda: relay.const([[1], [1, 2]]), "value must be a number or an array of numbers"),
        (lambda: relay.full(2, (4,)), "fill_value must be an expression of relay, got 2"),
    ],
)
def test_what_cannot_be_followed_is_refused(call, message):
    with pytest.raises(GraphError, match=message):
        call()


def test_a_misspelt_argument_is_refused():
    with pytest.raises(TypeError, match="axiss"):
        relay.take(DATA, ROWS, axiss=1)
