"""Sums in another order than memory's: vectors of GCC that would be wrong are not made."""

import numpy as np
import pytest

import autotune
from autotune import te
from autotune.codegen.reordered_sums import HELPERS, REORDERED_SUMS

IN_ORDER = HELPERS[REORDERED_SUMS]


def summed(value, columns, unroll):
    """Return the sum of a value over a matrix, row by row, and what it is called with."""
    x = te.placeholder((40, columns), name="x")
    i, j = te.reduce_axis((0, 40), name="i"), te.reduce_axis((0, columns), name="j")
    total = te.compute((), lambda: te.sum(value(x, i, j, columns), axis=[i, j]), name="total")
    schedule = te.create_schedule(total.op)
    if unroll:
        schedule[total].unroll(total.op.reduce_axis[1])
    return autotune.build(schedule, [x, total], "c")


def downwards(x, i, j, columns):
    return x[i, columns - 1 - j]


def swapped(x, i, j, columns):
    return x[i, j // 2 + j % 2 * (columns // 2)] * x[i, j // 2 + j % 2 * (columns // 2)]


@pytest.mark.many_cases
@pytest.mark.parametrize("value", [downwards, swapped])
@pytest.mark.parametrize("columns", [2, 4, 6, 8])
@pytest.mark.parametrize("unroll", [False, True])
def test_sums_are_right_in_whatever_order_memory_is_read(value, columns, unroll):
    # GCC 12.2 counted some elements twice, and others never.
    function = summed(value, columns, unroll)
    x = np.random.default_rng(0).normal(size=(40, columns)).astype("float32")
    total = np.zeros((), "float32")
    function(x, total)
    want = x.sum() if value is downwards else (x * x).sum()
    np.testing.assert_allclose(total, want, rtol=1e-4, atol=1e-4)


def test_only_sums_that_read_all_arrays_downwards_do_without_vectors_of_loops():
    assert IN_ORDER in summed(downwards, 4, False).get_source()
    assert IN_ORDER not in summed(lambda x, i, j, _: x[i, j], 4, True).get_source()
    product = summed(lambda x, i, j, n: x[i, n - 1 - j] * te.sqrt(x[i, n - 1 - j]), 40, False)
    assert IN_ORDER not in product.get_source()  # the loop stays a loop of one sum each


def test_a_product_with_an_array_that_is_read_upwards_keeps_its_vectors():
    x, y = (te.placeholder((40, 4), name=name) for name in "xy")
    i, j = te.reduce_axis((0, 40), name="i"), te.reduce_axis((0, 4), name="j")
    total = te.compute((), lambda: te.sum(x[i, 3 - j] * y[i, j], axis=[i, j]))
    built = autotune.build(te.create_schedule(total.op), [x, y, total], "c")
    assert IN_ORDER not in built.get_source()
