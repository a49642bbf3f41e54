"""Small computations that load under conditions: padding, masks, choices between arrays."""

import numpy as np

from autotune import te
from tests.fuzz.workloads import Workload

DTYPES = ("int32", "int32", "float32", "int8", "float16")


def padded_sums(rng):
    """Sums over a matrix padded by rows of zeros: one row of them has one condition."""
    rows, columns, depth = rng.choice([2, 3, 7]), rng.choice([2, 5, 8]), rng.choice([2, 3, 8])
    before, after = rng.choice([0, 1, 2]), rng.choice([0, 1])
    a = te.placeholder((rows, depth), name="A", dtype="int32")
    b = te.placeholder((columns, depth), name="B", dtype="int32")
    total = rows + before + after
    padded = te.compute(
        (total, depth),
        lambda i, k: te.if_then_else(te.all(i >= before, i < rows + before), a[i - before, k], 0),
        name="padded",
    )
    k = te.reduce_axis((0, depth), "k")
    c = te.compute((total, columns), lambda i, j: te.sum(padded[i, k] * b[j, k], axis=k), name="C")
    return Workload((a, b), (c,), lambda x, y: np.pad(x, ((before, after), (0, 0))) @ y.T, 0)


def shifted(rng):
    """The sum of an array and of itself moved, with zeros where it was moved from."""
    dtype = rng.choice(DTYPES)
    m, n = rng.choice([1, 3, 6]), rng.choice([4, 8, 13, 16])
    down, right = rng.choice([-1, 0, 1]), rng.choice([-3, -1, 2])
    x = te.placeholder((m, n), name="X", dtype=dtype)
    zero = te.const(0, dtype)

    def body(i, j):
        inside = te.all(i >= down, i < m + down, j >= right, j < n + right)
        return te.if_then_else(inside, x[i - down, j - right], zero)

    moved = te.compute((m, n), body, name="moved")
    y = te.compute((m, n), lambda i, j: moved[i, j] + x[i, j], name="Y")

    def reference(a):
        wide = np.pad(a, 3)
        with np.errstate(over="ignore"):
            return a + wide[3 - down : 3 - down + m, 3 - right : 3 - right + n]

    return Workload((x,), (y,), reference, 1e-2 if dtype == "float16" else 0)


def choice(rng):
    """One of two arrays by the sign of a third, both ways of writing it."""
    dtype, form = rng.choice(DTYPES), rng.choice([te.if_then_else, te.select])
    m, n = rng.choice([1, 4, 5]), rng.choice([2, 3, 8, 16, 19])
    c = te.placeholder((m, n), name="c", dtype=rng.choice([dtype, "int32"]))
    a, b = (te.placeholder((m, n), name=name, dtype=dtype) for name in ("a", "b"))
    y = te.compute(
        (m, n), lambda i, j: form(c[i, j] > te.const(0, c.dtype), a[i, j], b[i, j]), name="Y"
    )
    return Workload((c, a, b), (y,), lambda c, a, b: np.where(c > 0, a, b), 0)


def triangle(rng):
    """Sums over the lower triangle of a matrix, or the upper one."""
    n, width, lower = rng.choice([3, 8, 11]), rng.choice([2, 4, 5]), rng.choice([True, False])
    x = te.placeholder((n, n), name="X", dtype="int32")
    w = te.placeholder((n, width), name="W", dtype="int32")
    masked = te.compute(
        (n, n),
        lambda i, j: te.if_then_else(j <= i if lower else j >= i, x[i, j], 0),
        name="masked",
    )
    k = te.reduce_axis((0, n), "k")
    y = te.compute((n, width), lambda i, j: te.sum(masked[i, k] * w[k, j], axis=k), name="Y")
    return Workload((x, w), (y,), lambda a, b: (np.tril(a) if lower else np.triu(a)) @ b, 0)


GUARDED = {f.__name__: f for f in (padded_sums, shifted, choice, triangle)}
