"""Programs with `te.var` extents, as TVM's introductory tutorials have them, built and run."""

import numpy as np
import pytest

from autotune import tvm
from autotune.tvm import te

CPU, GPU = "llvm", "cuda -emulate"
RNG = np.random.default_rng(0)


def check(function, expected, inputs, outputs=1):
    """Call a function on inputs and as many outputs as there are, and compare."""
    expected = expected if isinstance(expected, tuple) else (expected,)
    out = [tvm.nd.array(np.full_like(value, 77)) for value in expected]
    function(*[value if np.ndim(value) == 0 else tvm.nd.array(value) for value in inputs], *out)
    assert len(out) == outputs
    for got, wanted in zip(out, expected, strict=True):
        np.testing.assert_allclose(got.numpy(), wanted, rtol=1e-6)


def floats(*shape):
    return RNG.random(shape).astype("float32")


def bind(s, tensor, block, thread):
    s[tensor].bind(block, te.thread_axis("blockIdx.x"))
    s[tensor].bind(thread, te.thread_axis("threadIdx.x"))


# Get started: a vector added to another, for any length.


def vector_add():
    n = te.var("n")
    a, b = te.placeholder((n,), name="A"), te.placeholder((n,), name="B")
    return a, b, te.compute(a.shape, lambda i: a[i] + b[i], name="C")


@pytest.mark.parametrize("target", [CPU, GPU])
def test_get_started(target):
    a, b, c = vector_add()
    assert type(c) is te.Tensor
    s = te.create_schedule(c.op)
    block, thread = s[c].split(c.op.axis[0], factor=64)
    if target == GPU:
        bind(s, c, block, thread)
    function = tvm.build(s, [a, b, c], target, name="myadd")
    for n in (1, 63, 64, 65, 1024):
        x, y = floats(n), floats(n)
        check(function, x + y, [x, y])
    assert "int n" in function.imported_modules[0].get_source()
    assert "int n" in function.get_source()


def test_get_started_on_arrays_of_others():
    a, b, c = vector_add()
    function = tvm.build(te.create_schedule(c.op), [a, b, c])
    x, y, out = floats(10), floats(10), np.empty(10, "float32")
    function(x, y, out)
    np.testing.assert_array_equal(out, x + y)
    torch = pytest.importorskip("torch")
    out = torch.empty(10)
    function(torch.from_numpy(x), torch.from_numpy(y), out)
    np.testing.assert_array_equal(out.numpy(), x + y)


def test_a_function_is_exported_and_loaded_with_its_sizes(tmp_path):
    a, b, c = vector_add()
    s = te.create_schedule(c.op)
    bind(s, c, *s[c].split(c.op.axis[0], factor=32))
    for target in (CPU, GPU):
        schedule = s if target == GPU else te.create_schedule(c.op)
        path = tmp_path / f"add-{target}.so"
        tvm.build(schedule, [a, b, c], target, name="add").export_library(path)
        loaded = tvm.runtime.load_module(path)
        x = floats(100)
        check(loaded, 2 * x, [x, x])


def test_a_function_of_any_length_is_timed():
    a, b, c = vector_add()
    function = tvm.build(te.create_schedule(c.op), [a, b, c], "llvm", name="add")
    x, out = tvm.nd.array(floats(1000)), tvm.nd.empty((1000,))
    timed = function.time_evaluator(function.entry_name, tvm.cpu(0), number=3, repeat=2)(x, x, out)
    assert len(timed.results) == 2
    np.testing.assert_array_equal(out.numpy(), 2 * x.numpy())


# Schedule primitives.


def copied(shape):
    a = te.placeholder(shape, name="A")
    return a, te.compute(shape, lambda *i: a(*i) * 2.0, name="B")


def split_by_factor(s, b):
    return s[b].split(b.op.axis[0], factor=32)


def split_in_parts(s, b):
    return s[b].split(b.op.axis[0], nparts=32)


def split_twice(s, b):
    outer, inner = s[b].split(b.op.axis[0], factor=12)
    return s[b].split(outer, nparts=3), s[b].split(inner, factor=5)


@pytest.mark.parametrize("how", [split_by_factor, split_in_parts, split_twice])
def test_a_split_loop_stops_where_the_tensor_ends(how):
    m = te.var("m")
    a, b = copied((m,))
    s = te.create_schedule(b.op)
    how(s, b)
    assert "< m" in str(tvm.lower(s, [a, b], simple_mode=True))
    function = tvm.build(s, [a, b])
    for size in (1, 5, 31, 32, 33, 100, 1024):
        x = floats(size)
        check(function, 2 * x, [x])


def tiled(s, b):
    return s[b].tile(*b.op.axis, x_factor=10, y_factor=5)


def tiled_and_fused(s, b):
    *_, xi, yi = tiled(s, b)
    return s[b].fuse(xi, yi)


def fused(s, b):
    return s[b].fuse(*b.op.axis)


def fused_and_split(s, b):
    return s[b].split(fused(s, b), factor=7)


def reordered(s, b):
    xo, yo, xi, yi = tiled(s, b)
    return s[b].reorder(xi, yo, xo, yi)


def vectorized(s, b):
    *_, yi = tiled(s, b)
    return s[b].vectorize(yi)


def parallel(s, b):
    return s[b].parallel(b.op.axis[0])


def unrolled(s, b):
    *_, yi = tiled(s, b)
    return s[b].unroll(yi)


PRIMITIVES = [
    tiled, tiled_and_fused, fused, fused_and_split, reordered, vectorized, parallel, unrolled,
]  # fmt: skip


@pytest.mark.many_cases
@pytest.mark.parametrize("how", PRIMITIVES)
def test_loops_over_two_sizes_are_transformed(how):
    m, n = te.var("m"), te.var("n")
    a, b = copied((m, n))
    s = te.create_schedule(b.op)
    how(s, b)
    function = tvm.build(s, [a, b])
    for shape in ((1, 1), (10, 5), (11, 6), (30, 29)):
        x = floats(*shape)
        check(function, 2 * x, [x])


@pytest.mark.parametrize("how", [tiled, tiled_and_fused, reordered, fused_and_split])
def test_loops_over_two_sizes_are_bound(how):
    m, n = te.var("m"), te.size_var("n")
    a, b = copied((m, n))
    s = te.create_schedule(b.op)
    how(s, b)
    loops = s[b].leaf_iter_vars
    if how is reordered:
        xi, yo, xo, yi = loops
        s[b].bind(xo, te.thread_axis("blockIdx.x"))
        s[b].bind(yo, te.thread_axis("blockIdx.y"))
        s[b].bind(xi, te.thread_axis("threadIdx.y"))
        s[b].bind(yi, te.thread_axis("threadIdx.x"))
    else:
        bind(s, b, loops[0], loops[-1])
    function = tvm.build(s, [a, b], GPU)
    for shape in ((1, 1), (10, 5), (11, 6)):
        x = floats(*shape)
        check(function, 2 * x, [x])


def chain():
    m = te.var("m")
    a = te.placeholder((m,), name="A")
    b = te.compute((m,), lambda i: a[i] + 1, name="B")
    return a, b, te.compute((m,), lambda i: b[i] * 2, name="C")


@pytest.mark.parametrize("place", ["root", "at", "inline", "back at root"])
def test_a_stage_is_computed_anywhere(place):
    a, b, c = chain()
    s = te.create_schedule(c.op)
    if place == "inline":
        s[b].compute_inline()
    elif place != "root":
        s[b].compute_at(s[c], c.op.axis[0])
    if place == "back at root":
        s[b].compute_root()
    assert str(tvm.lower(s, [a, c])).count("for ") == (2 if "root" in place else 1)
    x = floats(37)
    check(tvm.build(s, [a, c]), (x + 1) * 2, [x])
    if place != "inline":
        check(tvm.build(s, [a, b, c]), (x + 1, (x + 1) * 2), [x], outputs=2)


def test_a_stage_between_kernels_is_as_large_as_the_sizes_say():
    a, b, c = chain()
    s = te.create_schedule(c.op)
    for tensor in (b, c):
        bind(s, tensor, *s[tensor].split(tensor.op.axis[0], factor=16))
    function = tvm.build(s, [a, c], GPU)
    assert len(function.kernel.calls) == 2
    for n in (5, 100, 16):
        x = floats(n)
        check(function, (x + 1) * 2, [x])


def test_a_stencil_reads_what_its_tile_needs():
    n = te.var("n")
    a = te.placeholder((n + 2,), name="A")
    b = te.compute((n + 2,), lambda i: a[i] * 3.0, name="B")
    c = te.compute((n,), lambda i: b[i] + b[i + 1] + b[i + 2], name="C")
    for target in (CPU, GPU):
        s = te.create_schedule(c.op)
        outer, inner = s[c].split(c.op.axis[0], factor=8)
        s[b].compute_at(s[c], outer)
        if target == GPU:
            bind(s, c, outer, inner)
            s[b].set_scope("shared")
            _, lane = s[b].split(b.op.axis[0], factor=8)
            s[b].bind(lane, te.thread_axis("threadIdx.x"))
        assert "B: float32[10] @" in str(tvm.lower(s, [a, c]))
        function = tvm.build(s, [a, c], target)
        for size in (1, 8, 9, 50):
            x = floats(size + 2)
            y = 3 * x
            check(function, y[:-2] + y[1:-1] + y[2:], [x])


# Reductions.


def row_sums():
    n, m = te.var("n"), te.var("m")
    a = te.placeholder((n, m), name="A")
    k = te.reduce_axis((0, m), "k")
    return a, te.compute((n,), lambda i: te.sum(a[i, k], axis=k), name="B")


def test_rows_are_summed():
    a, b = row_sums()
    s = te.create_schedule(b.op)
    ko, _ = s[b].split(b.op.reduce_axis[0], factor=16)
    s[b].split(b.op.axis[0], factor=32)
    s[b].reorder(ko, *s[b].leaf_iter_vars[:2])
    function = tvm.build(s, [a, b])
    for shape in ((1, 1), (33, 17), (40, 64)):
        x = floats(*shape)
        check(function, x.sum(1), [x])


def test_threads_sum_rows_together():
    a, b = row_sums()
    s = te.create_schedule(b.op)
    _, ki = s[b].split(b.op.reduce_axis[0], factor=16)
    factored = s.rfactor(b, ki)
    xo, xi = s[b].split(s[b].op.axis[0], factor=32)
    s[b].bind(xo, te.thread_axis("blockIdx.x"))
    s[b].bind(xi, te.thread_axis("threadIdx.y"))
    tx = te.thread_axis("threadIdx.x")
    s[b].bind(s[b].op.reduce_axis[0], tx)
    s[factored].compute_at(s[b], s[b].op.reduce_axis[0])
    s[b].set_store_predicate(tx.var.equal(0))
    function = tvm.build(s, [a, b], GPU)
    for shape in ((1, 1), (33, 17)):
        x = floats(*shape)
        check(function, x.sum(1), [x])


def test_matrices_of_any_size_are_multiplied():
    n, m, length = te.var("n"), te.var("m"), te.var("l")
    a, b = te.placeholder((n, length), name="A"), te.placeholder((m, length), name="B")
    k = te.reduce_axis((0, length), name="k")
    c = te.compute((n, m), lambda i, j: te.sum(a[i, k] * b[j, k], axis=k), name="C")
    s = te.create_schedule(c.op)
    function = tvm.build(s, [a, b, c])
    x, y = floats(3, 7), floats(5, 7)
    check(function, x @ y.T, [x, y])
    s = te.create_schedule(c.op)
    cache = s.cache_write(c, "local")
    yo, xo, yi, xi = s[c].tile(*c.op.axis, 8, 8)
    s[c].bind(yo, te.thread_axis("blockIdx.y"))
    s[c].bind(xo, te.thread_axis("blockIdx.x"))
    s[c].bind(yi, te.thread_axis("threadIdx.y"))
    s[c].bind(xi, te.thread_axis("threadIdx.x"))
    s[cache].compute_at(s[c], xi)
    ko, _ = s[cache].split(cache.op.reduce_axis[0], factor=8)
    for tensor in (a, b):
        copy = s.cache_read(tensor, "shared", [cache])
        s[copy].compute_at(s[cache], ko)
        s[copy].bind(s[copy].op.axis[0], te.thread_axis("threadIdx.y"))
        s[copy].bind(s[copy].op.axis[1], te.thread_axis("threadIdx.x"))
    function = tvm.build(s, [a, b, c], GPU)
    for rows, columns, inner in ((3, 5, 7), (9, 8, 16), (17, 9, 9)):
        x, y = floats(rows, inner), floats(columns, inner)
        check(function, x @ y.T, [x, y])


# Tuples.


def test_several_outputs_of_one_compute():
    m, n = te.var("m"), te.var("n")
    a0, a1 = te.placeholder((m, n), name="A0"), te.placeholder((m, n), name="A1")
    b0, b1 = te.compute((m, n), lambda i, j: (a0[i, j] + 2, a1[i, j] * 3), name="B")
    s = te.create_schedule(b0.op)
    x, y = floats(3, 4), floats(3, 4)
    check(tvm.build(s, [a0, a1, b0, b1]), (x + 2, y * 3), [x, y], outputs=2)


def test_an_index_and_a_value_are_reduced_together():
    def combine(lhs, rhs):
        first = lhs[1] >= rhs[1]
        return (
            te.if_then_else(first, lhs[0], rhs[0]),
            te.if_then_else(first, lhs[1], rhs[1]),
        )

    def identity(t0, t1):
        return tvm.tir.const(-1, t0), te.min_value(t1)

    argmax = te.comm_reducer(combine, identity, name="argmax")
    m, n = te.var("m"), te.var("n")
    index = te.placeholder((m, n), "int32", name="idx")
    value = te.placeholder((m, n), "int32", name="val")
    k = te.reduce_axis((0, n), "k")
    t0, t1 = te.compute((m,), lambda i: argmax((index[i, k], value[i, k]), axis=k), name="T")
    function = tvm.build(te.create_schedule(t0.op), [index, value, t0, t1])
    x = RNG.permuted(np.tile(np.arange(9, dtype="int32"), (4, 1)), axis=1)
    columns = np.tile(np.arange(9, dtype="int32"), (4, 1))
    check(function, (x.argmax(1).astype("int32"), x.max(1)), [columns, x], outputs=2)


def test_a_tuple_is_computed_inside_its_reader():
    m, n = te.var("m"), te.var("n")
    a0, a1 = te.placeholder((m, n), name="A0"), te.placeholder((m, n), name="A1")
    b0, _ = te.compute((m, n), lambda i, j: (a0[i, j] + 2, a0[i, j] * 3), name="B")
    c = te.compute((m, n), lambda i, j: a1[i, j] + b0[i, j], name="C")
    s = te.create_schedule(c.op)
    s[b0].compute_at(s[c], c.op.axis[0])
    assert "allocate B.v0: float32[n] @local" in str(tvm.lower(s, [a0, a1, c]))
    x, y = floats(5, 6), floats(5, 6)
    check(tvm.build(s, [a0, a1, c]), y + x + 2, [x, y])
