// Takes the place of `write_units` of gemm_wgmma_epilogue.h where rows of C are floats that are no whole sectors of 32
// bytes (float_strips.h).
#define write_units write_float_strips

__device__ __forceinline__ void write_float_strips(
    float* __restrict__ out, float (&sum)[FRAGS_M][WORDS], int, int row, int n0, int lane, const EpilogueArgs& epilogue) {
  extern __shared__ float4 shared_memory[];
  constexpr int FRAGMENTS = WORDS / 4, LAST_COLUMN = C_N % 2 ? C_N - 1 : C_N - 2;
  static_assert(FRAGMENTS % STRIP_FRAGMENTS == 0, "strips are whole");
  float* const strip =
      reinterpret_cast<float*>(shared_memory) + STRIPS_AT / 4 + (threadIdx.x / 32 - 4) * FLOATS_OF_STRIP;
#pragma unroll
  for (int first = 0; first < FRAGS_M * FRAGMENTS; first += STRIP_FRAGMENTS) {
    float* const sums = sum[first / FRAGMENTS] + first % FRAGMENTS * 4;
    const int m0 = row + first / FRAGMENTS * 64, m = m0 - lane / 4, n = n0 + first % FRAGMENTS * 8;
#pragma unroll
    for (int pair = 0; pair < STRIP_FRAGMENTS * 2; ++pair) {
      const int own = m0 + pair % 2 * 8, place = WHOLE_ROWS || own < C_M ? own : C_M - 1;
      const int next = n + pair / 2 * 8 + lane % 4 * 2, column = WHOLE_COLUMNS || next < LAST_COLUMN ? next : LAST_COLUMN;
      FINISH(sums[pair * 2], sums[pair * 2 + 1], column, static_cast<size_t>(place) * C_N + column);
    }
    write_float_strip<STRIP_FRAGMENTS, false>(
        out + static_cast<size_t>(m) * C_N + n, strip, sums, C_M - m, C_N - n, C_N, lane);
  }
}
