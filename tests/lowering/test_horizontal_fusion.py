"""Copies of operands in another order that become one kernel."""

from dataclasses import replace

import numpy as np
import pytest

from autotune import te
from autotune.driver import build
from autotune.lowering import lower
from autotune.lowering.horizontal_fusion import fuse_copies


def schedule(threads=(32, 32), again=False):
    """The sum of two transposed matrices, each copied first, or of one that is copied twice."""
    a, b = (te.placeholder((8, 16), name=name) for name in "ab")
    rows = te.compute((16, 8), lambda i, j: a[j, i] + (a if again else b)[j, i], name="c")
    s = te.create_schedule(rows.op)
    first = s.permute(a, [rows], (1, 0))
    copies = [first, s.permute(first, [rows], (0, 1)) if again else s.permute(b, [rows], (1, 0))]
    for each, count in zip([*copies, rows], (*threads, 32), strict=True):
        fused = s[each].fuse(*s[each].op.axis)
        block, thread = s[each].split(fused, factor=count)
        s[each].bind(block, te.thread_axis("blockIdx.x"))
        s[each].bind(thread, te.thread_axis("threadIdx.x"))
    return s, [a, rows] if again else [a, b, rows]


@pytest.mark.parametrize(
    ("given", "grids"),
    [
        ({}, [8, 4]),
        ({"threads": (32, 64)}, [4, 2, 4]),  # blocks of other threads
        ({"again": True}, [4, 4, 4]),  # a copy of the copy
    ],
    ids=["apart", "other threads", "one of the other"],
)
def test_copies_are_one_kernel_where_they_share_nothing(given, grids):
    s, arguments = schedule(**given)
    assert [each.grid[0] for each in lower(s, arguments).kernels] == grids


def test_copies_of_one_kernel_compute_what_two_do():
    s, arguments = schedule()
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, 8, 16)).astype("float32")
    out = np.zeros((16, 8), "float32")
    build(s, arguments, target="cuda -emulate")(a, b, out)
    np.testing.assert_array_equal(out, (a + b).T)


def test_a_copy_that_cannot_be_launched_stays_apart_with_its_reason():
    one, other = (lower(*schedule(threads=(32, 64))).kernels[0] for _ in range(2))
    assert len(fuse_copies([one, other])) == 1
    assert fuse_copies([one, replace(other, unfinished="no threads")])[1].unfinished
