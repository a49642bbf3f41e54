"""Outputs in the memory of inputs, of which kernels store the rows that are written."""

import ml_dtypes  # noqa: F401 - with which numpy knows the name bfloat16
import numpy as np
import pytest

from autotune.errors import GraphError
from autotune.graph import Graph, TensorType, Variable, apply, ops
from autotune.network import compile_network
from autotune.runtime.arrays.array import array
from autotune.runtime.device import device

# The axis, how many axes an index counts through, and how many updates there are.
CASES = {
    "a row of a cache": (2, 1, 1), "several rows": (2, 1, 5), "the first axis": (0, 1, 2),
    "the last axis": (3, 1, 3), "two axes at once": (1, 2, 4), "all axes": (0, 4, 7),
}  # fmt: skip
SHAPE = (2, 3, 12, 16)


def cache_of(case, dtype):
    """Return the type of updates, and variables: a cache, places and updates."""
    along, axes, count = CASES[case]
    shape = (*SHAPE[:along], count, *SHAPE[along + axes :])
    places = tuple(count if i == along else 1 for i in range(len(shape)))
    return (
        Variable(TensorType(SHAPE, dtype), "cache"),
        Variable(TensorType(places, "int32"), "places"),
        Variable(TensorType(shape, dtype), "updates"),
    )


def numbers_for(variables, case, dtype, rng):
    """Return arrays for the variables; the last place is outside where there are several."""
    along, axes, count = CASES[case]
    whole = int(np.prod(SHAPE[along : along + axes]))
    places = rng.permutation(whole)[:count].astype("int32")
    if count > 1:
        places[-1] = whole + 3
    cache, _, updates = (rng.integers(-9, 9, each.shape) for each in variables)
    return cache.astype(dtype), places.reshape(variables[1].shape), updates.astype(dtype)


def kernels_of(network):
    return [step.function.name for step in network.plan.steps]


@pytest.mark.many_cases
@pytest.mark.parametrize("target", ["c", "cuda -emulate"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "int32"])
@pytest.mark.parametrize("case", CASES)
def test_rows_are_written_in_the_place_of_the_input(case, dtype, target):
    along, axes, _ = CASES[case]
    variables = cache_of(case, dtype)
    cache, places, updates = variables
    doubled = apply(ops.Add(), updates, updates)
    result = apply(ops.Write(along, axes), cache, places, doubled)
    graph = Graph(variables, (result, apply(ops.Add(), result, result)))
    network = compile_network(graph, target, over={0: 0})
    assert kernels_of(network) == ["fused_add_write_over", "fused_add"]
    given = numbers_for(variables, case, dtype, np.random.default_rng(0))
    want = ops.Write(along, axes).reference(given[0], given[1], given[2] + given[2])
    instance = network.instance()
    got, twice = instance(*given)
    assert got.pointer == instance.inputs[0].pointer
    np.testing.assert_array_equal(got.numpy(), want)
    np.testing.assert_array_equal(twice.numpy(), want + want)


@pytest.mark.many_cases
@pytest.mark.parametrize("case", CASES)
def test_the_input_stays_where_nobody_gives_its_memory(case):
    along, axes, _ = CASES[case]
    variables = cache_of(case, "float32")
    network = compile_network(Graph(variables, (apply(ops.Write(along, axes), *variables),)), "c")
    given = numbers_for(variables, case, "float32", np.random.default_rng(0))
    instance = network.instance()
    (got,) = instance(*given)
    np.testing.assert_array_equal(got.numpy(), ops.Write(along, axes).reference(*given))
    np.testing.assert_array_equal(instance.inputs[0].numpy(), given[0])


# What begins where, with which strides and of which extents.
SLICES = {
    "rows of a cache": ((0, 0, 5, 0), (1, 1, 1, 1), (2, 3, 4, 16)),
    "every third row of some": ((1, 0, 2, 0), (1, 1, 3, 1), (1, 3, 4, 16)),
    "a box": ((1, 1, 8, 3), (1, 1, 1, 4), (1, 2, 4, 3)),
}


@pytest.mark.many_cases
@pytest.mark.parametrize("target", ["c", "cuda -emulate"])
@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
@pytest.mark.parametrize("case", SLICES)
def test_a_slice_is_written_in_the_place_of_the_input(case, dtype, target):
    begin, strides, shape = SLICES[case]
    op = ops.WriteSlice(begin, strides)
    cache = Variable(TensorType(SHAPE, dtype), "cache")
    updates = Variable(TensorType(shape, dtype), "updates")
    result = apply(op, cache, apply(ops.Add(), updates, updates))
    graph = Graph((cache, updates), (result, apply(ops.Add(), result, result)))
    rng = np.random.default_rng(0)
    given = [rng.integers(-9, 9, each.shape).astype(dtype) for each in (cache, updates)]
    want = op.reference(given[0], given[1] + given[1])
    for over in ({0: 0}, {}):
        network = compile_network(graph, target, over=over)
        stored = [step.function.stores_updates for step in network.plan.steps]
        assert stored == ([True, False] if over else [False] * len(stored))
        instance = network.instance()
        got, twice = instance(*given)
        assert (got.pointer == instance.inputs[0].pointer) == bool(over)
        np.testing.assert_array_equal(got.numpy(), want)
        np.testing.assert_array_equal(twice.numpy(), want + want)


@pytest.mark.parametrize("order", [(0, 3), (3, 0)])
def test_an_array_is_not_bound_to_a_cache_and_to_what_is_read_after_its_write(order):
    variables = (*cache_of("a row of a cache", "float32"), Variable(TensorType(SHAPE), "other"))
    written = apply(ops.Write(2, 1), *variables[:3])
    after = apply(ops.Max((2,)), apply(ops.Add(), variables[3], written))
    network = compile_network(Graph(variables, (written, after)), "c", over={0: 0})
    instance, given = network.instance(), array(np.ones(SHAPE, "float32"), device("c"))
    instance.bind_input(order[0], given)
    with pytest.raises(GraphError, match="while it still reads input 'other'"):
        instance.bind_input(order[1], given)
