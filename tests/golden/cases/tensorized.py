"""Loops that intrinsics replace."""

from autotune import te
from autotune.te.extern_call import extern_call
from tests.golden.case import bind, case, fetch
from tests.golden.cases.matmul import matmul

GEMV = """\
void gemv_reset(float* sums, int rows) {
  for (int i = 0; i < rows; ++i) sums[i] = 0;
}
void gemv_update(float* sums, float* vector, float* matrix, int rows, int steps, int stride) {
  for (int i = 0; i < rows; ++i)
    for (int j = 0; j < steps; ++j) sums[i] += vector[j] * matrix[i * stride + j];
}
"""


def gemv(rows, steps, reset=True, strides=True):
    """Return a matrix by a vector, by the functions of a text in C."""
    a = te.placeholder((steps,), name="a")
    b = te.placeholder((rows, steps), name="b")
    k = te.reduce_axis((0, steps), "k")
    c = te.compute((rows,), lambda i: te.sum(a[k] * b[i, k], axis=k), name="c")
    buffers = {
        a: te.decl_buffer(a.shape, name="a", strides=[1]),
        b: te.decl_buffer(b.shape, name="b", strides=[te.var("s"), 1] if strides else None),
        c: te.decl_buffer(c.shape, name="c", strides=[1]),
    }

    def statements(ins, outs):
        (vector, matrix), (sums,) = ins, outs
        update = extern_call(
            "int32", "gemv_update", sums.access_ptr("rw"), vector.access_ptr("r"),
            matrix.access_ptr("r"), rows, steps, matrix.strides[0],
        )  # fmt: skip
        first = extern_call("int32", "gemv_reset", sums.access_ptr("w"), rows)
        return update, first if reset else None, update

    return te.decl_tensor_intrin(c.op, statements, "gemv", buffers)


def tensorized(m=64, n=64, k=32, rows=16, steps=16, intrin=None):
    """Return the schedule of a product A * B^T whose parts are a matrix by a vector."""
    a, b = te.placeholder((m, k), name="A"), te.placeholder((n, k), name="B")
    r = te.reduce_axis((0, k), "k")
    c = te.compute((m, n), lambda i, j: te.sum(a[i, r] * b[j, r], axis=r), name="C")
    s = te.create_schedule(c.op)
    jo, ji = s[c].split(c.op.axis[1], factor=rows)
    ko, ki = s[c].split(r, factor=steps)
    s[c].reorder(c.op.axis[0], jo, ko, ji, ki)
    s[c].pragma(c.op.axis[0], "import_c", GEMV)
    s[c].tensorize(ji, intrin or gemv(rows, steps))
    return s, [a, b, c]


@case("c")
def tensorized_gemv():
    return tensorized()


@case("c")
def tensorized_gemv_cached():
    """The second operand is packed in parts, the result written to a cache first."""
    a, b, c = matmul()
    s = te.create_schedule(c.op)
    cache = s.cache_write(c, "global")
    packed = s.permute(b, [cache], [1, 0])
    _, jo, _, ji = s[c].tile(*s[c].op.axis, 8, 16)
    s[c].vectorize(ji)
    s[cache].compute_at(s[c], jo)
    i, j = s[cache].op.axis
    ko, ki = s[cache].split(s[cache].op.reduce_axis[0], factor=16)
    s[cache].reorder(ko, i, j, ki)
    s[packed].compute_at(s[cache], ko)
    s[cache].pragma(ko, "import_c", GEMV)
    s[cache].tensorize(j, gemv(16, 16))
    return s, [a, b, c]


def dp4a():
    """Return four products of 8-bit integers and their sum, by the instruction of a GPU."""
    x, y = (te.placeholder((4,), "int8", name) for name in "xy")
    k = te.reduce_axis((0, 4), "k")
    z = te.compute((1,), lambda _: te.sum(x[k].astype("int32") * y[k].astype("int32"), axis=k))

    def statements(ins, outs):
        words, (total,) = [each.vload(0, "int8x4") for each in ins], outs
        sum_of = (extern_call("int32", "__dp4a", *words, f) for f in (0, total.vload(0)))
        body, update = (total.vstore(0, each) for each in sum_of)
        return body, total.vstore(0, 0), update

    buffers = {each: te.decl_buffer((4,), "int8", offset_factor=4) for each in (x, y)}
    return te.decl_tensor_intrin(z.op, statements, "dp4a", buffers)


def int8_product(m=32, n=64, k=64, virtual=True):
    """Return the schedule of a product of 8-bit integers from shared memory."""
    a, b = te.placeholder((m, k), "int8", "A"), te.placeholder((n, k), "int8", "B")
    r = te.reduce_axis((0, k), "k")
    c = te.compute(
        (m, n),
        lambda i, j: te.sum(a[i, r].astype("int32") * b[j, r].astype("int32"), axis=r),
        name="C",
    )
    s = te.create_schedule(c.op)
    left, right = (s.cache_read(each, "shared", [c]) for each in (a, b))
    total = s.cache_write(c, "local")
    by, bx, y, x = s[c].tile(*s[c].op.axis, 16, 32)
    vx, x = s[c].split(x, nparts=2)
    y, yi = s[c].split(y, factor=4)
    x, xi = s[c].split(x, factor=4)
    s[c].reorder(by, bx, vx, y, x, yi, xi)
    bind(s[c], by=by, bx=bx, ty=y, tx=x, **({"v": vx} if virtual else {}))
    s[total].compute_at(s[c], x)
    ko, ki = s[total].split(s[total].op.reduce_axis[0], factor=16)
    km, ki = s[total].split(ki, factor=4)
    s[total].reorder(ko, km, *s[total].op.axis, ki)
    s[total].tensorize(ki, dp4a())
    for part in (left, right):
        s[part].compute_at(s[total], ko)
        fetch(s[part], 4, lanes=4)
    return s, [a, b, c]


@case("cuda")
def tensorized_dp4a():
    return int8_product()
