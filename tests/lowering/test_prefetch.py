"""Hints to fetch what later iterations read: they name it, and change no result."""

import numpy as np
import pytest

from autotune import build, lower, te
from autotune.driver.kernel_hash import schedule_hash
from autotune.errors import LoweringError, ScheduleError


def product(n=64, offset=1, primitive=True):
    a, b = te.placeholder((n, n), name="A"), te.placeholder((n, n), name="B")
    k = te.reduce_axis((0, n), "k")
    c = te.compute((n, n), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    s = te.create_schedule(c.op)
    io, ii = s[c].split(c.op.axis[0], factor=4)
    s[c].reorder(io, k, ii, c.op.axis[1])
    if primitive:
        s[c].prefetch(a, io, offset)
        s[c].prefetch(b, k, 2 * offset)
    return s, [a, b, c]


def test_what_a_later_iteration_reads_is_fetched_line_by_line():
    text = str(lower(*product()))
    assert "extern.__builtin_prefetch(&A[i.outer * 256 + ahead0 * 64 + ahead1 * 16 + 256])" in text
    assert "extern.__builtin_prefetch(&B[k * 64 + ahead1.1 * 16 + 128])" in text
    assert "for ahead0 in 0..4:" in text
    assert "for ahead1 in 0..4:" in text
    assert "for ahead1.1 in 0..4:" in text


@pytest.mark.parametrize("offset", [-1, 3])
def test_hints_change_no_result(offset):
    a, b = (np.random.default_rng(i).integers(-4, 5, (64, 64)).astype("float32") for i in (0, 1))
    found = np.zeros((64, 64), "float32")
    function = build(*product(offset=offset), "llvm")
    function(a, b, found)
    np.testing.assert_array_equal(found, a @ b)
    assert "__builtin_prefetch(" in function.get_source()


def test_a_gpu_gets_no_hints():
    a = te.placeholder((64,), name="A")
    b = te.compute((64,), lambda i: a[i] + 1.0, "B")
    s = te.create_schedule(b.op)
    s[b].prefetch(a, b.op.axis[0], 4)
    s[b].bind(b.op.axis[0], te.thread_axis("threadIdx.x"))
    assert "prefetch" not in str(lower(s, [a, b]))


def test_steps_of_hints_are_replayed_and_hashed():
    schedule, args = product()
    again = te.replay(schedule.outputs, schedule.steps)
    assert str(lower(again, args)) == str(lower(schedule, args))
    hashes = {schedule_hash(*product(offset=n)) for n in (1, 2)}
    assert len({*hashes, schedule_hash(*product(primitive=False))}) == 3


def test_only_what_a_stage_reads_is_fetched():
    schedule, (a, _, c) = product(primitive=False)
    with pytest.raises(ScheduleError, match=r"prefetch\(C\): expected a tensor that it reads"):
        schedule[c].prefetch(c, c.op.axis[1], 1)
    x = te.placeholder((8,), "int32", "x")
    y = te.compute((8,), lambda i: a[0, x[i]], "y")
    s = te.create_schedule(y.op)
    s[y].prefetch(a, y.op.axis[0], 1)
    with pytest.raises(LoweringError, match="prefetch: y of A: where it is read depends on data"):
        lower(s, [a, x, y])
