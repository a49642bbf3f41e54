"""The kernels behind the roofline: one that only copies, and some that only multiply and add."""

from __future__ import annotations

from dataclasses import dataclass

from autotune.kernel import Kernel, SourceKernel, arg

_MIB = 1 << 20


@dataclass(frozen=True)
class RooflineKernels:
    """What is timed on one device.

    Attributes:
        copy: moves all its arguments through memory once.
        arithmetic: by element type, a kernel and how many operations it does.
    """

    copy: Kernel
    arithmetic: dict[str, tuple[Kernel, float]]


# ---- CUDA --------------------------------------------------------------------------------------

_CUDA_COPY = """
extern "C" __global__ void __launch_bounds__(512) copy(const float4 *x, float4 *y) {
  const size_t base = (size_t)blockIdx.x * 512 * 4 + threadIdx.x;
  float4 v[4];
#pragma unroll
  for (int i = 0; i < 4; i++) v[i] = x[base + i * 512];
#pragma unroll
  for (int i = 0; i < 4; i++) y[base + i * 512] = v[i];
}
"""
# Sixteen chains a thread hide the latency of a multiply-add; the store, which never happens, keeps
# them from being removed.
_CUDA_FMA = """
extern "C" __global__ void __launch_bounds__(256) fma_rate(float *y) {
  TYPE a[16];
  const TYPE m = (TYPE)0.999 + (TYPE)threadIdx.x * (TYPE)1e-6, c = (TYPE)blockIdx.x * (TYPE)1e-6;
#pragma unroll
  for (int j = 0; j < 16; j++) a[j] = (TYPE)j;
  for (int i = 0; i < STEPS; i++)
#pragma unroll
    for (int j = 0; j < 16; j++) a[j] = a[j] * m + c;
  TYPE sum = 0;
#pragma unroll
  for (int j = 0; j < 16; j++) sum += a[j];
  if (sum == (TYPE)-12345.678) y[0] = (float)sum;
}
"""
_CUDA_MMA = """
#include <cuda_fp16.h>
#include <cuda_bf16.h>
#include <mma.h>
using namespace nvcuda::wmma;
extern "C" __global__ void __launch_bounds__(256) mma_rate(float *y) {
  fragment<matrix_a, 16, 16, 16, TYPE, row_major> a;
  fragment<matrix_b, 16, 16, 16, TYPE, col_major> b;
  fragment<accumulator, 16, 16, 16, float> c[4];
  fill_fragment(a, (TYPE)(0.001f * threadIdx.x));
  fill_fragment(b, (TYPE)(0.001f * blockIdx.x));
  for (int j = 0; j < 4; j++) fill_fragment(c[j], (float)j);
  for (int i = 0; i < STEPS; i++)
#pragma unroll
    for (int j = 0; j < 4; j++) mma_sync(c[j], a, b, c[j]);
  float sum = 0;
  for (int j = 0; j < 4; j++)
    for (int k = 0; k < c[j].num_elements; k++) sum += c[j].x[k];
  if (sum == -12345.678f) y[0] = sum;
}
"""


def for_cuda(sm_count: int) -> RooflineKernels:
    """Return the kernels for a CUDA device of so many multiprocessors.

    The 16-bit ones do not compile where the matrix units know no such type.
    """
    n = 128 * _MIB  # floats: 512 MiB each way, ten times the largest L2 cache
    copy = SourceKernel(
        "copy",
        _CUDA_COPY,
        [arg("x", (n,)), arg("y", (n,), role="out")],
        grid=n // (4 * 4 * 512),
        block=512,
    ).kernel("cuda")
    arithmetic = {
        "float32": _cuda_rate(_CUDA_FMA, "fma_rate", "float", 4096, sm_count, 16 * 2 * 256),
        "float64": _cuda_rate(_CUDA_FMA, "fma_rate", "double", 1024, sm_count, 16 * 2 * 256),
    }
    per_block = 4 * 2 * 16**3 * (256 // 32)
    for dtype, name in (("float16", "__half"), ("bfloat16", "__nv_bfloat16")):
        arithmetic[dtype] = _cuda_rate(_CUDA_MMA, "mma_rate", name, 1024, sm_count, per_block)
    return RooflineKernels(copy, arithmetic)


def _cuda_rate(
    source: str, name: str, dtype: str, steps: int, sm_count: int, per_step: int
) -> tuple[Kernel, float]:
    """Return a kernel of eight blocks a multiprocessor and its number of operations."""
    blocks = sm_count * 8
    kernel = SourceKernel(
        name,
        source,
        [arg("y", (1,), role="out")],
        {"TYPE": dtype, "STEPS": steps},
        grid=blocks,
        block=256,
    ).kernel("cuda")
    return kernel, float(per_step) * steps * blocks


# ---- C -----------------------------------------------------------------------------------------

_C_COPY = """
void copy(const float *restrict x, float *restrict y) {
#pragma omp parallel for simd schedule(static)
  for (long i = 0; i < N; i++) y[i] = x[i];
}
"""
# Twelve vectors of the widest kind fit the registers and hide the latency of a multiply-add. None
# may decay to denormal numbers, which take a hundred times as long.
_C_FMA = """
#if defined(__AVX512F__)
#define BYTES 64
#elif defined(__AVX__)
#define BYTES 32
#else
#define BYTES 16
#endif
typedef TYPE Vector __attribute__((vector_size(BYTES)));
enum { LANES = BYTES / sizeof(TYPE), VECTORS = 12 };

void fma_rate(float *y) {
  /* The work is the same whatever the width: lanes x vectors x steps. */
  const long steps = WORK / (LANES * VECTORS);
#pragma omp parallel for schedule(static)
  for (int t = 0; t < THREADS; t++) {
    Vector a[VECTORS], m, c;
    for (int l = 0; l < LANES; l++) { m[l] = (TYPE)0.999; c[l] = (TYPE)1e-3 * (l + 1); }
    for (int v = 0; v < VECTORS; v++) a[v] = c + (TYPE)v;
    for (long i = 0; i < steps; i++)
#pragma GCC unroll 12
      for (int v = 0; v < VECTORS; v++) a[v] = a[v] * m + c;
    TYPE sum = 0;
    for (int v = 0; v < VECTORS; v++)
      for (int l = 0; l < LANES; l++) sum += a[v][l];
    y[t] = (float)sum;
  }
}
"""
_C_WORK = 12 * 64 * 1_000_000  # multiply-adds a thread: about ten milliseconds


def for_cpu(threads: int) -> RooflineKernels:
    """Return the kernels for a CPU on which ``threads`` run at once."""
    n = 32 * _MIB  # floats: 128 MiB each way, more than caches hold
    copy = SourceKernel(
        "copy", _C_COPY, [arg("x", (n,)), arg("y", (n,), role="out")], {"N": n}
    ).kernel("c")
    arithmetic = {}
    for dtype, name in (("float32", "float"), ("float64", "double")):
        kernel = SourceKernel(
            "fma_rate",
            _C_FMA,
            [arg("y", (threads,), role="out")],
            {"TYPE": name, "THREADS": threads, "WORK": _C_WORK},
        ).kernel("c")
        arithmetic[dtype] = (kernel, 2.0 * _C_WORK * threads)
    return RooflineKernels(copy, arithmetic)
