"""Products on tensor cores by the intrinsics of `nvcuda::wmma`, as schedules of TVM use them."""

import numpy as np
import pytest
from autotune.tvm.topi.cuda.tensor_intrin import (
    intrin_wmma_gemm,
    intrin_wmma_load_matrix_A,
    intrin_wmma_load_matrix_W,
    intrin_wmma_store_matrix,
)

from autotune import tvm
from autotune.driver import kernel_of
from autotune.errors import ExpressionError, LoweringError, ScheduleError
from autotune.tvm import te

TARGET = "cuda -arch=sm_90 -emulate"


def wmma_product(m, n, k, shape=(16, 16, 16), tiles=2, lanes=32, tensorize=True):
    """Return the schedule of a product A * B^T, each warp with some tiles of rows and columns."""
    wm, wn, wk = shape
    A, B = te.placeholder((m, k), "float16", "A"), te.placeholder((n, k), "float16", "B")
    r = te.reduce_axis((0, k), "r")

    def product(left, right, axis):
        return lambda i, j: te.sum(
            left[i, axis].astype("float32") * right[j, axis].astype("float32"), axis=axis
        )

    C = te.compute((m, n), product(A, B, r), name="C")
    s = te.create_schedule(C.op)
    AS, BS = s.cache_read(A, "shared", [C]), s.cache_read(B, "shared", [C])
    AF, BF = s.cache_read(AS, "wmma.matrix_a", [C]), s.cache_read(BS, "wmma.matrix_b", [C])
    CF = s.cache_write(C, "wmma.accumulator")
    CS = s.cache_read(CF, "shared", [C])
    i, j = s[C].op.axis
    by, i = s[C].split(i, factor=wm * tiles)
    bx, j = s[C].split(j, factor=wn * tiles)
    s[C].reorder(by, bx, i, j)
    s[C].bind(by, te.thread_axis("blockIdx.y"))
    s[C].bind(bx, te.thread_axis("blockIdx.x"))
    _, x = s[C].split(s[C].fuse(i, j), factor=lanes)
    s[C].bind(x, te.thread_axis("threadIdx.x"))
    s[CS].compute_at(s[C], bx)
    s[CF].compute_at(s[C], bx)
    ko, ki = s[CF].split(s[CF].op.reduce_axis[0], factor=2 * wk)
    ki, kk = s[CF].split(ki, factor=wk)
    yo, yi = s[CF].split(s[CF].op.axis[0], factor=wm)
    xo, xi = s[CF].split(s[CF].op.axis[1], factor=wn)
    s[CF].reorder(ko, ki, yo, xo, yi, xi, kk)
    for part in (AS, BS):
        s[part].compute_at(s[CF], ko)
        _, x = s[part].split(s[part].fuse(*s[part].op.axis), factor=lanes)
        s[part].bind(x, te.thread_axis("threadIdx.x"))
    if not tensorize:
        return s, [A, B, C]
    whole, sums = [2 * wk, 1], [wn * tiles, 1]
    loads = (
        (AF, intrin_wmma_load_matrix_A, (wm, wk), "row_major"),
        (BF, intrin_wmma_load_matrix_W, (wn, wk), "col_major"),
    )
    for part, intrin, sizes, layout in loads:
        s[part].compute_at(s[CF], ko)
        rows, columns = s[part].op.axis
        yo_, yi_ = s[part].split(rows, factor=sizes[0])
        xo_, xi_ = s[part].split(columns, factor=sizes[1])
        s[part].reorder(yo_, xo_, yi_, xi_)
        s[part].tensorize(yi_, intrin(whole, whole, shape, layout, sizes, sizes, "float16"))
    a, b = te.placeholder((wm, wk), "float16", "a"), te.placeholder((wn, wk), "float16", "b")
    c = te.compute((wm, wn), product(a, b, te.reduce_axis((0, wk), "k")), name="c")
    s[CF].tensorize(yi, intrin_wmma_gemm(a, b, c, whole, whole, sums, shape))
    yo_, yi_ = s[CS].split(s[CS].op.axis[0], factor=wm)
    xo_, xi_ = s[CS].split(s[CS].op.axis[1], factor=wn)
    s[CS].reorder(yo_, xo_, yi_, xi_)
    store = intrin_wmma_store_matrix(sums, sums, shape, "float32", (wm, wn), (wm, wn))
    s[CS].tensorize(yi_, store)
    return s, [A, B, C]


@pytest.mark.parametrize("shape", [(16, 16, 16), (32, 8, 16), (8, 32, 16)])
def test_a_product_by_fragments_is_that_of_numpy(shape):
    s, args = wmma_product(64, 64, 64, shape)
    a, b = (np.random.default_rng(i).integers(-4, 5, (64, 64)).astype("float16") for i in (0, 1))
    found = np.zeros((64, 64), "float32")
    tvm.build(s, args, TARGET)(a, b, found)
    np.testing.assert_array_equal(found, a.astype("float32") @ b.T.astype("float32"))


def test_fragments_are_declared_and_numbered():
    text = kernel_of(wmma_product(64, 64, 64), "cuda -arch=sm_90").source
    assert "fragment<nvcuda::wmma::matrix_b, 16, 16, 16, __half, nvcuda::wmma::col_major>" in text
    assert "accumulator, 16, 16, 16, float> C_wmma_accumulator[4];" in text
    assert "__align__(32) __half A_shared[" in text
    assert text.count("__syncthreads();") == 3  # copies, products, sums


def test_a_matrix_belongs_to_the_threads_of_one_warp():
    with pytest.raises(LoweringError, match=r"along threadIdx.x, .* together, got 16 threads"):
        kernel_of(wmma_product(64, 64, 64, lanes=16), "cuda -arch=sm_90")


def test_elements_of_a_fragment_are_reached_by_intrinsics_only():
    s, args = wmma_product(64, 64, 64)
    stage = next(each for each in s.stages if each.op.name == "A.shared.wmma.matrix_a")
    stage.tensorized = None
    with pytest.raises(LoweringError, match=r"matrix_a is a fragment of a warp.*tensorize each"):
        kernel_of((s, args), "cuda -arch=sm_90")


def test_calls_of_fragments_say_what_they_expect():
    buffer = te.decl_buffer((16, 16), "float16", scope="wmma.matrix_a")
    pointer = buffer.access_ptr("r")
    load = "tir.tvm_load_matrix_sync"
    for args, problem in (
        ((3, 16, 16, 16, 0, pointer, 16, "row_major"), "expected the data of a declared buffer"),
        ((buffer.data, 16, 16, 16, 0, 3, 16, "row_major"), "expected the address of a matrix"),
        ((buffer.data, 16, 16, 16, 0, pointer, 16, "rows"), "row_major or col_major, got 'rows'"),
    ):
        with pytest.raises(ExpressionError, match=problem):
            tvm.tir.call_intrin("handle", load, *args)
    A = te.placeholder((16, 16), "float16", "A")
    B = te.compute((16, 16), lambda i, j: A[i, j], "B")
    with pytest.raises(ScheduleError, match=r"wmma.matrix_a, .* got 'wmma.matrix_c'"):
        te.create_schedule(B.op).cache_read(A, "wmma.matrix_c", [B])
