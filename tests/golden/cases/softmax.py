"""Softmax of rows."""

from autotune import te
from tests.golden.case import bind, case


def softmax(m=8, n=100):
    x = te.placeholder((m, n), name="X")
    k, r = te.reduce_axis((0, n), "k"), te.reduce_axis((0, n), "r")
    top = te.compute((m,), lambda i: te.max(x[i, k], axis=k), name="T_max")
    e = te.compute((m, n), lambda i, j: te.exp(x[i, j] - top[i]), name="T_exp")
    total = te.compute((m,), lambda i: te.sum(e[i, r], axis=r), name="T_sum")
    return x, top, e, total, te.compute((m, n), lambda i, j: e[i, j] / total[i], name="T_div")


@case("c")
def softmax_plain():
    x, _, _, _, y = softmax()
    return te.create_schedule(y.op), [x, y]


@case("cuda")
def softmax_block_a_row():
    x, top, e, total, y = softmax()
    s = te.create_schedule(y.op)
    s[e].compute_inline()
    i, j = s[y].op.axis
    _, inner = s[y].split(j, factor=32)
    bind(s[y], bx=i, tx=inner)
    for t in (top, total):
        s[t].compute_at(s[y], i)
        s[t].set_scope("shared")
        _, lane = s[t].split(s[t].op.reduce_axis[0], factor=32)
        bind(s[t], tx=lane)
    return s, [x, y]
