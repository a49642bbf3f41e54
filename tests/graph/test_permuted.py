"""Operators on tensors whose axes are in another order compute what they did."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.graph import ops
from autotune.graph.passes.permuted import permuted

SHAPE = (2, 3, 4, 5)
OPS = {
    "relu": ops.Relu(),
    "cast": ops.Cast("float16"),
    "add": ops.Add(),
    "concatenate": ops.Concatenate(-3),
    "mean": ops.Mean((1, -1), keepdims=True),
    "sum of all": ops.Sum(keepdims=True),
    "pad": ops.Pad(((0, 1), (2, 0), (0, 0), (1, 3)), 0.5),
    "a part of the first axes": ops.StridedSlice((0, 1), (2, 3)),
    "every second": ops.StridedSlice((0, 0, 1, 4), (2, 3, 4, 0), (1, 2, 2, -1)),
}


@given(st.sampled_from(sorted(OPS)), st.permutations(range(4)))
def test_the_result_is_permuted_as_the_inputs(name, order):
    op = OPS[name]
    arrays = [np.random.default_rng(i).normal(size=SHAPE) for i in range(2)]
    arrays = arrays if name in ("add", "concatenate") else arrays[:1]
    new = permuted(op, order, SHAPE)
    result = new.reference(*[np.transpose(a, order) for a in arrays])
    np.testing.assert_array_equal(result, np.transpose(op.reference(*arrays), order))


@pytest.mark.parametrize("op", [ops.Softmax(1), ops.Mean((1,)), ops.Reshape((6, 20))])
def test_others_are_left_alone(op):
    assert permuted(op, (0, 2, 3, 1), SHAPE) is None
