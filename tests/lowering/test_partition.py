"""On a CPU loops are taken apart where conditions turn, so that inner loops have none."""

import numpy as np
import pytest

import autotune
from autotune import te, topi
from autotune.driver import kernel_of
from autotune.target import Target


def run(schedule, tensors, *given):
    module = autotune.build(schedule, tensors, target="llvm")
    out = np.full([int(n) for n in tensors[-1].shape], np.nan, "float32")
    module(*given, out)
    return out, module.kernel.source


def padded(height=6, width=9, before=1, after=2):
    data = te.placeholder((2, height, width), name="data")
    pad = topi.nn.pad(data, (0, before, before), (0, after, after), name="pad")
    return [data, pad]


def product(rows, columns, depth=8):
    a, b = te.placeholder((rows, depth), name="A"), te.placeholder((depth, columns), name="B")
    k = te.reduce_axis((0, depth), "k")
    return [a, b, te.compute((rows, columns), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), "C")]


def uneven(rows, columns, tall, wide):
    """A product in tiles that need not divide it, sums in a buffer of each tile."""
    tensors = product(rows, columns)
    c = tensors[-1]
    s = te.create_schedule(c.op)
    i, j = c.op.axis
    k = c.op.reduce_axis[0]
    io, ii = s[c].split(i, factor=tall)
    jo, ji = s[c].split(j, factor=wide)
    s[c].reorder(io, jo, k, ii, ji)
    s[c].vectorize(ji)
    return s, tensors


@pytest.mark.parametrize(("before", "after"), [(1, 2), (0, 3), (3, 0), (0, 0)])
def test_padding_is_copied_without_asking_where_it_begins(before, after):
    data, pad = padded(before=before, after=after)
    given = np.arange(2 * 6 * 9, dtype="float32").reshape(2, 6, 9)
    out, text = run(te.create_schedule(pad.op), [data, pad], given)
    assert "?" not in text
    assert "if" not in text
    np.testing.assert_array_equal(out, np.pad(given, ((0, 0), *[(before, after)] * 2)))


def in_buffers(rows, columns, unrolled):
    """A product in tiles whose sums are in a buffer, the second matrix copied for each tile."""
    tensors = product(rows, columns)
    _, b, c = tensors
    s = te.create_schedule(c.op)
    sums = s.cache_write(c, "local")
    _, jo, _, ji = s[c].tile(*s[c].op.axis, 4, 8)
    s[sums].compute_at(s[c], jo)
    i, j = s[sums].op.axis
    (k,) = s[sums].op.reduce_axis
    s[sums].reorder(k, i, j)
    copied = s.cache_read(b, "global", [sums])
    s[copied].compute_at(s[sums], k)
    for axis in (j, ji):
        s[sums if axis is j else c].vectorize(axis)
    if unrolled:
        s[sums].unroll(i)
    return s, tensors


@pytest.mark.parametrize("unrolled", [False, True])
@pytest.mark.parametrize(("rows", "columns"), [(9, 19), (4, 16), (3, 5)])
def test_loops_around_buffers_are_taken_apart_too(rows, columns, unrolled):
    schedule, tensors = in_buffers(rows, columns, unrolled)
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-4, 5, [int(n) for n in t.shape]).astype("float32") for t in tensors[:2])
    out, text = run(schedule, tensors, a, b)
    assert "if (" not in text
    np.testing.assert_array_equal(out, a @ b)


def test_iterations_that_are_written_out_have_loops_of_their_own_length():
    x = te.placeholder((13,), name="x")
    y = te.compute((13,), lambda i: x[i] + 1.0, name="y")
    s = te.create_schedule(y.op)
    outer, _ = s[y].split(y.op.axis[0], factor=5)
    s[y].unroll(outer)
    given = np.arange(13, dtype="float32")
    out, text = run(s, [x, y], given)
    assert "if (" not in text
    assert text.count("for (") == 3
    np.testing.assert_array_equal(out, given + 1)


@pytest.mark.parametrize(("rows", "columns", "tall", "wide"), [(49, 16, 5, 8), (7, 19, 3, 8)])
def test_tiles_that_do_not_divide_leave_conditions_to_no_inner_loop(rows, columns, tall, wide):
    schedule, tensors = uneven(rows, columns, tall, wide)
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-4, 5, [int(n) for n in t.shape]).astype("float32") for t in tensors[:2])
    out, text = run(schedule, tensors, a, b)
    assert "if (" not in text
    np.testing.assert_array_equal(out, a @ b)


def test_every_comparison_with_every_sign_turns_where_it_should():
    x = te.placeholder((40,), name="x")

    def value(i):
        parts = [i < 7, i <= 11, i > 30, i >= 33, 3 * i < 50, 20 - i > 3, 2 * i + 1 <= 17]
        return te.max(x[i], 0) + sum(te.if_then_else(each, 2.0**n, 0.0) for n, each in
                                     enumerate(parts))  # fmt: skip

    # One condition each: all of them have more turns than a loop has parts.
    for n in range(7):
        out = te.compute((40,), lambda i, n=n: value_of(n, x, i), "out")
        got, text = run(te.create_schedule(out.op), [x, out], np.arange(40, dtype="float32"))
        assert "?" not in text
        np.testing.assert_array_equal(got, [wanted(n, i) for i in range(40)])
    many = te.compute((40,), value, "many")
    got, text = run(te.create_schedule(many.op), [x, many], np.arange(40, dtype="float32"))
    assert "?" in text
    total = [i + sum(2.0**n * holds(n, i) for n in range(7)) for i in range(40)]
    np.testing.assert_array_equal(got, total)


def holds(n, i):
    return [i < 7, i <= 11, i > 30, i >= 33, 3 * i < 50, 20 - i > 3, 2 * i + 1 <= 17][n]


def value_of(n, x, i):
    return te.if_then_else(holds(n, i), x[i], -1.0)


def wanted(n, i):
    return i if holds(n, i) else -1


def test_a_condition_of_outer_loops_stays_and_so_does_one_of_a_gpu():
    schedule, tensors = uneven(49, 16, 5, 8)
    c = tensors[-1]
    schedule[c].parallel(schedule[c].leaf_iter_vars[0])
    a, b = np.ones((49, 8), "float32"), np.ones((8, 16), "float32")
    out, text = run(schedule, tensors, a, b)
    assert "if (" in text
    assert (out == 8).all()
    data, pad = padded()
    s = te.create_schedule(pad.op)
    block = s[pad].fuse(*pad.op.axis[:2])
    s[pad].bind(block, te.thread_axis("blockIdx.x"))
    text = kernel_of((s, [data, pad]), Target("cuda -arch=sm_90")).source
    assert "?" in text


def test_padding_in_many_dimensions_does_not_become_many_texts():
    data = te.placeholder((4,) * 5, name="data")
    pad = topi.nn.pad(data, (1,) * 5, (1,) * 5, name="pad")
    given = np.arange(4**5, dtype="float32").reshape((4,) * 5)
    out, text = run(te.create_schedule(pad.op), [data, pad], given)
    assert text.count("for (") < 120
    np.testing.assert_array_equal(out, np.pad(given, 1))


def test_maxima_of_a_long_kernel_are_written_where_they_are_taken():
    x = te.placeholder((64,), name="x")
    out = te.compute((64,), lambda i: te.max(x[i], 0.0), "out")
    _, text = run(te.create_schedule(out.op), [x, out], np.ones(64, "float32"))
    assert "__attribute__((always_inline)) float max_float" in text
