"""Functions of math, and divisions of indices."""

from autotune import te
from tests.golden.case import case, flat


def functions(n=64, dtype="float32"):
    x = te.placeholder((n,), name="X", dtype=dtype)
    return x, te.compute(
        (n,),
        lambda i: te.sigmoid(x[i]) + te.rsqrt(te.abs(x[i])) * te.erf(x[i]) - te.floor(x[i]),
        name="Y",
    )


def shifted(n=100):
    x = te.placeholder((n,), name="X", dtype="int32")
    return x, te.compute(
        (n,), lambda i: te.floordiv(x[i] - 50, 7) + te.floormod(x[i] - 50, 7), name="Y"
    )


def reshape(m=12, n=10):
    x = te.placeholder((m, n), name="X", dtype="int32")
    return x, te.compute(
        (n, m),
        lambda i, j: x[te.floordiv(i * m + j, n), te.floormod(i * m + j, n)],
        name="Y",
    )


@case("c", "cuda")
def function_table(language):
    *inputs, c = functions()
    s = te.create_schedule(c.op)
    if language == "cuda":
        flat(s[c])
    return s, [*inputs, c]


@case("c", "cuda")
def function_table_half(language):
    *inputs, c = functions(dtype="float16")
    s = te.create_schedule(c.op)
    if language == "cuda":
        flat(s[c])
    return s, [*inputs, c]


@case("c", "cuda")
def rounded_to_tf32(language):
    x = te.placeholder((64,), name="X")
    y = te.compute((64,), lambda i: te.tf32(x[i]) + te.tf32(x[i] * 3.0), name="Y")
    s = te.create_schedule(y.op)
    if language == "cuda":
        flat(s[y])
    return s, [x, y]


@case("c", "cuda")
def floor_division(language):
    x, y = shifted()
    s = te.create_schedule(y.op)
    if language == "cuda":
        flat(s[y])
    return s, [x, y]


@case("c", "cuda")
def reshaped(language):
    x, y = reshape()
    s = te.create_schedule(y.op)
    if language == "cuda":
        flat(s[y], 24)
    return s, [x, y]
