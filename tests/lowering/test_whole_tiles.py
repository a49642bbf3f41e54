"""A tile in registers is computed whole only where memory holds all that it then reads."""

import numpy as np
import pytest

from autotune import te
from autotune.driver import build

N, TILE, BLOCK = 37, 4, 32
INDICES = {
    "neighbour": lambda i: i,
    "backwards": lambda i: N - 1 - i,
    "around": lambda i: i % 7,
    "square": lambda i: i * i,
}


def is_right(schedule, args, arrays, wanted):
    out = np.full(wanted.shape, np.nan, "float32")
    build(schedule, args, "cuda -emulate")(*arrays, out)
    return np.allclose(out, wanted)


def tiled(out, local, shared):
    """Tile a vector; ``local`` is in registers, ``shared``, which it reads, in shared memory."""
    s = te.create_schedule(out.op)
    if isinstance(shared.op, te.PlaceholderOp):
        shared = s.cache_read(shared, "shared", [local])
    s[shared].set_scope("shared")
    block, rest = s[out].split(out.op.axis[0], factor=BLOCK)
    thread, _ = s[out].split(rest, factor=TILE)
    s[out].bind(block, te.thread_axis("blockIdx.x"))
    s[out].bind(thread, te.thread_axis("threadIdx.x"))
    s[local].set_scope("local")
    s[local].compute_at(s[out], thread)
    s[shared].compute_at(s[out], block)
    return s


@pytest.mark.parametrize("index", [*INDICES])
def test_a_tile_reads_no_memory_beyond_what_was_staged(index):
    at = INDICES[index]
    a = te.placeholder((N * N,), name="A")
    local = te.compute((N,), lambda i: a[at(i)] + 1, name="L")
    out = te.compute((N,), lambda i: local[i] * 2, name="C")
    data = np.random.default_rng(0).random(N * N).astype("float32")
    wanted = (data[at(np.arange(N))] + 1) * 2
    assert is_right(tiled(out, local, a), [a, out], [data], wanted)


def test_a_tile_reads_no_memory_beyond_what_others_look_up_by_data():
    a, where = te.placeholder((N,), name="A"), te.placeholder((N,), "int32", name="I")
    shared = te.compute((N,), lambda i: a[i] + 1, name="D")
    local = te.compute((N,), lambda i: shared[i] * 3, name="L")
    out = te.compute((N,), lambda i: local[i] + shared[where[i]], name="C")
    rng = np.random.default_rng(0)
    data, at = rng.random(N).astype("float32"), rng.integers(0, N, N).astype("int32")
    wanted = (data + 1) * 3 + (data + 1)[at]
    assert is_right(tiled(out, local, shared), [a, where, out], [data, at], wanted)
