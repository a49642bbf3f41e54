"""The kernels that measure the roofline: some only move data, others only multiply and add."""

from __future__ import annotations

from dataclasses import dataclass

from autotune.kernel.kernel import Kernel
from autotune.kernel.source import SourceKernel, arg

_KIB, _MIB, _GIB = 1 << 10, 1 << 20, 1 << 30


@dataclass(frozen=True)
class Traffic:
    """A kernel that goes over its data and does nothing else.

    Attributes:
        kernel: it reads ``x``, and may write ``y``.
        working_set: bytes it goes over, all of which must be held to be found again.
        passes: how often one run goes over them.
        plan: values of its second input, if it has one.
    """

    kernel: Kernel
    working_set: int
    passes: int = 1
    plan: tuple[int, ...] = ()


@dataclass(frozen=True)
class RooflineKernels:
    """The kernels that are timed on one device.

    Attributes:
        traffic: over working sets of many sizes, up to more than caches hold.
        arithmetic: by element type, a kernel and how many operations it does.
    """

    traffic: tuple[Traffic, ...]
    arithmetic: dict[str, tuple[Kernel, float]]


def _powers_of_two(first: int, last: int) -> list[int]:
    return [1 << k for k in range(first.bit_length() - 1, last.bit_length())]


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
_CUDA_READ = """
extern "C" __global__ void __launch_bounds__(512) read_only(const float4 *x, float *y) {
  const size_t base = (size_t)blockIdx.x * 512 * 4 + threadIdx.x;
  float4 v[4];
#pragma unroll
  for (int i = 0; i < 4; i++) v[i] = x[base + i * 512];
  float sum = 0;
#pragma unroll
  for (int i = 0; i < 4; i++) sum += v[i].x + v[i].y + v[i].z + v[i].w;
  if (sum == -12345.678f) y[0] = sum;
}
"""
_CUDA_BLOCK = 4 * 4 * 512  # floats of one block
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
    """Return the kernels for a CUDA device with a number of multiprocessors.

    Those of a 16-bit type do not compile if the tensor cores do not support it.
    """
    sizes = _powers_of_two(_MIB, _GIB)  # ten times the largest L2 cache
    traffic = [one for size in sizes for one in (_cuda_copy(size), _cuda_read(size))]
    arithmetic = {
        "float32": _cuda_rate(_CUDA_FMA, "fma_rate", "float", 4096, sm_count, 16 * 2 * 256),
        "float64": _cuda_rate(_CUDA_FMA, "fma_rate", "double", 1024, sm_count, 16 * 2 * 256),
    }
    per_block = 4 * 2 * 16**3 * (256 // 32)
    for dtype, name in (("float16", "__half"), ("bfloat16", "__nv_bfloat16")):
        arithmetic[dtype] = _cuda_rate(_CUDA_MMA, "mma_rate", name, 1024, sm_count, per_block)
    return RooflineKernels(tuple(traffic), arithmetic)


def _cuda_copy(size: int) -> Traffic:
    n = size // 8
    args = [arg("x", (n,)), arg("y", (n,), role="out")]
    return Traffic(
        SourceKernel("copy", _CUDA_COPY, args, grid=n // _CUDA_BLOCK, block=512).kernel("cuda"),
        size,
    )


def _cuda_read(size: int) -> Traffic:
    n = size // 4
    args = [arg("x", (n,)), arg("y", (1,), role="out")]
    return Traffic(
        SourceKernel("read_only", _CUDA_READ, args, grid=n // _CUDA_BLOCK, block=512).kernel(
            "cuda"
        ),
        size,
    )


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

# A thread stays on a core of its own while it works: two that share one would halve the rate.
_C_PIN = """
#define _GNU_SOURCE
#ifdef __linux__
#include <sched.h>
typedef cpu_set_t Cores;
static Cores pin(int number) {
  Cores all, one;
  CPU_ZERO(&all);
  CPU_ZERO(&one);
  sched_getaffinity(0, sizeof all, &all);
  for (int core = 0; core < CPU_SETSIZE; core++)
    if (CPU_ISSET(core, &all) && number-- == 0) {
      CPU_SET(core, &one);
      sched_setaffinity(0, sizeof one, &one);
    }
  return all;
}
static void unpin(Cores all) { sched_setaffinity(0, sizeof all, &all); }
#else
typedef int Cores;
static Cores pin(int number) { return number; }
static void unpin(Cores all) { (void)all; }
#endif
"""
# Each thread goes over its own part again and again: a call of its own for each pass would take
# longer than the pass, where the part fits the nearest cache. The plan says how much and how
# often, so that one compilation does for all sizes.
_C_COPY = (
    _C_PIN
    + """
void copy(const float *restrict x, const long *plan, float *restrict y) {
#pragma omp parallel for schedule(static)
  for (int t = 0; t < THREADS; t++) {
    const long n = plan[0], passes = plan[1];
    const Cores before = pin(t);
    for (long pass = 0; pass < passes; pass++) {
      for (long i = 0; i < n; i++) y[t * n + i] = x[t * n + i];
      __asm__ volatile("" ::: "memory");
    }
    unpin(before);
  }
}
"""
)
_C_VECTORS = (
    _C_PIN
    + """
#if defined(__AVX512F__)
#define BYTES 64
#elif defined(__AVX__)
#define BYTES 32
#else
#define BYTES 16
#endif
"""
)
_C_READ = (
    _C_VECTORS
    + """
typedef float Vector __attribute__((vector_size(BYTES)));
enum { LANES = BYTES / sizeof(float), VECTORS = 8 };

void read_only(const float *restrict x, const long *plan, float *restrict y) {
#pragma omp parallel for schedule(static)
  for (int t = 0; t < THREADS; t++) {
    const long n = plan[0], passes = plan[1];
    const Cores before = pin(t);
    Vector a[VECTORS] = {0};
    for (long pass = 0; pass < passes; pass++) {
      const Vector *from = (const Vector *)(x + t * n);
      for (long i = 0; i < n / LANES; i += VECTORS)
#pragma GCC unroll 8
        for (int v = 0; v < VECTORS; v++) a[v] += from[i + v];
      __asm__ volatile("" ::: "memory");
    }
    float sum = 0;
    for (int v = 0; v < VECTORS; v++)
      for (int l = 0; l < LANES; l++) sum += a[v][l];
    y[t] = sum;
    unpin(before);
  }
}
"""
)
# Twelve vectors of the widest kind fit the registers and hide the latency of a multiply-add. None
# may decay to denormal numbers, which take a hundred times as long.
_C_FMA = (
    _C_VECTORS
    + """
typedef TYPE Vector __attribute__((vector_size(BYTES)));
enum { LANES = BYTES / sizeof(TYPE), VECTORS = 12 };

void fma_rate(float *y) {
  /* The work is the same whatever the width: lanes x vectors x steps. */
  const long steps = WORK / (LANES * VECTORS);
#pragma omp parallel for schedule(static)
  for (int t = 0; t < THREADS; t++) {
    const Cores before = pin(t);
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
    unpin(before);
  }
}
"""
)
_C_STEP = 8 * 16  # floats of one step of the widest kind
_C_TRAFFIC = 16 * _MIB  # bytes a run moves at least: about a millisecond
_C_WORK = 12 * 64 * 1_000_000  # multiply-adds a thread: about ten milliseconds


def for_cpu(threads: int) -> RooflineKernels:
    """Return the kernels for a CPU on which ``threads`` run at once."""
    sizes = _powers_of_two(max(64 * _KIB, 4 * _KIB * threads), 256 * _MIB)
    traffic = [t for size in sizes for t in (_c_copy(size, threads), _c_read(size, threads))]
    arithmetic = {}
    for dtype, name in (("float32", "float"), ("float64", "double")):
        kernel = SourceKernel(
            "fma_rate",
            _C_FMA,
            [arg("y", (threads,), role="out")],
            {"TYPE": name, "THREADS": threads, "WORK": _C_WORK},
        ).kernel("c")
        arithmetic[dtype] = (kernel, 2.0 * _C_WORK * threads)
    return RooflineKernels(tuple(traffic), arithmetic)


def _c_copy(size: int, threads: int) -> Traffic:
    n = _floats_a_thread(size // 2, threads)
    return _c_traffic("copy", _C_COPY, n, threads, 2 * n * threads, outputs=n * threads)


def _c_read(size: int, threads: int) -> Traffic:
    n = _floats_a_thread(size, threads)
    return _c_traffic("read_only", _C_READ, n, threads, n * threads, outputs=threads)


def _floats_a_thread(size: int, threads: int) -> int:
    return size // 4 // threads // _C_STEP * _C_STEP


def _c_traffic(name: str, source: str, n: int, threads: int, floats: int, outputs: int) -> Traffic:
    args = [
        arg("x", (n * threads,)),
        arg("plan", (2,), "int64"),
        arg("y", (outputs,), role="out"),
    ]
    kernel = SourceKernel(name, source, args, {"THREADS": threads}).kernel("c")
    passes = max(1, _C_TRAFFIC // (4 * floats))
    return Traffic(kernel, 4 * floats, passes, plan=(n, passes))
