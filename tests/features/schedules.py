"""Small schedules whose loops can be followed by hand."""

from autotune import te


def gemm(n=128, names=("A", "B", "C"), axes=("y", "x", "k")):
    """Return a plain product of square matrices: its schedule and tensors."""
    k = te.reduce_axis((0, n), axes[2])
    a, b = te.placeholder((n, n), name=names[0]), te.placeholder((n, n), name=names[1])
    c = te.compute(
        (n, n),
        lambda *at: te.sum(a[at[0], k] * b[k, at[1]], axis=k),
        name=names[2],
        varargs_names=axes[:2],
    )
    return te.create_schedule(c.op), [a, b, c]


def tiled_gemm(y_factor=32, x_factor=16, **how):
    """Return the product in tiles, the innermost loop vectorized."""
    s, tensors = gemm(**how)
    stage = s[tensors[2]]
    (y, x), (k,) = tensors[2].op.axis, tensors[2].op.reduce_axis
    yo, yi = stage.split(y, y_factor)
    xo, xi = stage.split(x, x_factor)
    stage.reorder(yo, xo, k, yi, xi)
    stage.vectorize(xi)
    return s, tensors


def cuda_conv(shared=False):
    """Return a convolution of 8 filters, one a block, with a thread for each of 8x8 outputs."""
    data, kernel = te.placeholder((4, 10, 10), name="D"), te.placeholder((8, 4, 3, 3), name="W")
    c, i, j = (te.reduce_axis((0, n), name) for name, n in (("c", 4), ("i", 3), ("j", 3)))
    out = te.compute(
        (8, 8, 8),
        lambda f, y, x: te.sum(data[c, y + i, x + j] * kernel[f, c, i, j], axis=[c, i, j]),
        name="O",
    )
    s = te.create_schedule(out.op)
    for axis, tag in zip(out.op.axis, ("blockIdx.x", "threadIdx.y", "threadIdx.x"), strict=True):
        s[out].bind(axis, te.thread_axis(tag))
    if shared:
        copy = s.cache_read(kernel, "shared", [out])
        s[copy].compute_at(s[out], s[out].op.reduce_axis[0])
        s[copy].bind(s[copy].split(s[copy].op.axis[3], 8)[1], te.thread_axis("threadIdx.x"))
    return s, [data, kernel, out]
