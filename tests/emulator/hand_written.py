"""Kernels as people write them by hand, with what numpy computes of the same."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from autotune.kernel import Kernel, SourceKernel, arg

F32, F64, I32, U32, F16 = np.float32, np.float64, np.int32, np.uint32, np.float16
VALUES = np.random.default_rng(0).standard_normal(1024).astype(F32)


@dataclass(frozen=True)
class HandWritten:
    """An entry of the name of its key, what it gets, and the results by their position."""

    text: str
    arrays: tuple[np.ndarray, ...]
    expected: dict[int, Callable[[], Any]]
    launch: dict[str, Any] = field(default_factory=dict)

    def kernel(self, name: str) -> Kernel:
        args = [
            arg(f"a{i}", a.shape, a.dtype.name, "inout" if i in self.expected else "in")
            for i, a in enumerate(self.arrays)
        ]
        return SourceKernel(name, self.text, args, **self.launch).kernel("cuda")


def zeros(*shape: int, dtype: Any = F32) -> np.ndarray:
    return np.zeros(shape, dtype)


COMPLEX = VALUES[:128].astype(F64) + 1j * VALUES[128:256]
HALVES = (abs(VALUES[:256]) / 4).astype(F16)
PAIRS = HALVES.astype(F32).reshape(128, 2)
BYTES = np.random.default_rng(1).integers(-128, 128, (2, 64, 4)).astype(np.int8)
MATRICES = VALUES[:512].astype(F64).reshape(32, 4, 4) + 4 * np.eye(4)


def _groups() -> np.ndarray:
    lane, v = np.arange(128) % 32, VALUES[:128]
    same = np.array([sum(j % 3 == i % 3 for j in range(k, k + 32)) for k in (0, 32, 64, 96)
                     for i in range(k, k + 32)])  # fmt: skip
    sums = np.repeat(v.reshape(32, 4).sum(1), 4) + np.repeat(v.reshape(4, 32).max(1), 32)
    return sums + lane + 1 + 2 * lane + same + 16 + 120 + lane % 16 + lane // 4 % 4


KERNELS = {
    "groups": HandWritten(
        """#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
namespace cg = cooperative_groups;
__device__ int append(int* count) {
  auto active = cg::coalesced_threads();
  int first = 0;
  if (active.thread_rank() == 0) first = atomicAdd(count, (int)active.size());
  return active.shfl(first, 0) + active.thread_rank();
}
__device__ int rank_in(cg::thread_group group) { group.sync(); return group.thread_rank(); }
extern "C" __global__ void groups(const float* in, float* kept, int* count, float* sums) {
  cg::thread_block block = cg::this_thread_block();
  __shared__ int n;
  if (block.thread_rank() == 0) n = 0;
  cg::sync(block);
  const int t = block.thread_rank();
  const float v = in[t];
  if (v > 0.f) kept[append(&n)] = v;
  block.sync();
  if (t == 0) *count = n;
  cg::thread_block_tile<32> warp = cg::tiled_partition<32>(block);
  cg::thread_block_tile<4> four = cg::tiled_partition<4>(warp);
  float sum = cg::reduce(four, v, cg::plus<float>()) + cg::reduce(warp, v, cg::greater<float>());
  sum += cg::inclusive_scan(warp, 1) + cg::exclusive_scan(warp, 2, cg::plus<int>());
  sum += __popc(warp.match_any(t % 3)) + four.meta_group_rank() % 4;
  auto half = cg::binary_partition(warp, t % 2 == 0);
  sum += half.size() + cg::reduce(half, (int)half.thread_rank(), cg::plus<int>());
  sums[t] = sum + rank_in(cg::tiled_partition(block, 16));
}""",
        (VALUES[:128], zeros(128), zeros(1, dtype=I32), zeros(128)),
        {1: lambda: None, 2: lambda: [(VALUES[:128] > 0).sum()], 3: _groups},
        {"grid": 1, "block": 128},
    ),
    "complex_numbers": HandWritten(
        """#include <cuComplex.h>
#include <cuda/std/complex>
extern "C" __global__ void complex_numbers(const cuDoubleComplex* a, cuDoubleComplex* b,
                                           double* c) {
  const cuDoubleComplex v = a[threadIdx.x], one = make_cuDoubleComplex(1.0, 0.0);
  b[threadIdx.x] = cuCadd(cuCmul(v, v), cuConj(cuCdiv(one, v)));
  const cuda::std::complex<double> w(v.x, v.y);
  c[threadIdx.x] = (w * w + cuda::std::exp(w)).real() + cuda::std::abs(w) + cuCreal(v) - cuCabs(v);
}""",
        (COMPLEX.view(F64), zeros(256, dtype=F64), zeros(128, dtype=F64)),
        {1: lambda: (COMPLEX**2 + np.conj(1 / COMPLEX)).view(F64),
         2: lambda: (COMPLEX**2 + np.exp(COMPLEX)).real + COMPLEX.real},
        {"grid": 1, "block": 128},
    ),
    "pairs_of_halves": HandWritten(
        """#include <cuda_fp16.h>
extern "C" __global__ void pairs_of_halves(const half2* a, half2* b, float* c) {
  half2 v = a[threadIdx.x], one = __float2half2_rn(1.f);
  half2 w = __hfma2_relu(v, v, -one), z = __hmul2(v, v);
  if (__hbgt2(v, __hneg2(one))) b[threadIdx.x] = h2sqrt(v) + __lowhigh2highlow(v) * one;
  half k = __habs(v.x); ++k; z += __low2half2(v);
  c[threadIdx.x] = __half2float(w.x) + __low2float(__hadd2_sat(one, v)) + __low2float(__hgt2(v, w))
    + __half2int_rd(v.y * __float2half(128.f)) + (float)__half2ushort_rn(k) * 0.f + (k > v.x)
    + __high2float(__lows2half2(v, v))
    + __low2float(__shfl_xor_sync(0xffffffffu, v, 1)) * 0.f + __half2float(z.x) * 0.f;
}""",
        (HALVES, zeros(256, dtype=F16), zeros(128)),
        {1: lambda: np.sqrt(PAIRS).astype(F16) + PAIRS[:, ::-1].astype(F16),
         2: lambda: np.maximum(PAIRS[:, 0] ** 2 - 1, 0) + 3 + PAIRS[:, 0]
            + np.floor(PAIRS[:, 1] * 128)},
        {"grid": 1, "block": 128},
    ),
    "packed_bytes": HandWritten(
        """extern "C" __global__
void packed_bytes(const char4* a, const unsigned* b, int* c, unsigned* d) {
  const int i = threadIdx.x;
  const unsigned x = reinterpret_cast<const unsigned*>(a)[i], y = b[i];
  c[i] = __dp4a(a[i], reinterpret_cast<const char4*>(b)[i], 7) + __dp4a((int)x, (int)y, 0)
    + __dp2a_lo(3 << 16 | 5, 0x0102, 0) + __dp2a_hi(3, 0x01020000, 0);
  d[i] = __vadd4(x, y); d[i + 64] = __vmaxs4(x, y);
  d[i + 128] = __vabsdiffu4(x, y); d[i + 192] = __vsubss4(x, y);
}""",
        (BYTES[0], BYTES[1].view(U32).ravel(), zeros(64, dtype=I32), zeros(256, dtype=U32)),
        {2: lambda: 2 * BYTES.astype(int).prod(0).sum(1) + 7 + 13 + 6, 3: lambda: _packed(*BYTES)},
        {"grid": 1, "block": 64},
    ),
    "cxx": HandWritten(
        """#include <cuda/std/array>
#include <cuda/std/cstdint>
#include <cuda/std/limits>
#include <cuda/std/tuple>
#include <cuda/std/type_traits>
template <int I> __device__ float steps(float v) {
  if constexpr (I == 0) return v;
  else if constexpr (I % 2) return steps<I - 1>(v) + 1.f;
  else return steps<I - 1>(v) * 2.f;
}
template <class... T> __device__ auto sum_of(T... values) { return (values + ...); }
extern "C" __global__ void cxx(const float* in, float* out) {
  const cuda::std::array<float, 2> two{in[threadIdx.x], in[threadIdx.x ^ 1]};
  auto sorted = cuda::std::make_tuple(two[0], two[1]);
  if (two[1] < two[0]) sorted = cuda::std::make_tuple(two[1], two[0]);
  auto [low, high] = sorted;
  static_assert(cuda::std::is_same_v<decltype(low), float>);
  float most = -cuda::std::numeric_limits<float>::infinity();
  for (const float& each : two) most = cuda::std::max(most, each);
  auto scaled = [&](auto by) { return by * (high - low); };
  if (const cuda::std::uint32_t lane = threadIdx.x % 32; lane < 32) most += 1;
  out[threadIdx.x] = sum_of(steps<3>(1.f), scaled(2), most);
}""",
        (VALUES[:64], zeros(64)),
        {1: lambda: 5 + 1 + VALUES[:64].reshape(32, 2).max(1).repeat(2)
            + 2 * np.ptp(VALUES[:64].reshape(32, 2), 1).repeat(2)},
        {"grid": 1, "block": 64},
    ),
    "stages": HandWritten(
        """#include <cooperative_groups.h>
#include <cuda/pipeline>
extern "C" __global__ void stages(const float* in, float* out) {
  auto block = cooperative_groups::this_thread_block();
  __shared__ float s[2][64];
  __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> state;
  auto pipe = cuda::make_pipeline(block, &state);
  float sum = 0;
  for (int now = 0, next = 0; now < 8; ++now) {
    for (; next < 8 && next < now + 2; ++next) {
      pipe.producer_acquire();
      cuda::memcpy_async(block, s[next % 2], in + next * 64, sizeof(float) * 64, pipe);
      pipe.producer_commit();
    }
    pipe.consumer_wait();
    sum += s[now % 2][63 - threadIdx.x];
    pipe.consumer_release();
  }
  out[threadIdx.x] = sum;
}""",
        (VALUES[:512], zeros(64)),
        {1: lambda: VALUES[:512].reshape(8, 64)[:, ::-1].sum(0)},
        {"grid": 1, "block": 64},
    ),
    "own_stages": HandWritten(
        """#include <cuda/pipeline>
extern "C" __global__ void own_stages(const float4* in, float* out) {
  __shared__ float4 s[2][64];
  cuda::pipeline<cuda::thread_scope_thread> pipe = cuda::make_pipeline();
  const auto bytes = cuda::aligned_size_t<alignof(float4)>(sizeof(float4));
  float sum = 0;
  for (int k = 0; k <= 4; ++k) {
    pipe.producer_acquire();
    if (k < 4) cuda::memcpy_async(&s[k % 2][threadIdx.x], in + k * 64 + threadIdx.x, bytes, pipe);
    pipe.producer_commit();
    if (k == 0) continue;
    cuda::pipeline_consumer_wait_prior<1>(pipe);
    const float4 v = s[(k + 1) % 2][threadIdx.x];
    sum += v.x + v.y + v.z + v.w;
    pipe.consumer_release();
  }
  out[threadIdx.x] = sum;
}""",
        (VALUES, zeros(64)),
        {1: lambda: VALUES.reshape(4, 64, 4).sum((0, 2))},
        {"grid": 1, "block": 64},
    ),
    "barriers": HandWritten(
        """#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cuda/barrier>
extern "C" __global__ void barriers(const float* in, float* out) {
  __shared__ cuda::barrier<cuda::thread_scope_block> bar;
  __shared__ float s[64], u[64];
  auto block = cooperative_groups::this_thread_block();
  if (threadIdx.x == 0) init(&bar, block.size());
  block.sync();
  cuda::memcpy_async(s + threadIdx.x, in + threadIdx.x, sizeof(float), bar);
  bar.wait(bar.arrive());
  const float v = s[63 - threadIdx.x];
  cooperative_groups::memcpy_async(block, u, in + 64, sizeof(float) * 64);
  cooperative_groups::wait(block);
  bar.arrive_and_wait();
  out[threadIdx.x] = v + u[threadIdx.x ^ 1];
}""",
        (VALUES[:128], zeros(64)),
        {1: lambda: VALUES[63::-1] + VALUES[64:128][np.arange(64) ^ 1]},
        {"grid": 1, "block": 64},
    ),
    "atomics": HandWritten(
        """#include <cuda/atomic>
#include <cuda_fp16.h>
__device__ double add(double* at, double value) {
  unsigned long long* p = (unsigned long long*)at, old = *p, before;
  do {
    before = old;
    old = atomicCAS(p, before, __double_as_longlong(value + __longlong_as_double(before)));
  } while (before != old);
  return __longlong_as_double(old);
}
extern "C" __global__ void atomics(const float* in, int* count, float* most, double* sum,
                                   float* pairs) {
  __shared__ int n; __shared__ half2 h;
  __shared__ cuda::atomic<unsigned, cuda::thread_scope_block> lanes;
  if (threadIdx.x == 0) {
    n = 0, h = __float2half2_rn(0.f);
    lanes.store(0u, cuda::memory_order_relaxed);
  }
  __syncthreads();
  const float v = in[blockIdx.x * blockDim.x + threadIdx.x];
  cuda::atomic_ref<int, cuda::thread_scope_block> shared(n);
  if (v > 0) shared.fetch_add(1, cuda::memory_order_relaxed);
  lanes.fetch_or(1u << (threadIdx.x & 31));
  cuda::atomic_ref<float, cuda::thread_scope_device> all(*most);
  float old = all.load(cuda::std::memory_order_relaxed);
  while (old < v && !all.compare_exchange_weak(old, v, cuda::memory_order_relaxed)) {}
  add(sum, v);
  atomicAdd(&h, __float2half2_rn(1.f));
  __syncthreads();
  if (threadIdx.x == 0) {
    cuda::atomic_ref<int>(*count) += n + (lanes.load() == ~0u);
    atomicAdd(pairs, __high2float(h));
  }
}""",
        (VALUES[:256], zeros(1, dtype=I32), zeros(1), zeros(1, dtype=F64), zeros(1)),
        {1: lambda: [(VALUES[:256] > 0).sum() + 4], 2: lambda: [VALUES[:256].max()],
         3: lambda: [VALUES[:256].astype(F64).sum()], 4: lambda: [256]},
        {"grid": 4, "block": 64},
    ),
    "inverses": HandWritten(
        """template <typename T, int N> __device__ bool invert(T (&a)[N][N], T (&r)[N][N]) {
  for (int i = 0; i < N; ++i) for (int j = 0; j < N; ++j) r[i][j] = i == j;
  for (int k = 0; k < N; ++k) {
    if (fabs(a[k][k]) < T(1e-9)) return false;
    const T by = __drcp_rn(a[k][k]);
    for (int j = 0; j < N; ++j) a[k][j] *= by, r[k][j] *= by;
    for (int i = 0; i < N; ++i) {
      const T g = i == k ? T(0) : a[i][k];
      for (int j = 0; j < N; ++j)
        a[i][j] = fma(-g, a[k][j], a[i][j]), r[i][j] = __fma_rn(-g, r[k][j], r[i][j]);
    }
  }
  return true;
}
extern "C" __global__ void inverses(const double* in, double* out) {
  double m[4][4], r[4][4];
  memcpy(m, in + 16 * threadIdx.x, sizeof m);
  if (!invert(m, r)) { printf("singular: %d\\n", threadIdx.x); assert(false); }
  for (int k = 0; k < 16; ++k) out[16 * threadIdx.x + k] = r[k / 4][k % 4];
}""",
        (MATRICES, np.zeros_like(MATRICES)),
        {1: lambda: np.linalg.inv(MATRICES)},
        {"grid": 1, "block": 32},
    ),
    "compaction": HandWritten(
        """#include <cooperative_groups.h>
extern "C" __global__ void compaction(const float* in, float* out, int* count) {
  const auto grid = cooperative_groups::this_grid();
  const bool keep = in[grid.thread_rank()] > 0.5f;
  unsigned below;
  asm volatile("mov.u32 %0, %%lanemask_lt;" : "=r"(below));
  const unsigned kept = __ballot_sync(0xffffffffu, keep);
  int first = threadIdx.x % 32 == 0 ? atomicAdd(count, __popc(kept)) : 0;
  first = __shfl_sync(0xffffffffu, first, 0);
  if (keep) out[first + __popc(kept & below)] = in[grid.thread_rank()];
}""",
        (VALUES, zeros(1024), zeros(1, dtype=I32)),
        {1: lambda: None, 2: lambda: [(VALUES > 0.5).sum()]},
        {"grid": 4, "block": 256},
    ),
}  # fmt: skip


def _packed(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    apart = abs(a.view(np.uint8).astype(int) - b.view(np.uint8))
    less = np.clip(a.astype(int) - b, -128, 127)
    parts = [a + b, np.maximum(a, b), apart.astype(np.uint8), less.astype(np.int8)]
    return np.concatenate([np.ascontiguousarray(part).view(U32).ravel() for part in parts])
