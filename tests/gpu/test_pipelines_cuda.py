"""Pipelined matrix products on a device: double buffers and asynchronous copies, no race lost."""

import numpy as np
import pytest

from autotune import te
from autotune.driver import build

pytestmark = pytest.mark.gpu
TILE, STEP = 64, 16


def product(n, copies):
    """A blocked matrix product of square matrices; ``copies`` marks the shared stages."""
    A, B = te.placeholder((n, n), name="A"), te.placeholder((n, n), name="B")
    k = te.reduce_axis((0, n), name="k")
    C = te.compute((n, n), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    s = te.create_schedule(C.op)
    local = s.cache_write(C, "local")
    shared = [s.cache_read(T, "shared", [local]) for T in (A, B)]
    loops = []
    for axis, d in zip(s[C].op.axis, "yx", strict=True):
        block, inner = s[C].split(axis, factor=TILE)
        thread, each = s[C].split(inner, nparts=16)
        s[C].bind(block, te.thread_axis(f"blockIdx.{d}"))
        s[C].bind(thread, te.thread_axis(f"threadIdx.{d}"))
        loops.append((block, thread, each))
    s[C].reorder(*[loop for level in zip(*loops, strict=True) for loop in level])
    s[local].compute_at(s[C], loops[1][1])
    outer, inner = s[local].split(s[local].op.reduce_axis[0], factor=STEP)
    s[local].reorder(outer, inner, *s[local].op.axis)
    for T in shared:
        s[T].compute_at(s[local], outer)
        rest, lane = s[T].split(s[T].fuse(*s[T].op.axis), factor=4)
        s[T].vectorize(lane)
        rest, tx = s[T].split(rest, factor=16)
        _, ty = s[T].split(rest, factor=16)
        s[T].bind(ty, te.thread_axis("threadIdx.y"))
        s[T].bind(tx, te.thread_axis("threadIdx.x"))
        copies(s[T])
    return s, [A, B, C]


@pytest.mark.parametrize(
    "copies",
    [
        lambda stage: None,
        lambda stage: stage.double_buffer(),
        lambda stage: stage.async_copy(2),
        lambda stage: stage.async_copy(4),
    ],
    ids=["plain", "double", "async2", "async4"],
)
@pytest.mark.parametrize("n", [512, 500])
def test_a_pipelined_product_is_right_every_time(n, copies):
    module = build(*product(n, copies), target="cuda", name="product")
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-3, 4, (n, n)).astype("float32") for _ in range(2))
    for _ in range(5):
        c = np.full((n, n), np.nan, "float32")
        module(a, b, c)
        np.testing.assert_array_equal(c, a @ b)
