// C[M, N] = A[M, K] B[K, N] of floats, or of 16-bit floats that become floats when they are loaded, with a small K,
// bound by writing C; operands.h says how A and B are stored. A thread keeps its COLS columns of B in registers and
// loops over the rows of a tile. Neighbouring threads have VEC adjacent columns each, and again THREADS * VEC columns
// further.
//
// Rows of A are in shared memory in their memory order; all threads load the same ones (broadcast). Stored as [M, K]
// the rows of a tile are contiguous, and any four of them are aligned to 16 bytes, whatever K is. Columns of a B stored
// as [N, K] are contiguous too and pass through shared memory: VEC of them have a pitch of an odd number of vectors,
// padded where K is even, so that there are no bank conflicts.
constexpr int GROUP = 4, TILE_N = THREADS * COLS, PANELS = COLS / VEC, A_FLOATS = TILE_M * K;
constexpr int TILES_M = (M + TILE_M - 1) / TILE_M, TILES_N = (N + TILE_N - 1) / TILE_N;
constexpr bool WHOLE_M = M % TILE_M == 0, WHOLE_N = N % TILE_N == 0;

// Copies COUNT elements to shared memory as floats, or zeros where they do not exist.
template <int COUNT>
__device__ __forceinline__ void copy_elements(float* to, const Element* from, bool valid) {
#if ELEMENT == 0
  copy_async<COUNT>(to, from, valid);
#else
  float values[COUNT] = {};
  if (valid) load_elements<COUNT>(values, from);
  store_vector<COUNT>(to, values);
#endif
}

// Copies SIZE contiguous elements to shared memory, COPY at a time; those from index `there` on are 0. Each PART of them
// has a pitch of PITCH floats there.
template <int COPY, int SIZE, int PART, int PITCH>
__device__ __forceinline__ void copy_run(float* to, const Element* __restrict__ from, int there, int tid) {
#pragma unroll
  for (int i = tid * COPY; i < SIZE; i += THREADS * COPY) {
    float* const put = to + (i / PART * PITCH + i % PART);
    if (i + COPY <= there) {
      copy_elements<COPY>(put, from + i, true);
    } else {
#pragma unroll
      for (int v = 0; v < COPY; ++v) copy_elements<1>(put + v, from + i + v, i + v < there);
    }
  }
}

// Copies the rows of a tile of an A stored as [K, M].
__device__ __forceinline__ void copy_columns(float* to, const Element* __restrict__ a, int m0, int tid) {
#pragma unroll
  for (int i = tid * A_COPY; i < A_FLOATS; i += THREADS * A_COPY) {
    const int k = i / TILE_M, m = m0 + i % TILE_M;
    copy_elements<A_COPY>(to + i, a + static_cast<size_t>(k) * M + m, WHOLE_M || m < M);
  }
}

extern "C" __global__ void __launch_bounds__(THREADS) gemm_small_k(
    const Element* __restrict__ a, const Element* __restrict__ b, EPILOGUE_PARAMETERS Element* __restrict__ out) {
  extern __shared__ float4 shared_memory[];
  float* const rows = reinterpret_cast<float*>(shared_memory);
  // Blocks that follow each other write parts of the same rows, whose sectors they share.
  const int tid = threadIdx.x, tile = blockIdx.x / TILES_N, which = tile / TILES_M;
  const int m0 = tile % TILES_M * TILE_M, n0 = blockIdx.x % TILES_N * TILE_N;
  a += static_cast<size_t>(which) * A_STRIDE;
  b += static_cast<size_t>(which) * B_STRIDE;
  // The first column of a panel, relative to the tile, and whether it exists.
  auto column = [&](int panel) { return (panel * THREADS + tid) * VEC; };
  auto exists = [&](int panel) { return WHOLE_N || n0 + column(panel) < N; };
#if TRANSPOSE_A
  copy_columns(rows, a, m0, tid);
#else
  const int a_there = WHOLE_M || m0 + TILE_M <= M ? A_FLOATS : (M - m0) * K;
  copy_run<A_COPY, A_FLOATS, A_FLOATS, A_FLOATS>(rows, a + static_cast<size_t>(m0) * K, a_there, tid);
#endif
  float right[COLS * K];
#if TRANSPOSE_B
  float* const columns = rows + A_FLOATS;
  const int b_there = WHOLE_N || n0 + TILE_N <= N ? TILE_N * K : (N - n0) * K;
  copy_run<B_COPY, TILE_N * K, VEC * K, VEC * (K | 1)>(columns, b + static_cast<size_t>(n0) * K, b_there, tid);
#else
#pragma unroll
  for (int k = 0; k < K; ++k)
#pragma unroll
    for (int p = 0; p < PANELS; ++p) {
      if (!exists(p)) continue;
      float values[VEC];
      load_elements<VEC>(values, b + static_cast<size_t>(k) * N + n0 + column(p));
#pragma unroll
      for (int v = 0; v < VEC; ++v) right[k * COLS + p * VEC + v] = values[v];
    }
#endif
  copy_commit();
  copy_wait<0>();
  __syncthreads();
  if (!exists(0)) return;
#if TRANSPOSE_B
#pragma unroll
  for (int p = 0; p < PANELS; ++p)
#pragma unroll
    for (int i = 0; i < VEC * K; i += VEC) load_vector<VEC>(right + p * VEC * K + i, columns + column(p) * (K | 1) + i);
#endif
#if FOLLOWS
  const EpilogueArgs epilogue = {bias, residual, scale, shift};
#endif
  auto write = [&](int m, const float* sum) {
#pragma unroll
    for (int p = 0; p < PANELS; ++p) {
      if (!exists(p)) continue;
      const int n = n0 + column(p);
      const size_t at = (static_cast<size_t>(which) * M + m) * N + n;
      float values[VEC];
#pragma unroll
      for (int v = 0; v < VEC; ++v) values[v] = sum[p * VEC + v];
#if FOLLOWS
      finish<1>(values, epilogue, n, at);
#if ELEMENT > 0
#pragma unroll
      for (int v = 0; v < VEC; ++v) values[v] = last_step(values[v]);
#endif
#endif
      store_elements<VEC>(out + at, values);
    }
  };
#pragma unroll 1
  for (int row = 0; row < TILE_M; row += GROUP) {
    const int there = WHOLE_M || m0 + row + GROUP <= M ? GROUP : M - m0 - row;
    float sum[GROUP][COLS];
#pragma unroll
    for (int r = 0; r < GROUP; ++r)
#pragma unroll
      for (int c = 0; c < COLS; ++c) sum[r][c] = 0.0f;
#if TRANSPOSE_A
#pragma unroll
    for (int k = 0; k < K; ++k) {
      float left[GROUP];
      load_vector<GROUP>(left, rows + k * TILE_M + row);
#pragma unroll
      for (int r = 0; r < GROUP; ++r)
#pragma unroll
        for (int c = 0; c < COLS; ++c) sum[r][c] = fmaf(left[r], right[TRANSPOSE_B ? c * K + k : k * COLS + c], sum[r][c]);
    }
#pragma unroll
    for (int r = 0; r < GROUP; ++r)
      if (r < there) write(m0 + row + r, sum[r]);
#else
    float left[GROUP * K];
#pragma unroll
    for (int i = 0; i < GROUP * K; i += 4) load_vector<4>(left + i, rows + row * K + i);
#pragma unroll
    for (int r = 0; r < GROUP; ++r) {
#pragma unroll
      for (int k = 0; k < K; ++k)
#pragma unroll
        for (int c = 0; c < COLS; ++c)
          sum[r][c] = fmaf(left[r * K + k], right[TRANSPOSE_B ? c * K + k : k * COLS + c], sum[r][c]);
      if (r < there) write(m0 + row + r, sum[r]);
    }
#endif
    if (there < GROUP) return;
  }
}
