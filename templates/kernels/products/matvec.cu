// C[M, N] = A[M, K] B[K, N] for few rows of A, with B stored as [N, K], bound by loading B. A group of LANES threads
// computes ROWS columns of C: it loads each element of B once, in coalesced vectors of VEC, and uses it for all M rows
// of A, which come from the cache. The loop is unrolled AHEAD times, so that as many loads are in flight.
constexpr int WIDTH = LANES < 32 ? LANES : 32, UNROLLED = AHEAD;
#if LANES > 32
constexpr int WARPS_A_GROUP = LANES / 32;
#endif

__device__ __forceinline__ float sum_of_lanes(float sum) {
#pragma unroll
  for (int apart = WIDTH / 2; apart > 0; apart /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, apart);
  return sum;
}

template <bool RESIDENT_HERE>
__device__ __forceinline__ void load_weights(float (&to)[VEC], const Element* from) {
  if (RESIDENT_HERE) {
    load_elements<VEC>(to, from);
  } else {
    alignas(16) Element read[VEC];
    load_evict_first<VEC>(read, from);
    load_elements<VEC>(to, read);
  }
}

// Adds up the products of a lane along K.
template <bool RESIDENT_HERE>
__device__ __forceinline__ void add_products(
    float (&sum)[ROWS][M], const Element* __restrict__ a, const Element* const (&rows)[ROWS], int lane) {
#pragma unroll UNROLLED
  for (int k = lane * VEC; k < K; k += LANES * VEC) {
    float right[ROWS][VEC], left[VEC];
#pragma unroll
    for (int r = 0; r < ROWS; ++r) load_weights<RESIDENT_HERE>(right[r], rows[r] + k);
#pragma unroll
    for (int m = 0; m < M; ++m) {
      load_elements<VEC>(left, a + static_cast<size_t>(m) * K + k);
#pragma unroll
      for (int r = 0; r < ROWS; ++r)
#pragma unroll
        for (int v = 0; v < VEC; ++v) sum[r][m] = fmaf(left[v], right[r][v], sum[r][m]);
    }
  }
}

extern "C" __global__ void __launch_bounds__(LANES * GROUPS) matvec(
    const Element* __restrict__ a, const Element* __restrict__ b,
    EPILOGUE_PARAMETERS Element* __restrict__ out) {
  const int lane = threadIdx.x % LANES, group = threadIdx.x / LANES;
  const int n0 = (blockIdx.x * GROUPS + group) * ROWS;
  const Element* rows[ROWS];
#pragma unroll
  for (int r = 0; r < ROWS; ++r)  // columns out of bounds are clamped to the last, and not written
    rows[r] = b + static_cast<size_t>(n0 + r < N ? n0 + r : N - 1) * K;

  float sum[ROWS][M];
#pragma unroll
  for (int r = 0; r < ROWS; ++r)
#pragma unroll
    for (int m = 0; m < M; ++m) sum[r][m] = 0.0f;

  // Threads of a warp load alike.
  if (is_resident((blockIdx.x * (LANES * GROUPS) + threadIdx.x) / (LANES < 32 ? 32 : LANES)))
    add_products<true>(sum, a, rows, lane);
  else
    add_products<false>(sum, a, rows, lane);

#pragma unroll
  for (int r = 0; r < ROWS; ++r)
#pragma unroll
    for (int m = 0; m < M; ++m) sum[r][m] = sum_of_lanes(sum[r][m]);
#if LANES > 32
  __shared__ float parts[GROUPS][WARPS_A_GROUP][ROWS * M];
  if (lane % 32 == 0) {
#pragma unroll
    for (int r = 0; r < ROWS; ++r)
#pragma unroll
      for (int m = 0; m < M; ++m) parts[group][lane / 32][r * M + m] = sum[r][m];
  }
  __syncthreads();
#endif
#if FOLLOWS
  const EpilogueArgs epilogue = {bias, residual, scale, shift};
#endif
  if (lane != 0) return;
#pragma unroll
  for (int r = 0; r < ROWS; ++r) {
    if (n0 + r >= N) continue;
#pragma unroll
    for (int m = 0; m < M; ++m) {
      float total[1] = {sum[r][m]};
#if LANES > 32
#pragma unroll
      for (int w = 1; w < WARPS_A_GROUP; ++w) total[0] += parts[group][w][r * M + m];
#endif
      const size_t at = static_cast<size_t>(m) * N + n0 + r;
#if FOLLOWS
      finish<1>(total, epilogue, n0 + r, at);
#endif
      store_elements<1>(out + at, total);
    }
  }
}
