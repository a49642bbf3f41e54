// Returns a value in a register of its own. Of accumulators that share one until the first wgmma, whose left operand is in
// registers, ptxas copies it between that wgmma and the next, and serialises them all (its warning C7515).
__device__ __forceinline__ float own_register(float x) {
#if A_FROM_REGISTERS && !defined(AUTOTUNE_EMULATE)
  float own;
  asm volatile("mov.b32 %0, %1;" : "=f"(own) : "f"(x));
  return own;
#else
  return x;
#endif
}

// With BIAS_FIRST accumulators are initialised with the bias of their columns, which is loaded while the first K tile
// is in flight.
__device__ __forceinline__ void init_accumulators(
    float (&sum)[FRAGS_M][WORDS], const EpilogueElement* bias, int n0, int lane) {
#if BIAS_FIRST
#pragma unroll
  for (int j = 0; j < TILE_N / 8; ++j) {
    const int n = n0 + j * 8 + lane % 4 * 2;
    float pair[2] = {0.0f, 0.0f};
    if (blockIdx.z == 0 && (WHOLE_COLUMNS || n < C_N)) {
      if (C_N % 2 == 0) {
#ifdef ELEMENT
        load_elements<2>(pair, bias + n);
#else
        load_vector<2>(pair, bias + n);
#endif
      } else {
        pair[0] = load_epilogue(bias + n);
        if (n + 1 < C_N) pair[1] = load_epilogue(bias + n + 1);
      }
    }
#pragma unroll
    for (int i = 0; i < FRAGS_M; ++i)
#pragma unroll
      for (int v = 0; v < 4; ++v) sum[i][j * 4 + v] = own_register(pair[v % 2]);
  }
#endif
}
