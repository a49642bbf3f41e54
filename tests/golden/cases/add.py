"""Element-wise addition: splits, dtypes, vectors, bindings."""

from autotune import te
from tests.golden.case import bind, case, flat


def add(n=1024, dtype="float32"):
    a, b = te.placeholder((n,), name="A", dtype=dtype), te.placeholder((n,), name="B", dtype=dtype)
    return a, b, te.compute((n,), lambda i: a[i] + b[i], name="C")


@case("c")
def add_plain():
    *inputs, c = add()
    return te.create_schedule(c.op), [*inputs, c]


@case("c")
def add_split_even():
    *inputs, c = add()
    s = te.create_schedule(c.op)
    s[c].split(c.op.axis[0], factor=32)
    return s, [*inputs, c]


@case("c")
def add_split_tail():
    *inputs, c = add(1000)
    s = te.create_schedule(c.op)
    s[c].split(c.op.axis[0], factor=48)
    return s, [*inputs, c]


@case("c")
def add_split_nparts():
    *inputs, c = add(1000)
    s = te.create_schedule(c.op)
    s[c].split(c.op.axis[0], nparts=7)
    return s, [*inputs, c]


@case("c")
def add_parallel_simd():
    *inputs, c = add()
    s = te.create_schedule(c.op)
    outer, inner = s[c].split(c.op.axis[0], factor=16)
    s[c].parallel(outer)
    s[c].vectorize(inner)
    return s, [*inputs, c]


@case("c")
def add_unrolled():
    *inputs, c = add(64)
    s = te.create_schedule(c.op)
    _, inner = s[c].split(c.op.axis[0], factor=4)
    s[c].unroll(inner)
    return s, [*inputs, c]


@case("c", "cuda")
def add_half(language):
    *inputs, c = add(dtype="float16")
    s = te.create_schedule(c.op)
    if language == "cuda":
        flat(s[c])
    return s, [*inputs, c]


@case("c", "cuda")
def add_bfloat(language):
    *inputs, c = add(dtype="bfloat16")
    s = te.create_schedule(c.op)
    if language == "cuda":
        flat(s[c])
    return s, [*inputs, c]


@case("c", "cuda")
def add_bytes(language):
    *inputs, c = add(dtype="int8")
    s = te.create_schedule(c.op)
    if language == "cuda":
        flat(s[c])
    return s, [*inputs, c]


@case("c", "cuda")
def add_long(language):
    *inputs, c = add(dtype="int64")
    s = te.create_schedule(c.op)
    if language == "cuda":
        flat(s[c])
    return s, [*inputs, c]


@case("cuda")
def add_bound():
    *inputs, c = add()
    s = te.create_schedule(c.op)
    flat(s[c])
    return s, [*inputs, c]


@case("cuda")
def add_bound_tail():
    *inputs, c = add(1000)
    s = te.create_schedule(c.op)
    flat(s[c])
    return s, [*inputs, c]


@case("cuda")
def add_vectors():
    *inputs, c = add()
    s = te.create_schedule(c.op)
    outer, lanes = s[c].split(c.op.axis[0], factor=4)
    s[c].vectorize(lanes)
    outer, inner = s[c].split(outer, factor=64)
    bind(s[c], bx=outer, tx=inner)
    return s, [*inputs, c]


@case("cuda")
def add_half_vectors():
    *inputs, c = add(dtype="float16")
    s = te.create_schedule(c.op)
    outer, lanes = s[c].split(c.op.axis[0], factor=8)
    s[c].vectorize(lanes)
    outer, inner = s[c].split(outer, factor=32)
    bind(s[c], bx=outer, tx=inner)
    return s, [*inputs, c]


@case("cuda")
def add_vthread():
    *inputs, c = add()
    s = te.create_schedule(c.op)
    outer, inner = s[c].split(c.op.axis[0], factor=64)
    outer, virtual = s[c].split(outer, factor=2)
    bind(s[c], bx=outer, v=virtual, tx=inner)
    return s, [*inputs, c]
