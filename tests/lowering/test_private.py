"""A stage in the memory of a thread, or block, is computed by that one, whole, or refused."""

import numpy as np
import pytest

from autotune import te
from autotune.driver import build
from autotune.errors import LoweringError

N, THREADS = 64, 8
WINDOW = (0, 1, 7)


def scheduled(at, scope, bind, own="threadIdx.x"):
    """Return a schedule of C[i] = B[i] + B[i + 1] + B[i + 7], and its arguments.

    Args:
        at: number of the loop of C that B is computed in: block, virtual thread, thread.
        scope: of B; None for whatever fits.
        bind: how the loop of B is divided among threads; None for not at all.
        own: what the divided loop of B is bound to.
    """
    a = te.placeholder((N + 8,), name="A")
    b = te.compute((N + 8,), lambda i: a[i] + 1, name="B")
    c = te.compute((N,), lambda i: sum(b[i + d] for d in WINDOW), name="C")
    s = te.create_schedule(c.op)
    axes = {tag: te.thread_axis(tag) for tag in ("vthread", "threadIdx.x", "blockIdx.y")}
    outer, thread = s[c].split(c.op.axis[0], factor=THREADS)
    block, virtual = s[c].split(outer, factor=2)
    s[c].bind(block, te.thread_axis("blockIdx.x"))
    s[c].bind(virtual, axes["vthread"])
    s[c].bind(thread, axes["threadIdx.x"])
    if scope:
        s[b].set_scope(scope)
    s[b].compute_at(s[c], (block, virtual, thread)[at])
    if bind:
        parts = {"vthread": 2, "threadIdx.x": THREADS, "blockIdx.y": 2}[own]
        first, second = s[b].split(b.op.axis[0], **{bind: parts})
        s[b].bind(first if bind == "nparts" else second, axes[own])
    return s, [a, c]


def is_right(schedule, args):
    a = np.random.default_rng(0).random(N + 8).astype("float32")
    c = np.zeros(N, "float32")
    build(schedule, args, "cuda -emulate")(a, c)
    return np.allclose(c, sum((a + 1)[d : d + N] for d in WINDOW))


@pytest.mark.parametrize("own", ["threadIdx.x", "vthread"])
@pytest.mark.parametrize("bind", ["factor", "nparts"])
@pytest.mark.parametrize("at", [0, 1, 2])
def test_threads_do_not_share_the_work_on_what_each_has_for_itself(at, bind, own):
    with pytest.raises(LoweringError, match=rf"bind: B is in local memory.*bound to {own}, so"):
        is_right(*scheduled(at, "local", bind, own))


@pytest.mark.parametrize("scope", ["shared", "warp", None])
def test_blocks_do_not_share_the_work_on_what_each_has_for_itself(scope):
    with pytest.raises(LoweringError, match=r"bind: B is in shared memory.*bound to blockIdx.y"):
        is_right(*scheduled(0, scope, "nparts", "blockIdx.y"))


def test_memory_that_was_not_asked_for_is_no_excuse():
    with pytest.raises(LoweringError, match="bind: B is in local memory"):
        is_right(*scheduled(2, None, "factor"))


@pytest.mark.parametrize("at", [0, 1, 2])
def test_each_thread_computes_all_that_it_reads(at):
    assert is_right(*scheduled(at, "local", None))


@pytest.mark.parametrize("bind", ["factor", "nparts"])
def test_threads_share_the_work_on_what_they_have_in_common(bind):
    assert is_right(*scheduled(0, "shared", bind))


def test_an_axis_of_one_iteration_may_be_bound_to_threads():
    a = te.placeholder((N,), name="A")
    b = te.compute((N,), lambda i: a[i] + 1, name="B")
    c = te.compute((N,), lambda i: b[i] * 2, name="C")
    s = te.create_schedule(c.op)
    block, thread = s[c].split(c.op.axis[0], factor=THREADS)
    s[c].bind(block, te.thread_axis("blockIdx.x"))
    s[c].bind(thread, te.thread_axis("threadIdx.x"))
    s[b].set_scope("local")
    s[b].compute_at(s[c], thread)
    s[b].bind(b.op.axis[0], te.thread_axis("threadIdx.x"))
    given, found = np.arange(N, dtype="float32"), np.zeros(N, "float32")
    build(s, [a, c], "cuda -emulate")(given, found)
    assert np.array_equal(found, (given + 1) * 2)


@pytest.mark.parametrize("own", ["threadIdx.x", "threadIdx.y"])
def test_threads_join_parts_of_the_same_sum_only(own):
    a = te.placeholder((8, 64), name="A")
    k = te.reduce_axis((0, 64), name="k")
    b = te.compute((8,), lambda i: te.sum(a[i, k], axis=k), name="B")
    c = te.compute((8,), lambda i: b[i] * 2, name="C")
    s = te.create_schedule(c.op)
    block, thread = s[c].split(c.op.axis[0], factor=8)
    s[c].bind(block, te.thread_axis("blockIdx.x"))
    s[c].bind(thread, te.thread_axis("threadIdx.x"))
    s[b].compute_at(s[c], block)
    s[b].set_scope("local")
    _, part = s[b].split(k, factor=8)
    s[b].bind(part, te.thread_axis(own))
    if own == "threadIdx.x":
        with pytest.raises(LoweringError, match=r"bind: B is summed along 'k.inner' by threadIdx"):
            build(s, [a, c], "cuda -emulate")
        return
    values = np.random.default_rng(0).random((8, 64)).astype("float32")
    out = np.zeros(8, "float32")
    build(s, [a, c], "cuda -emulate")(values, out)
    np.testing.assert_allclose(out, 2 * values.sum(1), rtol=1e-5)
