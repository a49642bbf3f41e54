
// K-major copies of matrices of floats, rounded to TF32: rows of K floats, zero-padded beyond K_PLAIN. Sources have
// ACROSS rows of K_PLAIN floats, or with TRANSPOSED K_PLAIN rows of ACROSS. A block copies a tile of 32 x 32 through
// shared memory.
template <bool TRANSPOSED, int ACROSS>
__device__ __forceinline__ void copy_along_k(const float* __restrict__ from, float* __restrict__ to) {
  constexpr int TILES = (K + 31) / 32, BANDS = (ACROSS + 31) / 32;
  __shared__ float tile[32][33];
  const int x = threadIdx.x % 32, y = threadIdx.x / 32;
  const int k0 = blockIdx.x % TILES * 32, across0 = blockIdx.x / TILES % BANDS * 32;
  const size_t matrix = blockIdx.x / TILES / BANDS;
  from += matrix * ACROSS * K_PLAIN, to += matrix * ACROSS * K;
#pragma unroll
  for (int i = 0; i < 32; i += 8) {
    const int k = TRANSPOSED ? k0 + y + i : k0 + x, across = TRANSPOSED ? across0 + x : across0 + y + i;
    const size_t at = TRANSPOSED ? static_cast<size_t>(k) * ACROSS + across : static_cast<size_t>(across) * K_PLAIN + k;
    tile[y + i][x] = k < K_PLAIN && across < ACROSS ? __uint_as_float(rounded(__float_as_uint(from[at]))) : 0.0f;
  }
  __syncthreads();
#pragma unroll
  for (int i = 0; i < 32; i += 8) {
    const int k = k0 + x, across = across0 + y + i;
    if (k < K && across < ACROSS)
      to[static_cast<size_t>(across) * K + k] = TRANSPOSED ? tile[x][y + i] : tile[y + i][x];
  }
}

#if COPY_A
extern "C" __global__ void __launch_bounds__(256) along_k_a(
    const float* __restrict__ a, float* __restrict__ copy) {
  launch_dependent_grids();
  copy_along_k<COPY_TRANSPOSES_A, ROWS_A>(a, copy);
}
#endif

#if COPY_B
extern "C" __global__ void __launch_bounds__(256) along_k_b(
    const float* __restrict__ b, float* __restrict__ copy) {
  launch_dependent_grids();
  copy_along_k<COPY_TRANSPOSES_B, ROWS_B>(b, copy);
}
#endif
