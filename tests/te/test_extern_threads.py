"""Hand-written statements of threads, and the barriers between them, on an emulated GPU."""

import numpy as np
import pytest

from autotune import build, lower, te
from autotune.errors import LoweringError
from autotune.te import ir_builder


def through_threads(statements, threads=64):
    """Return the schedule of what the threads of a block do with an input and an output."""
    a = te.placeholder((threads,), "int32", name="A")

    def body(ins, outs):
        ib, thread = ir_builder.create(), te.thread_axis("threadIdx.x")
        ib.scope_attr(thread, "thread_extent", threads)
        part = ib.allocate("int32", (threads,), name="part", scope="shared")
        statements(ib, thread, part, *map(ib.buffer_ptr, (*ins, *outs)))
        return ib.get()

    b = te.extern((threads,), [a], body, "B")
    return te.create_schedule(b.op), [a, b]


def reversed_halves(ib, thread, part, x, y):
    part[thread] = 0
    with ib.if_scope(thread < 32):
        part[63 - thread] = x[thread]
    y[thread] = part[thread]


def rotated(ib, thread, part, x, y):
    with ib.for_range(0, 3, name="k") as k:
        y[te.indexmod(thread + k, 64)] = x[thread] + k


GIVEN = np.arange(1, 65, dtype="int32")
# Statements in which threads overwrite what others wrote, and what they leave.
OVERWRITING = (
    (reversed_halves, np.concatenate([np.zeros(32), GIVEN[:32][::-1]])),
    (rotated, np.roll(GIVEN, 2) + 2),
)


def test_what_other_threads_wrote_is_overwritten_after_a_barrier():
    for statements, right in OVERWRITING:
        found = np.zeros(64, "int32")
        build(*through_threads(statements), "cuda -emulate")(GIVEN, found)
        np.testing.assert_array_equal(found, right)


def test_a_barrier_that_some_threads_never_reach_is_refused():
    def turns(ib, thread, part, x, y):
        part[thread] = x[thread]
        with ib.for_range(0, thread) as k:
            part[thread] = part[thread] + k
            y[thread] = part[63 - thread]

    with pytest.raises(LoweringError, match=r"run the loop `for i in 0..threadIdx.x`.*single acc"):
        lower(*through_threads(turns))
