"""Transposition, in tiles and through shared memory."""

from autotune import te
from tests.golden.case import bind, case


def transpose(m=64, n=48):
    x = te.placeholder((m, n), name="X")
    return x, te.compute((n, m), lambda i, j: x[j, i], name="T")


@case("cuda")
def transpose_shared():
    x, t = transpose()
    s = te.create_schedule(t.op)
    cache = s.cache_read(x, "shared", [t])
    i, j = s[t].op.axis
    io, jo, ii, ji = s[t].tile(i, j, 16, 16)
    bind(s[t], by=io, bx=jo, ty=ii, tx=ji)
    s[cache].compute_at(s[t], jo)
    a, b = s[cache].op.axis
    bind(s[cache], ty=a, tx=b)
    s[cache].storage_align(a, 16, 1)
    return s, [x, t]


@case("c")
def transpose_tiled():
    x, t = transpose()
    s = te.create_schedule(t.op)
    s[t].tile(*t.op.axis, 8, 8)
    return s, [x, t]
