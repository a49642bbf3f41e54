"""Double buffers and asynchronous copies: right values, no races, one barrier an iteration."""

import numpy as np
import pytest
import workloads
from interpreter import run

from autotune import te
from autotune.lowering import lower_schedule


def blocked_matmul(n=8, m=12, k=20, step=4, vector=1, split=2):
    """A matmul whose operands go through shared memory; returns schedule, work and copies."""
    work = workloads.matmul(n, m, k)
    A, B, C = work.args
    s = te.create_schedule(C.op)
    CL = s.cache_write(C, "local")
    copies = [s.cache_read(A, "shared", [CL]), s.cache_read(B, "shared", [CL])]
    y, x = s[C].op.axis
    by, ty = s[C].split(y, factor=4)
    bx, tx = s[C].split(x, factor=4)
    s[C].reorder(by, bx, ty, tx)
    for axis, tag in (
        (by, "blockIdx.y"),
        (bx, "blockIdx.x"),
        (ty, "threadIdx.y"),
        (tx, "threadIdx.x"),
    ):
        s[C].bind(axis, te.thread_axis(tag))
    s[CL].compute_at(s[C], tx)
    ko, ki = s[CL].split(s[CL].op.reduce_axis[0], factor=step)
    s[CL].reorder(ko, ki, *s[CL].op.axis)
    for copy in copies:
        s[copy].compute_at(s[CL], ko)
        rest = s[copy].fuse(*s[copy].op.axis)
        if vector > 1:
            rest, lane = s[copy].split(rest, factor=vector)
            s[copy].vectorize(lane)
        rest, tx = s[copy].split(rest, factor=4)
        rest, ty = s[copy].split(rest, factor=4)
        s[copy].bind(ty, te.thread_axis("threadIdx.y"))
        s[copy].bind(tx, te.thread_axis("threadIdx.x"))
    return s, work, copies


def check(s, work):
    lowered = lower_schedule(s, work.args)
    arrays = work.arrays()
    run(lowered, arrays)
    np.testing.assert_allclose(arrays[-1], work.reference(*arrays[:-1]))
    return str(lowered)


@pytest.mark.parametrize(("k", "step"), [(20, 4), (8, 4), (21, 4), (4, 4), (12, 4)])
def test_a_double_buffer_needs_one_barrier_an_iteration(k, step):
    s, work, copies = blocked_matmul(k=k, step=step)
    for copy in copies:
        s[copy].double_buffer()
    text = check(s, work)
    if k >= 3 * step:
        assert text.count("barrier") == 1
        assert "% 2" in text or "floormod" in text


def test_a_double_buffer_loads_before_the_use_and_stores_after_it():
    s, work, copies = blocked_matmul(k=40, step=8)
    for copy in copies:
        s[copy].double_buffer()
    lines = check(s, work).splitlines()
    loop = next(i for i, line in enumerate(lines) if "for k.outer" in line)
    load, use, store = (
        next(i for i in range(loop, len(lines)) if words in lines[i])
        for words in ("A.shared.next[", "C.local[0] = C.local[0] +", "] = A.shared.next[")
    )
    assert load < use < store


@pytest.mark.parametrize("stages", [2, 3, 4])
@pytest.mark.parametrize("vector", [1, 4])
@pytest.mark.parametrize("k", [4, 8, 20, 23])
def test_asynchronous_copies_run_ahead_in_a_ring(stages, vector, k):
    s, work, copies = blocked_matmul(k=k, vector=vector)
    for copy in copies:
        s[copy].async_copy(stages)
    text = check(s, work)
    if k > 4:
        assert "async_copy" in text or k == 23
        assert text.count(f"async_wait({stages - 2})") == 1
        assert text.count("barrier") == 1


def test_copies_of_four_floats_are_one_asynchronous_copy():
    s, work, copies = blocked_matmul(n=16, m=16, k=32, step=16, vector=4)
    for copy in copies:
        s[copy].async_copy(2)
    assert "16 bytes" in check(s, work)


def test_padding_is_stored_where_there_is_nothing_to_copy():
    work = workloads.padded_conv()
    conv = work.args[-1]
    s = te.create_schedule(conv.op)
    s[work.chain[0]].compute_inline()
    local = s.cache_write(conv, "local")
    copy = s.cache_read(work.chain[0], "shared", [local])
    f, y, x = s[conv].op.axis
    s[conv].bind(f, te.thread_axis("blockIdx.x"))
    s[conv].bind(y, te.thread_axis("threadIdx.y"))
    s[conv].bind(x, te.thread_axis("threadIdx.x"))
    s[local].compute_at(s[conv], x)
    c, i, j = s[local].op.reduce_axis
    s[local].reorder(c, i, j, *s[local].op.axis)
    s[copy].compute_at(s[local], c)
    _, yy, xx = s[copy].op.axis
    rest, tx = s[copy].split(s[copy].fuse(yy, xx), factor=5)
    rest, ty = s[copy].split(rest, factor=6)
    s[copy].bind(ty, te.thread_axis("threadIdx.y"))
    s[copy].bind(tx, te.thread_axis("threadIdx.x"))
    s[copy].async_copy(3)
    assert "else:" in check(s, work)


def test_a_pipeline_inside_a_loop_starts_anew():
    s, work, copies = blocked_matmul(k=24, step=4)
    local = next(stage for stage in s.stages if stage.op.name == "C.local")
    leaves = list(local.leaf_iter_vars)
    outer, inner = local.split(leaves[0], factor=3)
    for copy in copies:
        s[copy].double_buffer()
    assert outer is not inner
    check(s, work)


@pytest.mark.parametrize("how", ["double_buffer", "async_copy"])
def test_a_shared_stage_made_from_another_one_is_right(how):
    A = te.placeholder((40, 8), name="A")
    k = te.reduce_axis((0, 40), name="k")
    twice = te.compute((40, 8), lambda i, j: A[i, 7 - j] * 2.0, name="twice")
    B = te.compute((8,), lambda j: te.sum(twice[k, j] + twice[k, 7 - j], axis=k), name="B")
    s = te.create_schedule(B.op)
    local = s.cache_write(B, "local")
    first = s.cache_read(A, "shared", [twice])
    (j,) = s[B].op.axis
    s[B].bind(j, te.thread_axis("threadIdx.x"))
    s[local].compute_at(s[B], j)
    ko, ki = s[local].split(s[local].op.reduce_axis[0], factor=4)
    s[local].reorder(ko, ki, *s[local].op.axis)
    for T in (first, twice):
        s[T].set_scope("shared")
        s[T].compute_at(s[local], ko)
        s[T].bind(s[T].op.axis[1], te.thread_axis("threadIdx.x"))
        getattr(s[T], how)()
    a = np.random.default_rng(0).integers(-4, 5, (40, 8)).astype("float32")
    out = np.full(8, -99, "float32")
    run(lower_schedule(s, [A, B]), [a, out])
    np.testing.assert_allclose(out, 2 * (a[:, ::-1] + a).sum(axis=0))


@pytest.mark.parametrize("how", ["double_buffer", "async_copy"])
def test_rows_that_indices_choose_are_copied_ahead_from_the_step_they_are_of(how):
    A, rows = te.placeholder((6, 20), name="A"), te.placeholder((8,), "int32", name="rows")
    chosen = te.compute((8, 20), lambda i, j: A[rows[i], j], name="chosen")
    k = te.reduce_axis((0, 20), name="k")
    B = te.compute((8,), lambda i: te.sum(chosen[i, k], axis=k), name="B")
    s = te.create_schedule(B.op)
    local = s.cache_write(B, "local")
    (i,) = s[B].op.axis
    s[B].bind(i, te.thread_axis("threadIdx.x"))
    s[local].compute_at(s[B], i)
    ko, ki = s[local].split(s[local].op.reduce_axis[0], factor=4)
    s[local].reorder(ko, ki, *s[local].op.axis)
    s[chosen].set_scope("shared")
    s[chosen].compute_at(s[local], ko)
    s[chosen].bind(s[chosen].op.axis[0], te.thread_axis("threadIdx.x"))
    getattr(s[chosen], how)()
    rng = np.random.default_rng(0)
    a, which = rng.integers(-4, 5, (6, 20)).astype("float32"), rng.integers(0, 6, 8, "int32")
    out = np.full(8, -99, "float32")
    run(lower_schedule(s, [A, rows, B]), [a, which, out])
    np.testing.assert_allclose(out, a[which].sum(axis=1))
