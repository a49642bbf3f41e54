"""Reductions in all their forms, run thread by thread and compared with numpy."""

import numpy as np
import pytest
from interpreter import run

from autotune import te
from autotune.ir import Max, Select
from autotune.lowering import lower_schedule


def check(s, args, arrays, expected):
    """Lower, run and compare the last arrays with what is expected."""
    lowered = lower_schedule(s, args)
    outputs = [np.full(t.shape, -99, t.dtype) for t in args[len(arrays) :]]
    run(lowered, [*arrays, *outputs])
    wanted = expected if isinstance(expected, tuple) else (expected,)
    for got, want in zip(outputs, wanted, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5)
    return str(lowered)


def some(*shape, seed=0):
    return np.random.default_rng(seed).integers(-4, 5, shape).astype("float32")


def row_sum(n, m, combine=te.sum):
    A = te.placeholder((n, m), name="A")
    k = te.reduce_axis((0, m), name="k")
    B = te.compute((n,), lambda i: combine(A[i, k], axis=k), name="B")
    return A, B


def argmax(n, m):
    A = te.placeholder((n, m), name="A")
    k = te.reduce_axis((0, m), name="k")
    largest = te.comm_reducer(
        lambda x, y: (Select(x[1] >= y[1], x[0], y[0]), Select(x[1] >= y[1], x[1], y[1])),
        lambda t0, t1: (te.const(-1, t0), te.min_value(t1)),
        name="argmax",
    )
    at, value = te.compute((n,), lambda i: largest((k.var, A[i, k]), axis=k), name="R")
    return A, at, value


@pytest.mark.parametrize("threads", [2, 3, 8, 32, 33, 64, 96])
def test_threads_reduce_a_row_together(threads):
    A, B = row_sum(3, 200)
    s = te.create_schedule(B.op)
    _, inner = s[B].split(s[B].op.reduce_axis[0], factor=threads)
    s[B].bind(s[B].op.axis[0], te.thread_axis("blockIdx.x"))
    s[B].bind(inner, te.thread_axis("threadIdx.x"))
    a = some(3, 200)
    text = check(s, [A, B], [a], a.sum(axis=1))
    assert ("shfl_xor" in text) == (threads in (2, 8, 32, 64, 96))


@pytest.mark.parametrize(("rows", "threads"), [(2, 8), (3, 4), (2, 32), (4, 6), (2, 64)])
def test_each_row_of_threads_reduces_its_own(rows, threads):
    A, B = row_sum(7, 50)
    s = te.create_schedule(B.op)
    outer, inner = s[B].split(s[B].op.axis[0], factor=rows)
    _, lane = s[B].split(s[B].op.reduce_axis[0], factor=threads)
    s[B].bind(outer, te.thread_axis("blockIdx.x"))
    s[B].bind(inner, te.thread_axis("threadIdx.y"))
    s[B].bind(lane, te.thread_axis("threadIdx.x"))
    a = some(7, 50)
    check(s, [A, B], [a], a.sum(axis=1))


def test_reducing_over_the_slow_thread_axis():
    A, B = row_sum(8, 24)
    s = te.create_schedule(B.op)
    outer, inner = s[B].split(s[B].op.axis[0], factor=4)
    _, lane = s[B].split(s[B].op.reduce_axis[0], factor=8)
    s[B].bind(outer, te.thread_axis("blockIdx.x"))
    s[B].bind(inner, te.thread_axis("threadIdx.x"))
    s[B].bind(lane, te.thread_axis("threadIdx.y"))
    a = some(8, 24)
    check(s, [A, B], [a], a.sum(axis=1))


def test_rfactor_then_threads_with_a_store_predicate():
    A, B = row_sum(6, 64)
    s = te.create_schedule(B.op)
    _, ki = s[B].split(B.op.reduce_axis[0], factor=16)
    BF = s.rfactor(B, ki)
    xo, xi = s[B].split(s[B].op.axis[0], factor=4)
    s[B].bind(xo, te.thread_axis("blockIdx.x"))
    s[B].bind(xi, te.thread_axis("threadIdx.y"))
    tx = te.thread_axis("threadIdx.x")
    s[B].bind(s[B].op.reduce_axis[0], tx)
    s[BF].compute_at(s[B], s[B].op.reduce_axis[0])
    s[B].set_store_predicate(tx.var.equal(0))
    a = some(6, 64)
    check(s, [A, B], [a], a.sum(axis=1))


def test_a_reduction_split_over_blocks_is_two_kernels():
    A, B = row_sum(5, 64)
    s = te.create_schedule(B.op)
    ko, _ = s[B].split(B.op.reduce_axis[0], factor=16)
    BF = s.rfactor(B, ko)
    s[BF].bind(s[BF].op.axis[0], te.thread_axis("blockIdx.x"))
    s[BF].bind(s[BF].op.axis[1], te.thread_axis("threadIdx.x"))
    s[B].bind(s[B].op.axis[0], te.thread_axis("threadIdx.x"))
    lowered = lower_schedule(s, [A, B])
    assert [kernel.grid[0] for kernel in lowered.kernels] == [4, 1]
    assert [buffer.shape for buffer in lowered.workspaces] == [(4, 5)]
    a = some(5, 64)
    check(s, [A, B], [a], a.sum(axis=1))


def test_rfactor_of_a_length_that_does_not_divide():
    A, B = row_sum(4, 50)
    s = te.create_schedule(B.op)
    _, ki = s[B].split(B.op.reduce_axis[0], factor=16)
    s.rfactor(B, ki)
    a = some(4, 50)
    check(s, [A, B], [a], a.sum(axis=1))


@pytest.mark.parametrize("threads", [0, 4, 6, 64])
def test_argmax_reduces_index_and_value_together(threads):
    A, at, value = argmax(4, 70)
    s = te.create_schedule(at.op)
    if threads:
        _, lane = s[at].split(s[at].op.reduce_axis[0], factor=threads)
        s[at].bind(s[at].op.axis[0], te.thread_axis("blockIdx.x"))
        s[at].bind(lane, te.thread_axis("threadIdx.x"))
    a = np.random.default_rng(1).permutation(280).reshape(4, 70).astype("float32")
    check(s, [A, at, value], [a], (a.argmax(axis=1), a.max(axis=1)))


def test_softmax_with_every_stage_in_one_block():
    n, m = 3, 40
    A = te.placeholder((n, m), name="A")
    k, r = te.reduce_axis((0, m), name="k"), te.reduce_axis((0, m), name="r")
    top = te.compute((n,), lambda i: te.max(A[i, k], axis=k), name="top")
    e = te.compute((n, m), lambda i, j: te.exp(A[i, j] - top[i]), name="e")
    total = te.compute((n,), lambda i: te.sum(e[i, r], axis=r), name="total")
    out = te.compute((n, m), lambda i, j: e[i, j] / total[i], name="out")
    s = te.create_schedule(out.op)
    row = s[out].op.axis[0]
    s[out].bind(row, te.thread_axis("blockIdx.x"))
    _, lane = s[out].split(s[out].op.axis[1], factor=16)
    s[out].bind(lane, te.thread_axis("threadIdx.x"))
    for T in (top, total):
        _, lane = s[T].split(s[T].op.reduce_axis[0], factor=16)
        s[T].bind(lane, te.thread_axis("threadIdx.x"))
        s[T].set_scope("shared")
        s[T].compute_at(s[out], row)
    _, lane = s[e].split(s[e].op.axis[1], factor=16)
    s[e].bind(lane, te.thread_axis("threadIdx.x"))
    s[e].set_scope("shared")
    s[e].compute_at(s[out], row)
    a = some(n, m)
    x = np.exp(a - a.max(axis=1, keepdims=True))
    check(s, [A, out], [a], x / x.sum(axis=1, keepdims=True))


def test_a_full_reduction_has_no_axis():
    A = te.placeholder((6, 7), name="A")
    i, j = te.reduce_axis((0, 6), name="i"), te.reduce_axis((0, 7), name="j")
    B = te.compute((), lambda: te.sum(A[i, j], axis=[i, j]), name="B")
    s = te.create_schedule(B.op)
    a = some(6, 7)
    check(s, [A, B], [a], a.sum())


def test_where_and_init_of_a_reduction():
    A = te.placeholder((5, 9), name="A")
    k = te.reduce_axis((0, 9), name="k")
    B = te.compute(
        (5,),
        lambda i: te.sum(A[i, k], axis=k, where=k.var % 2 == 1, init=te.const(3.0, "float32")),
        name="B",
    )
    s = te.create_schedule(B.op)
    a = some(5, 9)
    check(s, [A, B], [a], 3 + a[:, 1::2].sum(axis=1))


@pytest.mark.parametrize("scope", ["global", "shared", "local"])
def test_a_first_value_counts_once_where_threads_share_a_sum(scope):
    A, first = te.placeholder((4, 12), name="A"), te.placeholder((4,), name="first")
    k = te.reduce_axis((0, 12), name="k")
    B = te.compute((4,), lambda i: te.sum(A[i, k], axis=k, init=first[i]), name="B")
    C = te.compute((4, 4), lambda i, j: B[i] * A[i, j], name="C")
    s = te.create_schedule(C.op)
    s[C].bind(s[C].op.axis[0], te.thread_axis("blockIdx.x"))
    s[C].bind(s[C].op.axis[1], te.thread_axis("threadIdx.x"))
    _, lane = s[B].split(s[B].op.reduce_axis[0], factor=4)
    s[B].bind(lane, te.thread_axis("threadIdx.x"))
    if scope == "global":
        s[B].bind(s[B].op.axis[0], te.thread_axis("blockIdx.x"))
    else:
        s[B].set_scope(scope)
        s[B].compute_at(s[C], s[C].op.axis[0])
    a, f = some(4, 12), some(4)
    total = (f + a.sum(axis=1))[:, None]
    check(s, [A, first, C], [a, f], total * a[:, :4])


def test_a_reduction_range_need_not_begin_at_zero():
    A = te.placeholder((12,), name="A")
    k = te.reduce_axis((3, 9), name="k")
    B = te.compute((1,), lambda i: te.max(A[k], axis=k), name="B")
    s = te.create_schedule(B.op)
    s[B].split(s[B].op.reduce_axis[0], factor=4)
    a = some(12)
    check(s, [A, B], [a], a[3:9].max(keepdims=True))


def test_several_outputs_of_one_compute():
    A = te.placeholder((9,), name="A")
    twice, square = te.compute((9,), lambda i: (A[i] * 2.0, A[i] * A[i]), name="P")
    C = te.compute((9,), lambda i: twice[i] + square[i], name="C")
    s = te.create_schedule(C.op)
    _, inner = s[C].split(s[C].op.axis[0], factor=4)
    s[twice].compute_at(s[C], inner)
    a = some(9)
    check(s, [A, C], [a], a * 2 + a * a)


def test_an_attached_reduction_is_initialised_each_time():
    A = te.placeholder((6, 5), name="A")
    k = te.reduce_axis((0, 5), name="k")
    B = te.compute((6,), lambda i: te.sum(A[i, k], axis=k), name="B")
    C = te.compute((6,), lambda i: Max(B[i], te.const(0.0, "float32")), name="C")
    s = te.create_schedule(C.op)
    s[B].compute_at(s[C], s[C].op.axis[0])
    a = some(6, 5)
    check(s, [A, C], [a], np.maximum(a.sum(axis=1), 0))


def test_stages_that_bind_fewer_threads_store_from_one():
    A = te.placeholder((4, 8), name="A")
    k = te.reduce_axis((0, 8), name="k")
    mean = te.compute((4,), lambda i: te.sum(A[i, k], axis=k), name="mean")
    B = te.compute((4, 8), lambda i, j: A[i, j] - mean[i], name="B")
    s = te.create_schedule(B.op)
    s[B].bind(s[B].op.axis[0], te.thread_axis("blockIdx.x"))
    s[B].bind(s[B].op.axis[1], te.thread_axis("threadIdx.x"))
    s[mean].set_scope("shared")
    s[mean].compute_at(s[B], s[B].op.axis[0])
    a = some(4, 8)
    text = check(s, [A, B], [a], a - a.sum(axis=1, keepdims=True))
    assert "if threadIdx.x == 0" in text
