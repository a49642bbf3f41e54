"""Warp matrix operations multiply as tensor cores do."""

import numpy as np
import pytest

from autotune.emulator import run_emulated
from autotune.kernel import SourceKernel, arg

TEXT = """
#include <mma.h>
using namespace nvcuda;
extern "C" __global__ void f(const {T}* a, const {T}* b, {C}* c) {{
  wmma::fragment<wmma::matrix_a, 16, 16, 16, {T}, wmma::row_major> fa;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, {T}, wmma::col_major> fb;
  wmma::fragment<wmma::accumulator, 16, 16, 16, {C}> fc;
  wmma::fill_fragment(fc, 0);
  int warp = threadIdx.x / 32;
  for (int k = 0; k < 32; k += 16) {{
    wmma::load_matrix_sync(fa, a + warp * 16 * 32 + k, 32);
    wmma::load_matrix_sync(fb, b + k, 32);
    wmma::mma_sync(fc, fa, fb, fc);
  }}
  for (int i = 0; i < fc.num_elements; ++i) fc.x[i] = fc.x[i] * 2;
  wmma::store_matrix_sync(c + warp * 256, fc, 16, wmma::mem_row_major);
}}
"""


@pytest.mark.parametrize(
    ("kinds", "dtypes"),
    [
        (("half", "float"), ("float16", "float32")),
        (("signed char", "int"), ("int8", "int32")),
    ],
)
def test_two_warps_multiply_tiles(kinds, dtypes):
    text = TEXT.format(T=kinds[0], C=kinds[1])
    rng = np.random.default_rng(0)
    a = (rng.standard_normal((2, 16, 32)) * 10).astype(dtypes[0])
    b = (rng.standard_normal((16, 32)) * 10).astype(dtypes[0])
    c = np.zeros((2, 16, 16), dtypes[1])
    args = [arg("a", a.shape, dtypes[0]), arg("b", b.shape, dtypes[0])]
    args.append(arg("c", c.shape, dtypes[1], "out"))
    run_emulated(SourceKernel("f", text, args, block=64).kernel("cuda"), [a, b, c])
    wide = "float64"
    expected = a.astype(wide) @ b.astype(wide).T * 2
    np.testing.assert_allclose(c, expected, rtol=1e-5, atol=1e-3)
