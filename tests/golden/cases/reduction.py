"""Sums of rows and of all, and the place of the greatest."""

from autotune import te
from tests.golden.case import bind, case, flat


def row_sum(m=16, n=256, dtype="float32"):
    x = te.placeholder((m, n), name="X", dtype=dtype)
    k = te.reduce_axis((0, n), "k")
    return x, te.compute((m,), lambda i: te.sum(x[i, k], axis=k), name="S")


def total(n=1000):
    x = te.placeholder((n,), name="X")
    k = te.reduce_axis((0, n), "k")
    return x, te.compute((), lambda: te.sum(x[k], axis=k), name="total")


def argmax(m=8, n=64):
    x = te.placeholder((m, n), name="X")
    k = te.reduce_axis((0, n), "k")
    pick = te.comm_reducer(
        lambda p, q: (
            te.if_then_else(p[1] >= q[1], p[0], q[0]),
            te.if_then_else(p[1] >= q[1], p[1], q[1]),
        ),
        lambda t0, t1: (te.const(-1, t0), te.min_value(t1)),
        name="argmax",
    )
    where, top = te.compute((m,), lambda i: pick((k.var, x[i, k]), axis=k), name="best")
    return x, where, top


@case("c")
def row_sum_plain():
    x, y = row_sum()
    return te.create_schedule(y.op), [x, y]


@case("c")
def row_sum_reordered():
    x, y = row_sum()
    s = te.create_schedule(y.op)
    s[y].reorder(y.op.reduce_axis[0], y.op.axis[0])
    return s, [x, y]


@case("c")
def row_sum_rfactor():
    x, y = row_sum()
    s = te.create_schedule(y.op)
    _, inner = s[y].split(y.op.reduce_axis[0], factor=8)
    factor = s.rfactor(y, inner)
    s[factor].compute_at(s[y], s[y].op.axis[0])
    return s, [x, y]


@case("cuda")
def row_sum_one_warp():
    x, y = row_sum()
    s = te.create_schedule(y.op)
    _, inner = s[y].split(y.op.reduce_axis[0], factor=32)
    bind(s[y], bx=y.op.axis[0], tx=inner)
    return s, [x, y]


@case("cuda")
def row_sum_many_warps():
    x, y = row_sum()
    s = te.create_schedule(y.op)
    _, inner = s[y].split(y.op.reduce_axis[0], factor=128)
    bind(s[y], bx=y.op.axis[0], tx=inner)
    return s, [x, y]


@case("cuda")
def row_sum_split_k():
    x, y = row_sum()
    s = te.create_schedule(y.op)
    outer, _ = s[y].split(y.op.reduce_axis[0], nparts=4)
    factor = s.rfactor(y, outer)
    bind(s[factor], by=s[factor].op.axis[0], bx=s[factor].op.axis[1])
    flat(s[y], 16)
    return s, [x, y]


@case("c")
def total_plain():
    x, y = total()
    return te.create_schedule(y.op), [x, y]


@case("cuda")
def total_one_block():
    x, y = total()
    s = te.create_schedule(y.op)
    _, inner = s[y].split(y.op.reduce_axis[0], factor=64)
    bind(s[y], tx=inner)
    return s, [x, y]


@case("c", "cuda")
def argmax_rows(language):
    x, where, top = argmax()
    s = te.create_schedule(where.op)
    if language == "cuda":
        flat(s[where], 8)
    return s, [x, where, top]
