// C[M, N] = A[M, K] B of short sums of floats, B stored as [K, N] or with TRANSPOSE_B as [N, K]: what counts is how
// soon C is written, so a thread has all of its COLS columns of B in registers, and passes over the rows of a tile.
//
// Rows of A are short too: those of a tile are one run of memory, which the block brings to shared memory as it is.
// Four rows at a time begin at a multiple of 16 bytes there, whatever K is, and all threads read the same. So do
// those of B where it is stored as [N, K], and then threads take their columns from there.
constexpr int GROUP = 4, TILE_N = THREADS * COLS;
constexpr bool WHOLE_M = M % TILE_M == 0, WHOLE_N = N % TILE_N == 0;

// Copies the SIZE floats of a run from `from` on to shared memory; those from `there` on are 0.
template <int SIZE>
__device__ __forceinline__ void copy_run(float* to, const float* __restrict__ from, int there, int tid) {
#pragma unroll
  for (int i = tid * 4; i < SIZE; i += THREADS * 4) {
    if (i + 4 <= there) {
      copy_async<4>(to + i, from + i, true);
    } else {
#pragma unroll
      for (int v = 0; v < 4; ++v) to[i + v] = i + v < there ? from[i + v] : 0.0f;
    }
  }
}

extern "C" __global__ void __launch_bounds__(THREADS) gemm_small_k(
    const float* __restrict__ a, const float* __restrict__ b, EPILOGUE_PARAMETERS float* __restrict__ out) {
  extern __shared__ float4 shared_memory[];
  float* const rows = reinterpret_cast<float*>(shared_memory);
  const int tid = threadIdx.x, m0 = blockIdx.x * TILE_M, n0 = blockIdx.y * TILE_N, n = n0 + tid * COLS;
  const bool active = WHOLE_N || n < N;
  copy_run<TILE_M * K>(rows, a + static_cast<size_t>(m0) * K, WHOLE_M || m0 + TILE_M <= M ? TILE_M * K : (M - m0) * K, tid);
  float right[COLS * K];
#if TRANSPOSE_B
  float* const columns = rows + TILE_M * K;
  copy_run<TILE_N * K>(columns, b + static_cast<size_t>(n0) * K, WHOLE_N || n0 + TILE_N <= N ? TILE_N * K : (N - n0) * K, tid);
#else
#pragma unroll
  for (int k = 0; k < K; ++k)
    if (active) load_vector<COLS>(right + k * COLS, b + static_cast<size_t>(k) * N + n);
#endif
  copy_commit();
  copy_wait<0>();
  __syncthreads();
  if (!active) return;
#if TRANSPOSE_B
#pragma unroll
  for (int i = 0; i < COLS * K; i += COLS) load_vector<COLS>(right + i, columns + tid * COLS * K + i);
#endif
#if FOLLOWS
  const EpilogueArgs epilogue = {bias, residual, scale, shift};
#endif
#pragma unroll 1
  for (int row = 0; row < TILE_M; row += GROUP) {
    float left[GROUP * K];
#pragma unroll
    for (int i = 0; i < GROUP * K; i += 4) load_vector<4>(left + i, rows + row * K + i);
#pragma unroll
    for (int r = 0; r < GROUP; ++r) {
      const int m = m0 + row + r;
      if (!WHOLE_M && m >= M) return;
      float sum[COLS];
#pragma unroll
      for (int c = 0; c < COLS; ++c) sum[c] = 0.0f;
#pragma unroll
      for (int k = 0; k < K; ++k)
#pragma unroll
        for (int c = 0; c < COLS; ++c)
          sum[c] = fmaf(left[r * K + k], right[TRANSPOSE_B ? c * K + k : k * COLS + c], sum[c]);
      const size_t at = static_cast<size_t>(m) * N + n;
#if FOLLOWS
      finish<1>(sum, epilogue, n, at);
#endif
      store_vector<COLS>(out + at, sum);
    }
  }
}
