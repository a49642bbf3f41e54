"""A stencil over three axes."""

from autotune import te
from tests.golden.case import bind, case


def stencil(d=10, h=12, w=16):
    x = te.placeholder((d, h, w), name="X")
    return x, te.compute(
        (d - 2, h - 2, w - 2),
        lambda i, j, k: x[i + 1, j + 1, k + 1] * 0.5 + x[i, j + 1, k + 1] + x[i + 2, j + 1, k + 1],
        name="Y",
    )


@case("c")
def stencil_tiled():
    x, y = stencil()
    s = te.create_schedule(y.op)
    i, j, k = y.op.axis
    s[y].tile(j, k, 5, 7)
    s[y].parallel(i)
    return s, [x, y]


@case("cuda")
def stencil_bound():
    x, y = stencil()
    s = te.create_schedule(y.op)
    i, j, k = y.op.axis
    bind(s[y], bx=i, ty=j, tx=k)
    return s, [x, y]
