"""Loads under a condition: vectors of GCC that would be wrong are not made, others are."""

import numpy as np
import pytest

import autotune
from autotune.codegen.guarded_loads import GUARDED_LOADS, HELPERS
from autotune.tvm import te, tir

UNMASKED = HELPERS[GUARDED_LOADS]


def built(schedule, tensors):
    return autotune.build(schedule, tensors, "llvm")


def padded_sums(rows, columns, depth):
    """Sums over a padded matrix, of which one row is made at a time."""
    a = te.placeholder((rows, depth), name="a", dtype="int32")
    b = te.placeholder((columns, depth), name="b", dtype="int32")
    padded = te.compute(
        (rows + 2, depth),
        lambda i, k: tir.if_then_else(tir.all(i >= 1, i < rows + 1), a[i - 1, k], 0),
        name="padded",
    )
    k = te.reduce_axis((0, depth), name="k")
    sums = te.compute(
        (rows + 2, columns), lambda i, j: te.sum(padded[i, k] * b[j, k], axis=k), name="sums"
    )
    schedule = te.create_schedule(sums.op)
    schedule[padded].compute_at(schedule[sums], sums.op.axis[0])
    return schedule, [a, b, sums]


@pytest.mark.many_cases
@pytest.mark.parametrize("rows", [2, 3, 7, 30])
@pytest.mark.parametrize("columns", [2, 5, 8])
@pytest.mark.parametrize("depth", [1, 2, 8])
def test_sums_of_a_padded_matrix_are_right_whatever_is_unrolled(rows, columns, depth):
    # GCC 12.2 unrolls the columns, and computed rows of zeros: one mask served for all vectors.
    function = built(*padded_sums(rows, columns, depth))
    a = np.arange(rows * depth, dtype="int32").reshape(rows, depth) % 7 - 3
    b = np.arange(columns * depth, dtype="int32").reshape(columns, depth) % 5 - 1
    sums = np.full((rows + 2, columns), 77, "int32")
    function(a, b, sums)
    np.testing.assert_array_equal(sums, np.pad(a, ((1, 1), (0, 0))) @ b.T)


def chosen(extent):
    c, a, b = (te.placeholder((4, extent), name=name) for name in "cab")
    result = te.compute((4, extent), lambda i, j: tir.Select(c[i, j] > 0, a[i, j], b[i, j]))
    return te.create_schedule(result.op), [c, a, b, result]


def test_a_choice_in_a_loop_that_is_not_unrolled_keeps_its_masked_vectors():
    assert UNMASKED not in built(*chosen(64)).get_source()
    assert UNMASKED in built(*chosen(8)).get_source()
    schedule, tensors = chosen(8)
    schedule[tensors[-1]].vectorize(tensors[-1].op.axis[1])
    assert UNMASKED not in built(schedule, tensors).get_source()
    schedule, tensors = chosen(64)
    _, inner = schedule[tensors[-1]].split(tensors[-1].op.axis[1], 2)
    schedule[tensors[-1]].unroll(inner)
    assert UNMASKED in built(schedule, tensors).get_source()


def test_a_choice_that_loads_nothing_new_keeps_its_masked_vectors():
    a = te.placeholder((4, 8), name="a")
    leaky = te.compute((4, 8), lambda i, j: tir.Select(a[i, j] > 0, a[i, j], a[i, j] * 0.1))
    assert UNMASKED not in built(te.create_schedule(leaky.op), [a, leaky]).get_source()
