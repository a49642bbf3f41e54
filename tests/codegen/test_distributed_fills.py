"""Parallel loops over neighbours in memory that fill several places are compiled apart."""

import numpy as np
import pytest

import autotune
from autotune import te


def sums(parallel):
    """Sums of columns by turns of two, over columns or by rows in parallel."""
    a = te.placeholder((3, 4, 8), "int32", name="A")
    k = te.reduce_axis((0, 4), "k")
    c = te.compute((3, 8), lambda i, j: te.sum(a[i, k, j], axis=k), name="C")
    s = te.create_schedule(c.op)
    i, j = c.op.axis
    if parallel != "rows":
        s[c].reorder(j, i)
        s[c].parallel(j)
        if parallel == "columns":
            s[c].unroll(i)
    else:
        s[c].parallel(i)
    return s, [a, c]


@pytest.mark.parametrize(
    ("parallel", "apart"), [("columns", True), ("columns in loops", True), ("rows", False)]
)
def test_fills_of_neighbours_in_parallel_are_not_taken_out_of_their_loop(parallel, apart):
    schedule, tensors = sums(parallel)
    module = autotune.build(schedule, tensors, target="llvm")
    assert ("no-tree-loop-distribute-patterns" in module.kernel.source) == apart
    given = np.arange(96, dtype="int32").reshape(3, 4, 8)
    out = np.zeros((3, 8), "int32")
    module(given, out)
    assert (out == given.sum(1)).all()
