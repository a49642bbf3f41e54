"""The estimate of the time of schedules on a GPU."""

import math

from autotune import te, topi
from autotune.features import estimated_seconds
from autotune.target import Target

LIMITS = Target("cuda -arch=sm_90").limits


def copy(n, threads, step=1):
    """A copy of every ``step``-th element, by blocks of so many threads."""
    a = te.placeholder((n * step,), name="A")
    b = te.compute((n,), lambda i: a[i * step], name="B")
    s = te.create_schedule(b.op)
    block, thread = s[b].split(b.op.axis[0], factor=threads)
    s[b].bind(block, te.thread_axis("blockIdx.x"))
    s[b].bind(thread, te.thread_axis("threadIdx.x"))
    return s, [a, b]


def product(n, threads, own, staged=True):
    """A product of square matrices, a square of ``threads`` x ``threads`` a block."""
    a, b = (te.placeholder((n, n), name=name) for name in "AB")
    c = topi.nn.matmul(a, b)
    s = te.create_schedule([c.op])
    local = s.cache_write(c, "local")
    shared = [s.cache_read(each, "shared", [local]) for each in (a, b)] if staged else []
    loops = []
    for axis in c.op.axis:
        block, rest = s[c].split(axis, factor=threads * own)
        loops.append((block, *s[c].split(rest, nparts=threads)))
    (bi, ti, oi), (bj, tj, oj) = loops
    s[c].reorder(bi, bj, ti, tj, oi, oj)
    for loop, tag in ((bi, "blockIdx.y"), (bj, "blockIdx.x")):
        s[c].bind(loop, te.thread_axis(tag))
    for loop, tag in ((ti, "threadIdx.y"), (tj, "threadIdx.x")):
        s[c].bind(loop, te.thread_axis(tag))
    s[local].compute_at(s[c], tj)
    outer, inner = s[local].split(s[local].op.reduce_axis[0], factor=8)
    s[local].reorder(outer, inner, *s[local].op.axis)
    for each in shared:
        s[each].compute_at(s[local], outer)
        fused = s[each].fuse(*s[each].op.axis)
        for tag in ("threadIdx.x", "threadIdx.y"):
            fused, mine = s[each].split(fused, factor=threads)
            s[each].bind(mine, te.thread_axis(tag))
    return s, [a, b, c]


def seconds(made):
    return estimated_seconds(*made, LIMITS)


def test_neighbours_in_memory_take_less_time_than_elements_that_are_apart():
    assert seconds(copy(1 << 22, 256)) < seconds(copy(1 << 22, 256, step=8))


def test_parts_of_threads_take_less_time_than_single_elements():
    assert seconds(product(1024, 16, 4)) < seconds(product(1024, 16, 1))


def test_few_threads_take_more_time():
    assert seconds(product(1024, 16, 4)) < seconds(product(1024, 2, 4))


def test_more_work_takes_more_time():
    assert seconds(product(512, 16, 4)) < seconds(product(1024, 16, 4)) < 1e-3


def test_what_does_not_fit_the_device_takes_forever():
    assert seconds(product(4096, 64, 1)) == math.inf


def test_loops_that_are_written_out_take_less_time_than_those_left_to_the_compiler():
    def unrolled(most, explicit):
        s, args = product(1024, 16, 4)
        c = s[args[2]]
        c.pragma(c.leaf_iter_vars[0], "auto_unroll_max_step", most)
        c.pragma(c.leaf_iter_vars[0], "unroll_explicit", explicit)
        return seconds((s, args))

    assert unrolled(512, 1) < unrolled(512, 0) == unrolled(0, 1)
