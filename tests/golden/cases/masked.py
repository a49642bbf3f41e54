"""Sums of which a part of the terms is needed: those up to a row, or of a window before it."""

from autotune import te
from autotune.te.intrinsics import needed
from tests.golden.case import bind, case, fetch


def masked(window=None, n=64):
    x, w = te.placeholder((n, n), name="X"), te.placeholder((n,), name="W")
    k = te.reduce_axis((0, n), "k")

    def row(i):
        seen = k <= i if window is None else te.all(k <= i, k > i - window)
        value = te.if_then_else(seen, x[i, k] * w[k], te.const(0.0))
        return te.sum(value, axis=k, where=needed(seen))

    return x, w, te.compute((n,), row, name="S")


@case("c")
def masked_sum():
    *inputs, y = masked()
    return te.create_schedule(y.op), [*inputs, y]


@case("c")
def masked_window():
    *inputs, y = masked(20)
    return te.create_schedule(y.op), [*inputs, y]


def _in_chunks(window):
    """Blocks of 16 rows; chunks of 8 terms are copied two ahead."""
    x, w, y = masked(window)
    s = te.create_schedule(y.op)
    shared = s.cache_read(w, "shared", [y])
    block, thread = s[y].split(y.op.axis[0], factor=16)
    bind(s[y], bx=block, tx=thread)
    outer, _ = s[y].split(y.op.reduce_axis[0], factor=8)
    s[shared].compute_at(s[y], outer)
    s[shared].async_copy(3)
    fetch(s[shared], 16)
    return s, [x, w, y]


@case("cuda")
def masked_sum_in_chunks():
    return _in_chunks(None)


@case("cuda")
def masked_window_in_chunks():
    return _in_chunks(20)
