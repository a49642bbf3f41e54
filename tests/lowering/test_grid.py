"""Blocks along y and z beyond what a device has are launched along x."""

import numpy as np
import pytest
from interpreter import run

from autotune import te
from autotune.errors import InstantiationError
from autotune.lowering import lower_schedule
from autotune.target import Limits

SHAPE = (5, 3, 4)


def flipped(tags):
    a = te.placeholder(SHAPE, name="A")
    b = te.compute(SHAPE, lambda i, j, k: a[SHAPE[0] - 1 - i, j, k] + 1.0, name="B")
    s = te.create_schedule(b.op)
    for axis, tag in zip(s[b].op.axis, tags, strict=True):
        if tag:
            s[b].bind(axis, te.thread_axis(tag))
    return s, [a, b]


@pytest.mark.parametrize(
    "tags",
    [
        ("blockIdx.y", "blockIdx.z", "blockIdx.x"),
        ("blockIdx.z", "blockIdx.x", "threadIdx.x"),
        ("blockIdx.y", "threadIdx.x", ""),
        ("blockIdx.x", "blockIdx.y", "blockIdx.z"),
    ],
)
def test_blocks_that_do_not_fit_along_y_or_z_are_launched_along_x(tags):
    s, args = flipped(tags)
    lowered = lower_schedule(s, args, limits=Limits(grid_dim=(60, 2, 2)))
    count = np.prod([n for n, tag in zip(SHAPE, tags, strict=True) if tag.startswith("block")])
    assert lowered.kernels[0].grid == (count, 1, 1)
    x = np.random.default_rng(0).random(SHAPE).astype("float32")
    out = np.zeros_like(x)
    run(lowered, [x, out])
    np.testing.assert_array_equal(out, x[::-1] + 1)


def test_a_grid_that_fits_is_launched_as_it_is_bound():
    s, args = flipped(("blockIdx.y", "blockIdx.z", "blockIdx.x"))
    lowered = lower_schedule(s, args, limits=Limits())
    assert lowered.kernels[0].grid == (4, 5, 3)


def test_blocks_that_do_not_fit_along_x_either_are_refused():
    s, args = flipped(("blockIdx.y", "blockIdx.z", "blockIdx.x"))
    with pytest.raises(InstantiationError, match=r"blockIdx\.x is 60, at most 59 are possible"):
        lower_schedule(s, args, limits=Limits(grid_dim=(59, 4, 4)))


def test_blocks_beside_those_whose_number_the_caller_passes_are_refused():
    n = te.var("n")
    a = te.placeholder((3, n), name="A")
    b = te.compute((3, n), lambda i, j: a[i, j] + 1.0, name="B")
    s = te.create_schedule(b.op)
    for axis, tag in zip(b.op.axis, ("blockIdx.y", "blockIdx.x"), strict=True):
        s[b].bind(axis, te.thread_axis(tag))
    with pytest.raises(InstantiationError, match=r"blockIdx\.y is 3, at most 2 are possible"):
        lower_schedule(s, [a, b], limits=Limits(grid_dim=(60, 2, 2)))
