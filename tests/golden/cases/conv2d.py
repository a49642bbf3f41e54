"""A convolution: padding inlined or attached, and tiles in shared memory."""

from autotune import te
from tests.golden.case import bind, case


def conv2d(channels=4, filters=8, size=14, stride=1):
    x = te.placeholder((1, channels, size, size), name="data")
    w = te.placeholder((filters, channels, 3, 3), name="kernel")
    pad = te.compute(
        (1, channels, size + 2, size + 2),
        lambda n, c, h, v: te.if_then_else(
            te.all(h >= 1, h < size + 1, v >= 1, v < size + 1), x[n, c, h - 1, v - 1], 0.0
        ),
        name="pad_temp",
    )
    out = (size - 1) // stride + 1
    rc = te.reduce_axis((0, channels), "rc")
    ry, rx = te.reduce_axis((0, 3), "ry"), te.reduce_axis((0, 3), "rx")
    y = te.compute(
        (1, filters, out, out),
        lambda n, f, h, v: te.sum(
            pad[n, rc, h * stride + ry, v * stride + rx] * w[f, rc, ry, rx], axis=[rc, ry, rx]
        ),
        name="compute",
    )
    return x, w, pad, y


@case("c")
def conv2d_plain():
    x, w, _, y = conv2d()
    return te.create_schedule(y.op), [x, w, y]


@case("c")
def conv2d_inline_pad():
    x, w, pad, y = conv2d()
    s = te.create_schedule(y.op)
    s[pad].compute_inline()
    s[y].parallel(y.op.axis[1])
    s[y].unroll(y.op.reduce_axis[2])
    return s, [x, w, y]


@case("c")
def conv2d_attached_pad():
    x, w, pad, y = conv2d(stride=2)
    s = te.create_schedule(y.op)
    s[pad].compute_at(s[y], y.op.axis[2])
    return s, [x, w, y]


@case("cuda")
def conv2d_direct():
    x, w, pad, y = conv2d()
    s = te.create_schedule(y.op)
    s[pad].compute_inline()
    local = s.cache_write(y, "local")
    tiles = [s.cache_read(t, "shared", [local]) for t in (pad, w)]
    n, f, h, v = s[y].op.axis
    fo, fi = s[y].split(f, factor=2)
    fo, fv = s[y].split(fo, factor=2)
    ho, hi = s[y].split(h, factor=7)
    s[y].reorder(n, fo, ho, fv, hi, v, fi)
    bind(s[y], bz=n, by=fo, bx=ho, v=fv, ty=hi, tx=v)
    s[local].compute_at(s[y], v)
    rc, ry, rx = s[local].op.reduce_axis
    ro, ri = s[local].split(rc, factor=2)
    s[local].reorder(ro, ri, ry, rx, *s[local].op.axis)
    for tile in tiles:
        s[tile].compute_at(s[local], ro)
        fused = s[tile].fuse(*s[tile].op.axis)
        fused, lane = s[tile].split(fused, factor=14)
        _, row = s[tile].split(fused, factor=7)
        bind(s[tile], ty=row, tx=lane)
    s[y].pragma(fo, "auto_unroll_max_step", 16)
    s[y].pragma(fo, "unroll_explicit", False)
    return s, [x, w, y]
