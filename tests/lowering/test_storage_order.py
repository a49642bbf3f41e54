"""Copies inside a kernel lie in memory as the vectors that read them want it."""

import numpy as np

import autotune
from autotune import te
from autotune.driver import build
from autotune.lowering import lower


def packed_product(lanes_on_rows):
    """A product whose vectors go along the rows of a, a copy of which each tile has."""
    a, b = te.placeholder((32, 48), name="A"), te.placeholder((48, 24), name="B")
    k = te.reduce_axis((0, 48), "k")
    c = te.compute((32, 24), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), "C")
    s = te.create_schedule(c.op)
    sums = s.cache_write(c, "local")
    i, j = c.op.axis
    io, ii = s[c].split(i, factor=16)
    jo, ji = s[c].split(j, factor=4)
    s[c].reorder(io, jo, ii, ji)
    copy = s.cache_read(a, "global", [sums])
    s[copy].compute_at(s[c], io)
    s[sums].compute_at(s[c], jo)
    i, j = s[sums].op.axis
    s[sums].reorder(s[sums].op.reduce_axis[0], j, i)
    s[sums].unroll(j)
    if lanes_on_rows:
        s[sums].vectorize(i)
    return s, [a, b, c]


def test_a_copy_and_its_sums_are_stored_along_the_vectors_that_use_them():
    schedule, tensors = packed_product(lanes_on_rows=True)
    text = autotune.build(schedule, tensors, target="llvm").kernel.source
    # The copy of a: neighbours are rows. The sums: 16 rows of a column beside one another.
    assert "A_global[ax1 * 16 + ax0]" in text
    assert "*(const float_v64*)&A_global[" in text
    assert "*(float_v64*)&C_local[" in text


def test_rows_stay_neighbours_where_no_vector_wants_another_order():
    schedule, tensors = packed_product(lanes_on_rows=False)
    assert (
        "A_global[ax0 * 48 + ax1]"
        in autotune.build(schedule, tensors, target="llvm").kernel.source
    )


def test_a_product_with_copies_stored_along_vectors_is_right():
    schedule, tensors = packed_product(lanes_on_rows=True)
    run = build(schedule, tensors, target="llvm")
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(shape).astype("float32") for shape in ((32, 48), (48, 24)))
    c = np.full((32, 24), np.nan, "float32")
    run(a, b, c)
    np.testing.assert_allclose(c, a @ b, rtol=1e-4, atol=1e-4)


def test_an_alignment_that_was_asked_for_is_kept():
    schedule, tensors = packed_product(lanes_on_rows=True)
    copy = next(stage for stage in schedule.stages if stage.op.name.startswith("A.global"))
    copy.storage_align(copy.op.axis[0], 32, 4)
    assert "A_global[ax0 * 68 + ax1]" in str(lower(schedule, tensors)).replace(
        "A.global", "A_global"
    )
