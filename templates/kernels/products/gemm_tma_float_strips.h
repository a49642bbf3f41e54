// Takes the place of `write_pairs` where rows of C are floats that are no whole sectors of 32 bytes.
#define write_pairs write_float_strips

template <int COUNT>
__device__ __forceinline__ void write_float_strips(
    float* __restrict__ out, float (&sum)[COUNT], int m0, int n0, const EpilogueArgs& epilogue) {
  extern __shared__ float4 shared_memory[];
  constexpr int FRAGMENTS = COUNT / 4, LEFT = FRAGMENTS % STRIP_FRAGMENTS;
  const int lane = threadIdx.x % 32, m = m0 - lane / 4, n = n0 - lane % 4 * 2, rows = WHOLE_ROWS ? 16 : C_M - m;
  float* const strip =
      reinterpret_cast<float*>(shared_memory) + STRIPS_AT / 4 + (threadIdx.x / 32 - 4) * FLOATS_OF_STRIP;
#pragma unroll
  for (int first = 0; first < FRAGMENTS; first += STRIP_FRAGMENTS) {
#pragma unroll
    for (int pair = first * 2; pair < FRAGMENTS * 2 && pair < (first + STRIP_FRAGMENTS) * 2; ++pair) {
      const int row = m0 + pair % 2 * 8, column = n0 + pair / 2 * 8;
      float &low = sum[pair * 2], &high = sum[pair * 2 + 1];
      if ((WHOLE_ROWS || row < C_M) && (WHOLE_COLUMNS || column < C_N))
        FINISH(low, high, column, static_cast<size_t>(row) * C_N + column);
    }
    const int columns = WHOLE_COLUMNS ? STRIP_COLUMNS : C_N - n - first * 8;
    float* const to = out + static_cast<size_t>(m) * C_N + n + first * 8;
    if (first + STRIP_FRAGMENTS <= FRAGMENTS)
      write_float_strip<STRIP_FRAGMENTS, false>(to, strip, sum + first * 4, rows, columns, C_N, lane);
    else
      write_float_strip<LEFT ? LEFT : 1, false>(to, strip, sum + first * 4, rows, columns, C_N, lane);
  }
}
