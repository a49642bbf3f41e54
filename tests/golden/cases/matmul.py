"""Matrix products without shared memory."""

from autotune import te
from tests.golden.case import bind, case


def matmul(m=64, n=64, k=64, dtype="float32", accumulate=None):
    a, b = (
        te.placeholder((m, k), name="A", dtype=dtype),
        te.placeholder((k, n), name="B", dtype=dtype),
    )
    r = te.reduce_axis((0, k), "k")
    wide = accumulate or dtype
    return (
        a,
        b,
        te.compute(
            (m, n),
            lambda i, j: te.sum(a[i, r].astype(wide) * b[r, j].astype(wide), axis=r),
            name="C",
        ),
    )


@case("c")
def matmul_plain():
    *inputs, c = matmul()
    return te.create_schedule(c.op), [*inputs, c]


@case("c")
def matmul_tiled():
    *inputs, c = matmul()
    s = te.create_schedule(c.op)
    i, j = c.op.axis
    io, jo, ii, ji = s[c].tile(i, j, 8, 16)
    ko, ki = s[c].split(c.op.reduce_axis[0], factor=4)
    s[c].reorder(io, jo, ko, ii, ki, ji)
    s[c].vectorize(ji)
    s[c].parallel(io)
    return s, [*inputs, c]


@case("c")
def matmul_cached():
    *inputs, c = matmul()
    s = te.create_schedule(c.op)
    cache = s.cache_write(c, "global")
    i, j = c.op.axis
    _, jo, _, ji = s[c].tile(i, j, 8, 16)
    s[cache].compute_at(s[c], jo)
    s[c].vectorize(ji)
    return s, [*inputs, c]


@case("c")
def matmul_packed():
    a, b, c = matmul()
    s = te.create_schedule(c.op)
    packed = s.cache_read(b, "global", [c])
    _, jo, _, _ = s[c].tile(*c.op.axis, 8, 16)
    s[packed].compute_at(s[c], jo)
    return s, [a, b, c]


@case("c")
def matmul_odd_sizes():
    *inputs, c = matmul(19, 23, 17)
    s = te.create_schedule(c.op)
    s[c].tile(*c.op.axis, 8, 8)
    s[c].split(c.op.reduce_axis[0], factor=4)
    return s, [*inputs, c]


@case("cuda")
def matmul_naive():
    *inputs, c = matmul()
    s = te.create_schedule(c.op)
    io, jo, ii, ji = s[c].tile(*c.op.axis, 16, 16)
    bind(s[c], by=io, bx=jo, ty=ii, tx=ji)
    return s, [*inputs, c]
