// With RESIDUAL_FIRST accumulators of gemm_tma.cu start with the residual of their results, which is loaded while the first
// K tile is in flight: nothing is left to load when they are written. Of blocks that share a sum (CLUSTER_REDUCE) each
// adds that of the columns that it writes.
#if RESIDUAL_FIRST
__device__ __forceinline__ bool writes_fragment(int j) {
  return !CLUSTER_REDUCE || j / (WORDS / 4 / SPLIT) == static_cast<int>(blockIdx.z);
}

// Adds the residual of two neighbours, of which the first is column n.
__device__ __forceinline__ void add_pair(float* to, const EpilogueElement* from, int n) {
  float pair[2] = {0.0f, 0.0f};
  if (C_N % 2 == 0) {
    load_elements<2>(pair, from);
  } else {
    pair[0] = load_epilogue(from);
    if (n + 1 < C_N) pair[1] = load_epilogue(from + 1);
  }
  to[0] += pair[0], to[1] += pair[1];
}

#if SWAP_AB
// Adds the residual of 16 columns and 8 rows of C, of which a thread has sums of two columns, 8 apart, from `column` on
// and of two neighbouring rows from `row` on. Even rows are read in pairs of columns, which warps transpose (movmatrix).
__device__ __forceinline__ void add_transposed(
    float* to, const EpilogueElement* __restrict__ residual, int column, int row) {
#ifndef AUTOTUNE_EMULATE
  if (C_N % 2 == 0) {
    const int lane = threadIdx.x % 32, own = row - lane % 4 * 2 + lane / 4;
    const int first = column - lane / 4 + lane % 4 * 2;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int at = first + half * 8;
      unsigned pair = 0;
      if (at < C_N && own < C_M)
        pair = *reinterpret_cast<const unsigned*>(residual + static_cast<size_t>(own) * C_N + at);
      asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %0;" : "+r"(pair));
      to[half * 2] += float_of_element(pair & 0xffffu), to[half * 2 + 1] += float_of_element(pair >> 16);
    }
    return;
  }
#endif
#pragma unroll
  for (int v = 0; v < 4; ++v) {
    const int at = column + v / 2 * 8, m = row + v % 2;
    if (at < C_N && m < C_M) to[v] += load_epilogue(residual + static_cast<size_t>(m) * C_N + at);
  }
}
#endif

// Adds the residual to a thread's accumulators, the first at row m0 and column n0 of its tile.
__device__ __forceinline__ void add_residual(
    float (&sum)[FRAGS_M][WORDS], const EpilogueElement* __restrict__ residual, int m0, int n0) {
#pragma unroll
  for (int i = 0; i < FRAGS_M; ++i)
#pragma unroll
    for (int j = 0; j < WORDS / 4; ++j) {
      if (!writes_fragment(j)) continue;
#if SWAP_AB
      add_transposed(sum[i] + j * 4, residual, m0 + i * 64, n0 + j * 8);
#else
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int m = m0 + i * 64 + half * 8, n = n0 + j * 8;
        if ((WHOLE_ROWS || m < C_M) && (WHOLE_COLUMNS || n < C_N))
          add_pair(sum[i] + j * 4 + half * 2, residual + static_cast<size_t>(m) * C_N + n, n);
      }
#endif
    }
}

__device__ __forceinline__ void clear_accumulators(float (&sum)[FRAGS_M][WORDS]) {
#pragma unroll
  for (int i = 0; i < FRAGS_M; ++i)
#pragma unroll
    for (int j = 0; j < WORDS; ++j) sum[i][j] = 0.0f;
}
#endif
