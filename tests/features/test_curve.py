"""Curve features read how reuse, data and iterations grow together, loop by loop."""

import numpy as np

from autotune.features import get_buffer_curve_sample_flatten
from tests.features.schedules import cuda_conv, gemm, tiled_gemm


def curves(schedule, args, tensors, samples=30):
    row = get_buffer_curve_sample_flatten(schedule, args, samples)
    assert len(row) == samples * tensors * 4 * 2
    return row.reshape(tensors, 4, samples, 2)


def at(curve, *points):
    return [tuple(curve[point].tolist()) for point in points]


def test_curves_of_plain_gemm():
    reuse, count, down, count_down = curves(*gemm(), tensors=3)[0]
    # Of A, in powers of two: 7, 7, 14 elements, each used 0, 7, 7 times, in 21, 14, 7 iterations.
    assert at(reuse, 0, 6, 7, 8, 14, 20) == [(0, 0), (0, 6), (7, 0), (7, 1), (7, 0), (7, 6)]
    assert at(count, 0, 6, 7, 29) == [(7, 0), (7, 6), (14, 0), (14, 22)]
    assert at(down, 0, 7, 14) == [(0, 0), (14, 0), (21, 0)]
    assert at(count_down, 6, 7, 14, 21) == [(0, 6), (7, 0), (7, 0), (14, 0)]


def test_curves_have_as_many_numbers_for_deeper_loops():
    assert curves(*tiled_gemm(), tensors=3, samples=20).shape == (3, 4, 20, 2)


def test_a_copy_in_other_memory_stands_for_its_tensor():
    # The loops that make the copy are the deepest ones: the only tensor they touch is W.
    copied = curves(*cuda_conv(shared=True), tensors=1)[0]
    reuse, count, _, _ = copied
    # Of the read of W: 3 elements in the copy, 12 in the loop over c, 96 and 768 in threads and
    # blocks; each is read once in the loops over c and x, 8 times in those over y and f.
    assert at(reuse[:, :1], 0, 6, 7) == [(0,), (0,), (3,)]
    np.testing.assert_allclose(count[[0, 2, 3], 0], np.log2([96, 96, 768]), rtol=1e-6)


def test_names_change_nothing():
    renamed = tiled_gemm(8, 8, names=("a", "bb", "c"), axes=("r", "s", "t"))
    np.testing.assert_array_equal(
        get_buffer_curve_sample_flatten(*renamed),
        get_buffer_curve_sample_flatten(*tiled_gemm(8, 8)),
    )
