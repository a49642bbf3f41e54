"""Computations that are seldom written: odd reductions, gathers, several outputs, odd indices.

All values are whole numbers that every dtype holds, so that results are the same to the last bit.
"""

import numpy as np

from autotune import te
from tests.fuzz.workloads import Workload

DTYPES = ("int32", "int64", "int8", "uint8", "int16", "float32", "float64", "float16")


class Given(Workload):
    """A workload of small whole numbers; those of an index are within what they index."""

    def arrays(self, seed):
        rng = np.random.default_rng(seed)
        return [_small(rng, t) for t in self.inputs]


def _small(rng, tensor):
    shape = tuple(int(n) for n in tensor.shape)
    if tensor.name.startswith("at"):
        return rng.integers(0, int(tensor.name.rpartition("_")[2]), shape).astype(tensor.dtype)
    low = 0 if tensor.dtype.startswith("uint") else -3
    return rng.integers(low, 4, shape).astype(tensor.dtype)


def _wide(array):
    return array.astype("f8") if array.dtype.kind == "f" else array.astype("i8")


def offset_axes(rng):
    """Reductions over axes that begin anywhere, where a condition holds, from some value."""
    dtype, kind = rng.choice(DTYPES), rng.choice(["sum", "max", "min"])
    m, n, low = rng.choice([1, 4, 5, 9]), rng.choice([3, 8, 13]), rng.choice([-4, -1, 2, 5])
    x = te.placeholder((m, n), name="X", dtype=dtype)
    first = te.placeholder((m,), name="first", dtype=dtype)
    r = te.reduce_axis((low, low + n), "r")
    s = te.reduce_axis((1, 3), "s")
    step = rng.choice([1, 2, 3])
    masked, begun, two = rng.random() < 0.6, rng.random() < 0.5, rng.random() < 0.4
    where = (lambda i: te.floormod(r + i, step) == 0) if masked else (lambda i: None)

    def body(i):
        value = x[i, r - low] * (s.var.astype(dtype) if two else te.const(1, dtype))
        init = first[i] if begun else None
        return getattr(te, kind)(value, axis=[r, s] if two else [r], where=where(i), init=init)

    y = te.compute((m,), body, name="Y")

    def reference(a, *more):
        a = _wide(a)
        values = np.stack([a * 1, a * 2], -1) if two else a[..., None]
        inside = np.ones(a.shape, bool)
        if masked:
            inside = (np.arange(low, low + n)[None] + np.arange(m)[:, None]) % step == 0
        if kind == "sum":
            found = np.where(inside[..., None], values, 0).sum((1, 2))
            return (found + _wide(more[0]) if begun else found).astype(dtype)
        worst = {"max": -1 << 20, "min": 1 << 20}[kind]
        found = np.where(inside[..., None], values, worst)
        found = getattr(found, kind)((1, 2))
        ends = np.iinfo(dtype) if not dtype.startswith("f") else None
        if begun:
            found = getattr(np, kind + "imum")(found, _wide(more[0]))
        elif ends is None:
            found = np.where(abs(found) == 1 << 20, np.where(found < 0, -np.inf, np.inf), found)
        else:
            found = np.where(found == worst, ends.min if kind == "max" else ends.max, found)
        return found.astype(dtype)

    return Given((x, first) if begun else (x,), (y,), reference, 0)


def gather(rng):
    """Rows of a table, perhaps computed, by indices that are data."""
    dtype, index = rng.choice(DTYPES), rng.choice(["int32", "int64", "uint8", "int16"])
    rows, width, m, n = rng.choice([3, 7]), rng.choice([1, 4, 9]), rng.choice([2, 5]), 6
    x = te.placeholder((rows, width), name="X", dtype=dtype)
    at = te.placeholder((m, n), name=f"at_{rows}", dtype=index)
    made = rng.random() < 0.5
    table = (
        te.compute((rows, width), lambda i, j: x[i, j] + te.const(1, dtype), name="table")
        if made
        else x
    )
    if rng.random() < 0.5:
        y = te.compute((m, n, width), lambda i, j, k: table[at[i, j], k], name="Y")
        return Given((x, at), (y,), lambda a, b: (a + (made and 1))[b.astype("i8")], 0)
    k = te.reduce_axis((0, n), "k")
    y = te.compute((m, width), lambda i, j: te.sum(table[at[i, k], j], axis=k), name="Y")
    return Given(
        (x, at),
        (y,),
        lambda a, b: (a + a.dtype.type(made and 1))[b.astype("i8")].sum(1, dtype=a.dtype),
        0,
    )


def histogram(rng):
    """How much falls in each bin."""
    dtype, index = (
        rng.choice(["int32", "float32", "int64", "float64"]),
        rng.choice(["int32", "uint8", "int8"]),
    )
    bins, m = rng.choice([3, 8, 11]), rng.choice([7, 16, 33])
    at = te.placeholder((m,), name=f"at_{bins}", dtype=index)
    w = te.placeholder((m,), name="W", dtype=dtype)
    k = te.reduce_axis((0, m), "k")
    zero = te.const(0, dtype)
    if rng.random() < 0.5:
        body = lambda b: te.sum(te.if_then_else(at[k].astype("int32") == b, w[k], zero), axis=k)
    else:
        body = lambda b: te.sum(w[k], axis=k, where=at[k].astype("int32") == b)
    y = te.compute((bins,), body, name="H")
    return Given((at, w), (y,), lambda a, b: np.bincount(a, b, minlength=bins).astype(dtype), 0)


def moments(rng):
    """Sums and sums of squares together, in dtypes of their own."""
    one, two = (
        rng.choice(["int32", "float32", "int64", "float64"]),
        rng.choice(["int64", "float64", "int32", "float32"]),
    )
    m, n = rng.choice([1, 4, 7]), rng.choice([5, 16, 33])
    x = te.placeholder((m, n), name="X", dtype=rng.choice(DTYPES))
    k = te.reduce_axis((0, n), "k")
    both = te.comm_reducer(
        lambda p, q: (p[0] + q[0], p[1] + q[1]),
        lambda a, b: (te.const(0, a), te.const(0, b)),
        name="both",
    )
    value = lambda i: x[i, k].astype(two)
    s, q = te.compute(
        (m,), lambda i: both((x[i, k].astype(one), value(i) * value(i)), axis=k), name="moments"
    )
    spread = te.compute(
        (m,), lambda i: q[i].astype("float64") * n - s[i].astype("float64"), name="spread"
    )
    if rng.random() < 0.5:
        return Given((x,), (s, q), lambda a: (_wide(a).sum(1), (_wide(a) ** 2).sum(1)), 0)
    return Given((x,), (spread,), lambda a: (_wide(a) ** 2).sum(1) * n - _wide(a).sum(1), 0)


def argmin_typed(rng):
    """Where the least value is, the first of equals; values and places of any dtype."""
    dtype, place = rng.choice(DTYPES), rng.choice(["int32", "int64", "uint8", "int16", "float32"])
    m, n, low = rng.choice([1, 5, 8]), rng.choice([4, 16, 19]), rng.choice([0, 0, 3])
    x = te.placeholder((m, n), name="X", dtype=dtype)
    k = te.reduce_axis((low, low + n), "k")
    pick = te.comm_reducer(
        lambda p, q: (
            te.select(te.any(p[1] < q[1], te.all(p[1] == q[1], p[0] < q[0])), p[0], q[0]),
            te.min(p[1], q[1]),
        ),
        lambda a, b: (te.max_value(a), te.max_value(b)),
        name="argmin",
    )
    where, least = te.compute(
        (m,), lambda i: pick((k.var.astype(place), x[i, k - low]), axis=k), name="least"
    )
    return Given((x,), (where, least), lambda a: (a.argmin(1) + low, a.min(1)), 0)


def matrices(rng):
    """Products of many 2x2 matrices: a combiner of four values (of commuting ones)."""
    m, n = rng.choice([1, 3, 4]), rng.choice([2, 5, 8])
    x, y = (te.placeholder((m, n), name=name, dtype="int64") for name in "XY")
    k = te.reduce_axis((0, n), "k")
    # Numbers of the form a + b sqrt(2), which commute.
    mul = te.comm_reducer(
        lambda p, q: (p[0] * q[0] + p[1] * q[1] * 2, p[0] * q[1] + p[1] * q[0]),
        lambda a, b: (te.const(1, a), te.const(0, b)),
        name="mul",
    )
    a, b = te.compute((m,), lambda i: mul((x[i, k], y[i, k]), axis=k), name="product")

    def reference(p, q):
        re, im = np.ones(m, "i8"), np.zeros(m, "i8")
        for i in range(n):
            re, im = re * p[:, i] + 2 * im * q[:, i], re * q[:, i] + im * p[:, i]
        return re, im

    return Given((x, y), (a, b), reference, 0)


def outputs_that_read_each_other(rng):
    """Several outputs, of which later ones read earlier ones."""
    dtype = rng.choice(DTYPES)
    m, n = rng.choice([3, 8]), rng.choice([5, 16])
    x = te.placeholder((m, n), name="X", dtype=dtype)
    one = te.const(1, dtype)
    a = te.compute((m, n), lambda i, j: x[i, j] + one, name="a")
    k = te.reduce_axis((0, n), "k")
    b = te.compute((m,), lambda i: te.max(a[i, k], axis=k), name="b")
    c = te.compute((n, m), lambda i, j: a[j, i] - b[j], name="c")
    outs = rng.choice([(a, c), (b, c), (a, b, c), (c, b)])

    def reference(v):
        p = v + v.dtype.type(1)
        q = p.max(1)
        found = {a: p, b: q, c: (p - q[:, None]).T}
        return tuple(found[t] for t in outs)

    return Given((x,), outs, reference, 0)


def windows(rng):
    """A chain of sums over windows with strides, dilations and flipped kernels."""
    dtype = rng.choice(["int32", "int64", "float32", "float64"])
    x = te.placeholder((rng.choice([2, 3]), rng.choice([19, 24, 31])), name="X", dtype=dtype)
    last, steps = x, []
    for number in range(rng.choice([1, 2, 3])):
        size, stride, dilation = rng.choice([2, 3]), rng.choice([1, 1, 2]), rng.choice([1, 1, 2])
        flip, low = rng.random() < 0.4, rng.choice([0, 0, -1, 2])
        length = int(last.shape[1])
        out = (length - (size - 1) * dilation - 1) // stride + 1
        if out < 1:
            break
        k = te.reduce_axis((low, low + size), f"k{number}")

        def body(c, i, last=last, k=k, s=stride, d=dilation, f=flip, low=low, n=length):
            at = i * s + (k - low) * d
            return te.sum(last[c, n - 1 - at if f else at], axis=k)

        last = te.compute((x.shape[0], out), body, name=f"W{number}")
        steps.append((size, stride, dilation, flip, out))

    def reference(a):
        a = _wide(a)
        for size, stride, dilation, flip, out in steps:
            a = a[:, ::-1] if flip else a
            at = np.arange(out)[:, None] * stride + np.arange(size) * dilation
            a = a[:, at].sum(2)
        return a

    return Given((x,), (last,), reference, 0)


def prefix(rng):
    """Sums of all before, by a condition on the axis; perhaps of all after."""
    dtype, m, n = (
        rng.choice(["int32", "float32", "int64"]),
        rng.choice([1, 3, 8]),
        rng.choice([4, 9, 16]),
    )
    x = te.placeholder((m, n), name="X", dtype=dtype)
    k = te.reduce_axis((0, n), "k")
    after = rng.random() < 0.5
    y = te.compute(
        (m, n),
        lambda i, j: te.sum(x[i, k], axis=k, where=(k >= j) if after else (k <= j)),
        name="Y",
    )

    def reference(a):
        return np.cumsum(a[:, ::-1], 1)[:, ::-1] if after else np.cumsum(a, 1)

    return Given((x,), (y,), reference, 0)


def odd_indices(rng):
    """Elements at indices by products, remainders, bits and minima of loops."""
    dtype, size = rng.choice(DTYPES), rng.choice([5, 16, 23, 37])
    m, n = rng.choice([3, 7, 8]), rng.choice([4, 9, 16, 33])
    x = te.placeholder((size,), name="X", dtype=dtype)
    a, b, c, d = (rng.choice([1, 2, 3, 5, 7]) for _ in range(4))
    form = rng.randrange(6)

    def at(i, j, div, mod, low, high):
        return [
            lambda: mod(i * a + j * b + c, size),
            lambda: low(div(i * a + j, d), size - 1),
            lambda: mod(i * j, size),
            lambda: high(low(i - j + c, size - 1), 0),
            lambda: mod(div(i * n + j, b) * a + mod(j * c + i, d), size),
            lambda: mod((i * a) ^ (j + c), size),
        ][form]()

    y = te.compute(
        (m, n),
        lambda i, j: x[at(i, j, te.floordiv, te.floormod, te.min, te.max)] + (i * j).astype(dtype),
        name="Y",
    )

    def reference(v):
        i, j = np.ogrid[:m, :n]
        found = np.broadcast_to(
            v[at(i, j, np.floor_divide, np.mod, np.minimum, np.maximum)], (m, n)
        )
        with np.errstate(over="ignore"):
            return found + (i * j).astype(dtype)

    return Given((x,), (y,), reference, 0)


def split_axes(rng):
    """A matrix read as another shape whose rows do not divide it, and summed."""
    dtype = rng.choice(["int32", "float32", "int64", "int8"])
    m, n = rng.choice([(6, 10), (4, 9), (15, 8)])
    cols = rng.choice([k for k in range(2, m * n) if m * n % k == 0])
    rows = m * n // cols
    x = te.placeholder((m, n), name="X", dtype=dtype)
    twice = te.compute((m, n), lambda i, j: x[i, j] * te.const(2, dtype), name="twice")
    flat = lambda i, j: i * cols + j
    view = te.compute(
        (rows, cols),
        lambda i, j: twice[te.floordiv(flat(i, j), n), te.floormod(flat(i, j), n)],
        name="view",
    )
    k = te.reduce_axis((0, cols), "k")
    y = te.compute((rows,), lambda i: te.sum(view[i, k].astype("int32"), axis=k), name="Y")
    return Given((x,), (y,), lambda a: (a * 2).reshape(rows, cols).sum(1, dtype="i4"), 0)


def rows_of_bools(rng):
    """Truths computed, stored, negated, counted and used as masks."""
    m, n = rng.choice([2, 5, 8]), rng.choice([7, 16, 33])
    dtype = rng.choice(DTYPES)
    x, y = (te.placeholder((m, n), name=name, dtype=dtype) for name in "XY")
    mask = te.compute(
        (m, n), lambda i, j: te.any(x[i, j] > y[i, j], x[i, j] == te.const(0, dtype)), name="mask"
    )
    k = te.reduce_axis((0, n), "k")
    kind = rng.choice(["count", "store", "use", "all"])
    ref = lambda a, b: (a > b) | (a == 0)
    if kind == "store":
        return Given((x, y), (mask,), ref, 0)
    if kind == "count":
        z = te.compute((m,), lambda i: te.sum(mask[i, k], axis=k), name="count")
        return Given((x, y), (z,), lambda a, b: ref(a, b).sum(1), 0)
    if kind == "all":
        z = te.compute((m,), lambda i: te.min(mask[i, k].astype("int8"), axis=k), name="every")
        return Given((x, y), (z,), lambda a, b: ref(a, b).all(1), 0)
    z = te.compute((m, n), lambda i, j: te.select(mask[i, j], y[i, j], x[i, j]), name="Z")
    return Given((x, y), (z,), lambda a, b: np.where(ref(a, b), b, a), 0)


def long_rows(rng):
    """Elementwise chains over rows long enough for whole vectors and their tails."""
    dtype, other = rng.choice(DTYPES), rng.choice(DTYPES)
    n = rng.choice([15, 31, 64, 65, 127])
    shape = rng.choice([(n,), (2, n), (n, 3)])
    x, y = (
        te.placeholder(shape, name="X", dtype=dtype),
        te.placeholder(shape, name="Y", dtype=other),
    )
    a = te.compute(shape, lambda *i: te.max(x[i], te.const(1, dtype)), name="a")
    b = te.compute(shape, lambda *i: a[i].astype(other) + y[i], name="b")
    c = te.compute(
        shape,
        lambda *i: te.select(b[i] > y[i], b[i], te.const(2, other)).astype("int32"),
        name="c",
    )

    def reference(p, q):
        p = np.maximum(p, p.dtype.type(1)).astype(other) + q
        return np.where(p > q, p, 2).astype("int32")

    return Given((x, y), (c,), reference, 0)


RARE = {
    f.__name__: f
    for f in (
        offset_axes, gather, histogram, moments, argmin_typed, matrices,
        outputs_that_read_each_other, windows, prefix, odd_indices, split_axes, rows_of_bools,
        long_rows,
    )
}  # fmt: skip
