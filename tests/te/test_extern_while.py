"""Loops of hand-written statements that a condition ends."""

import numpy as np
import pytest

from autotune import build, lower, te
from autotune.errors import ExpressionError, LoweringError
from autotune.te import ir_builder


def steps_to_one(threads=False):
    """Return how often numbers are halved, or tripled if odd, until they are 1."""
    a = te.placeholder((8,), "int32", "A")

    def statements(ins, outs):
        ib = ir_builder.create()
        x, y = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0])
        if threads:
            i = te.thread_axis("threadIdx.x")
            ib.scope_attr(i, "thread_extent", 8)
            count(ib, x, y, i)
        else:
            with ib.for_range(0, 8, name="i") as i:
                count(ib, x, y, i)
        return ib.get()

    def count(ib, x, y, i):
        at = ib.allocate("int32", (1,), name="at")
        at[0] = x[i]
        y[i] = 0
        with ib.while_loop(at[0] > 1):
            with ib.if_scope(at[0] % 2 == 0):
                at[0] = te.floordiv(at[0], 2)
            with ib.else_scope():
                at[0] = at[0] * 3 + 1
            y[i] = y[i] + 1

    b = te.extern((8,), [a], statements, "B")
    return te.create_schedule(b.op), [a, b]


@pytest.mark.parametrize("target", ["llvm", "cuda -emulate"])
def test_a_loop_runs_as_long_as_its_condition_holds(target):
    schedule, args = steps_to_one(threads=target != "llvm")
    assert "while at[0] > 1:" in str(lower(schedule, args))
    found = np.zeros(8, "int32")
    build(schedule, args, target)(np.arange(1, 9, dtype="int32"), found)
    np.testing.assert_array_equal(found, [0, 1, 7, 2, 5, 8, 16, 3])


def reversals(until):
    """Return a row of shared memory, reversed as long as a condition holds."""
    limit = te.placeholder((1,), "int32", "limit")

    def statements(ins, outs):
        ib = ir_builder.create()
        n, y = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0])
        i = te.thread_axis("threadIdx.x")
        ib.scope_attr(i, "thread_extent", 8)
        row = ib.allocate("int32", (8,), name="row", scope="shared")
        other = ib.allocate("int32", (1,), name="other")
        row[i] = i
        with ib.while_loop(until(n, row, i)):
            other[0] = row[7 - i]
            row[i] = other[0] + 1
        y[i] = row[7 - i]
        return ib.get()

    b = te.extern((8,), [limit], statements, "B")
    return te.create_schedule(b.op), [limit, b]


def test_a_loop_that_threads_leave_at_different_times_holds_no_barrier():
    with pytest.raises(LoweringError, match=r"run the loop `while row\[threadIdx.x\] < 9` need a"):
        lower(*reversals(lambda n, row, i: row[i] < 9))


def test_a_loop_that_all_threads_leave_together_has_barriers_where_they_meet():
    text = str(lower(*reversals(lambda n, row, i: n[0] > 8)))
    lines = [line.split()[0] for line in text.splitlines()]
    first = lines.index("while") + 1
    assert lines[first : first + 4] == [
        "other[0]", "barrier(shared)", "row[threadIdx.x]", "barrier(shared)"
    ]  # fmt: skip


def test_lanes_of_a_vectorized_loop_run_a_while_loop_one_by_one():
    a = te.placeholder((8,), "int32", "A")

    def statements(ins, outs):
        ib = ir_builder.create()
        x, y = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0])
        with ib.for_range(0, 8, name="i", kind="vectorize") as i:
            y[i] = 0
            with ib.while_loop(y[i] < x[i]):
                y[i] = y[i] + 3
        return ib.get()

    b = te.extern((8,), [a], statements, "B")
    found = np.zeros(8, "int32")
    build(te.create_schedule(b.op), [a, b], "llvm")(np.arange(8, dtype="int32"), found)
    np.testing.assert_array_equal(found, [0, 3, 3, 3, 6, 6, 6, 9])


def test_a_condition_is_a_number_or_a_comparison():
    ib = ir_builder.create()
    with pytest.raises(ExpressionError, match=r"while_loop: expected a condition, got 1\.5"):
        ib.while_loop(te.const(1.5, "float32"))
