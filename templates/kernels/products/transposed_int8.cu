// K-major copies of matrices of 8-bit integers, as wgmma needs them: rows of K_COPY integers, a multiple of 16,
// zero-padded beyond K_PLAIN. Sources have ACROSS rows of K_PLAIN integers, or with TRANSPOSED K_PLAIN rows of ACROSS.
// A block copies a tile of 64 of ACROSS by 128 along K, through shared memory where it transposes it.
constexpr int COPY_THREADS = 256, TILE_ACROSS = 64, TILE_K = 128, TILE_PITCH = TILE_K / 4 + 1;
constexpr int K_COPY = K_PLAIN + (16 - K_PLAIN % 16) % 16;

// Returns the four integers from `at` on as one word; those from `end` on are 0.
template <bool ALIGNED>
__device__ __forceinline__ unsigned four_integers(const signed char* at, const signed char* end) {
  if (at >= end) return 0;
  if (ALIGNED) return *reinterpret_cast<const unsigned*>(at);
  unsigned word = 0;
#pragma unroll
  for (int i = 0; i < 4; ++i)
    if (at + i < end) word |= static_cast<unsigned>(static_cast<unsigned char>(at[i])) << i * 8;
  return word;
}

template <bool TRANSPOSED, int ACROSS>
__device__ __forceinline__ void copy_along_k(
    const signed char* __restrict__ from, signed char* __restrict__ to, unsigned (&tile)[TILE_ACROSS][TILE_PITCH],
    int block) {
  constexpr int TILES = (K_COPY + TILE_K - 1) / TILE_K, BANDS = (ACROSS + TILE_ACROSS - 1) / TILE_ACROSS;
  constexpr bool ALIGNED = (TRANSPOSED ? ACROSS : K_PLAIN) % 4 == 0;
  const int k0 = block % TILES * TILE_K, across0 = block / TILES % BANDS * TILE_ACROSS;
  const size_t matrix = block / TILES / BANDS;
  from += matrix * ACROSS * K_PLAIN, to += matrix * ACROSS * K_COPY;
  const int tid = threadIdx.x;
  if (TRANSPOSED) {
    // A thread transposes 4 x 4 integers; loads of neighbouring threads are coalesced along ACROSS.
#pragma unroll
    for (int i = tid; i < TILE_ACROSS / 4 * (TILE_K / 4); i += COPY_THREADS) {
      const int four = i % (TILE_ACROSS / 4) * 4, k = k0 + i / (TILE_ACROSS / 4) * 4;
      unsigned word[4];
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const signed char* const row = from + static_cast<size_t>(k + j) * ACROSS;
        word[j] = k + j < K_PLAIN ? four_integers<ALIGNED>(row + across0 + four, row + ACROSS) : 0;
      }
      transpose_int8(word);
#pragma unroll
      for (int j = 0; j < 4; ++j) tile[four + j][i / (TILE_ACROSS / 4)] = word[j];
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = tid; i < TILE_ACROSS * (TILE_K / 16); i += COPY_THREADS) {
    const int inside = i / (TILE_K / 16), across = across0 + inside, vector = i % (TILE_K / 16), k = k0 + vector * 16;
    if (across >= ACROSS || k >= K_COPY) continue;
    unsigned word[4];
    const signed char* const row = from + static_cast<size_t>(across) * K_PLAIN;
#pragma unroll
    for (int j = 0; j < 4; ++j)
      word[j] = TRANSPOSED ? tile[inside][vector * 4 + j] : four_integers<ALIGNED>(row + k + j * 4, row + K_PLAIN);
    *reinterpret_cast<uint4*>(to + static_cast<size_t>(across) * K_COPY + k) =
        make_uint4(word[0], word[1], word[2], word[3]);
  }
}

typedef unsigned StagedTile[TILE_ACROSS][TILE_PITCH];

#if COPY_A && COPY_B
extern "C" __global__ void __launch_bounds__(COPY_THREADS) along_k(
    const signed char* __restrict__ a, signed char* __restrict__ copy_a, const signed char* __restrict__ b,
    signed char* __restrict__ copy_b) {
  __shared__ StagedTile tile;
  launch_dependent_grids();
  const int block = static_cast<int>(blockIdx.x);
  if (block < A_BLOCKS) copy_along_k<COPY_TRANSPOSES_A, A_ROWS>(a, copy_a, tile, block);
  else copy_along_k<COPY_TRANSPOSES_B, B_ROWS>(b, copy_b, tile, block - A_BLOCKS);
}
#else
extern "C" __global__ void __launch_bounds__(COPY_THREADS) along_k(
    const signed char* __restrict__ from, signed char* __restrict__ to) {
  __shared__ StagedTile tile;
  launch_dependent_grids();
  copy_along_k<(COPY_A ? COPY_TRANSPOSES_A : COPY_TRANSPOSES_B), (COPY_A ? A_ROWS : B_ROWS)>(from, to, tile, static_cast<int>(blockIdx.x));
}
#endif
