"""The bytes that the computes behind some arguments move at least."""

from autotune import te


def test_each_argument_counts_once():
    a, b = te.placeholder((8, 16), name="A"), te.placeholder((16, 4), "float16", "B")
    k = te.reduce_axis((0, 16), "k")
    c = te.compute((8, 4), lambda i, j: te.sum(a[i, k] * b[k, j].astype("float32"), axis=k))
    assert te.compute_bytes([a, b, c]) == 8 * 16 * 4 + 16 * 4 * 2 + 8 * 4 * 4


def test_what_is_between_two_computes_does_not_count():
    a = te.placeholder((64,), name="A")
    b = te.compute((64,), lambda i: a[i] + a[i])
    c = te.compute((64,), lambda i: b[i] * 2)
    assert te.compute_bytes([a, c]) == 2 * 64 * 4
    assert te.compute_bytes([a, b, c]) == 3 * 64 * 4


def test_of_an_input_that_is_read_in_part_only_that_part_counts():
    table, rows = te.placeholder((1000, 8), name="table"), te.placeholder((3,), "int32", "rows")
    taken = te.compute((3, 8), lambda i, j: table[rows[i], j])
    assert te.compute_bytes([table, rows, taken]) == 3 * 8 * 4 + 3 * 4 + 3 * 8 * 4
    part = te.compute((4,), lambda i: table[i, 0])
    assert te.compute_bytes([table, part]) == 2 * 4 * 4


def test_an_unknown_shape_makes_the_bytes_unknown():
    n = te.var("n")
    a = te.placeholder((n,), name="A")
    assert te.compute_bytes([a, te.compute((n,), lambda i: a[i] + 1)]) == 0
