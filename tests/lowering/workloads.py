"""Small computations with their numpy references, for running schedules on."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from autotune import te


@dataclass
class Workload:
    """Tensors to schedule and what they should hold; ``chain`` are computes before the output."""

    args: list
    output: Any
    chain: list
    reference: Any

    def arrays(self, seed=0):
        rng = np.random.default_rng(seed)
        made = []
        for tensor in self.args:
            made.append(rng.integers(-4, 5, tensor.shape).astype(tensor.dtype))
        made[-1][...] = -99
        return made


def matmul(n=13, m=10, k=7):
    A, B = te.placeholder((n, k), name="A"), te.placeholder((k, m), name="B")
    r = te.reduce_axis((0, k), name="k")
    C = te.compute((n, m), lambda i, j: te.sum(A[i, r] * B[r, j], axis=r), name="C")
    return Workload([A, B, C], C, [], lambda a, b: a @ b)


def padded_conv(h=6, w=5, ci=3, co=4):
    data = te.placeholder((ci, h, w), name="data")
    kernel = te.placeholder((co, ci, 3, 3), name="kernel")
    pad = te.compute(
        (ci, h + 2, w + 2),
        lambda c, y, x: te.if_then_else(
            te.all(y >= 1, y < h + 1, x >= 1, x < w + 1), data[c, y - 1, x - 1], 0.0
        ),
        name="pad",
    )
    c, i, j = (te.reduce_axis((0, n), name=s) for n, s in ((ci, "c"), (3, "i"), (3, "j")))
    out = te.compute(
        (co, h, w),
        lambda f, y, x: te.sum(pad[c, y + i, x + j] * kernel[f, c, i, j], axis=[c, i, j]),
        name="conv",
    )

    def reference(d, k):
        p = np.pad(d, ((0, 0), (1, 1), (1, 1)))
        windows = np.lib.stride_tricks.sliding_window_view(p, (3, 3), axis=(1, 2))
        return np.einsum("chwij,fcij->fhw", windows, k)

    return Workload([data, kernel, out], out, [pad], reference)


def strided_pool(h=9, w=8):
    data = te.placeholder((h, w), name="data")
    i, j = te.reduce_axis((0, 3), name="i"), te.reduce_axis((0, 2), name="j")
    out = te.compute(
        ((h - 3) // 2 + 1, w // 2),
        lambda y, x: te.max(data[y * 2 + i, x * 2 + j], axis=[i, j]),
        name="pool",
    )

    def reference(d):
        windows = np.lib.stride_tricks.sliding_window_view(d, (3, 2))
        return windows[::2, ::2].max(axis=(2, 3))

    return Workload([data, out], out, [], reference)


def row_sum(n=5, m=24):
    A = te.placeholder((n, m), name="A")
    k = te.reduce_axis((0, m), name="k")
    B = te.compute((n,), lambda i: te.sum(A[i, k], axis=k), name="B")
    return Workload([A, B], B, [], lambda a: a.sum(axis=1))


def elementwise(n=7, m=12):
    A, B = te.placeholder((n, m), name="A"), te.placeholder((m,), name="B")
    T = te.compute((n, m), lambda i, j: A[i, j] * 2.0 + B[j], name="T")
    C = te.compute((m, n), lambda i, j: T[j, i] - 1.0, name="C")
    return Workload([A, B, C], C, [T], lambda a, b: (a * 2 + b).T - 1)


def blur(n=11, m=9):
    """Two stages with a halo between them."""
    A = te.placeholder((n + 2, m + 2), name="A")
    H = te.compute((n + 2, m), lambda y, x: A[y, x] + A[y, x + 1] + A[y, x + 2], name="H")
    V = te.compute((n, m), lambda y, x: H[y, x] + H[y + 1, x] + H[y + 2, x], name="V")

    def reference(a):
        h = a[:, :-2] + a[:, 1:-1] + a[:, 2:]
        return h[:-2] + h[1:-1] + h[2:]

    return Workload([A, V], V, [H], reference)


def depth_to_rows(n=4, m=6, k=5):
    """A reshape: division and remainder by constants in the index."""
    A = te.placeholder((n, m, k), name="A")
    B = te.compute((n * m * k,), lambda i: A[i // (m * k), i // k % m, i % k] + 1.0, name="B")
    return Workload([A, B], B, [], lambda a: a.reshape(-1) + 1)


ALL = {
    f.__name__: f
    for f in (matmul, padded_conv, strided_pool, row_sum, elementwise, blur, depth_to_rows)
}
