// Packs float32 operands as three bfloat16 each, for gemm_bf16x3.cu: the first is the bfloat16 nearest to x, the second
// that nearest to the difference, the third the remaining difference. A float32 has a significand of 24 bits and a
// bfloat16 of 8, so their sum is x, unless x has bits below the smallest bfloat16.
//
// A block packs a K tile of a tile of rows (of B: columns) in the layout that it has in shared memory (packed.h):
// piece, 8 items along K, row, item; out of bounds it is zero-padded. It flags tiles that have to be multiplied by
// fmaf: those with an x that is not the sum of its pieces, or of 2^56 and more, as sums of products could overflow
// (among these infinities and NaNs).
constexpr int PACK_THREADS = 256, CHUNK_VECTORS = CHUNK / 8;
constexpr unsigned TOO_LARGE = (127u + 56u) << 23;

struct Pieces {
  unsigned first, second, third;
};

__device__ __forceinline__ unsigned nearest(float x) { return (__float_as_uint(x) + 0x8000u) & 0xffff0000u; }

__device__ __forceinline__ Pieces split(float x, bool& unsplittable) {
  const unsigned first = nearest(x);
  const float difference = x - __uint_as_float(first);
  const unsigned second = nearest(difference), third = __float_as_uint(difference - __uint_as_float(second));
  unsplittable = unsplittable || (__float_as_uint(x) & 0x7fffffffu) >= TOO_LARGE || (third & 0xffffu) != 0;
  return {first, second, third};
}

__device__ __forceinline__ unsigned upper_halves(unsigned low, unsigned high) {
  return __byte_perm(low, high, 0x7632);
}

// Loads 8 neighbours along K, of which the first `exist` are in bounds.
template <bool ALONG_K, int PITCH>
__device__ __forceinline__ void load_eight(float (&x)[8], const float* from, int exist) {
  if (ALONG_K && PITCH % 4 == 0 && exist >= 8) {
    load_vector<4>(x, from);
    load_vector<4>(x + 4, from + 4);
    return;
  }
#pragma unroll
  for (int i = 0; i < 8; ++i)
    x[i] = i < exist ? from[ALONG_K ? i : static_cast<long long>(i) * PITCH] : 0.0f;
}

// Packs tile `tile` of K tile `k_tile` of a matrix of EXTENT rows (of B: columns).
template <int TILE, int EXTENT, bool ALONG_K>
__device__ __forceinline__ void pack_tile(const float* matrix, uint4* to, int* flag, int tile, int k_tile) {
  bool unsplittable = false;
  for (int i = threadIdx.x; i < TILE * CHUNK_VECTORS; i += PACK_THREADS) {
    const int across = ALONG_K ? i / CHUNK_VECTORS : i % TILE, vector = ALONG_K ? i % CHUNK_VECTORS : i / TILE;
    const int row = tile * TILE + across, k = k_tile * CHUNK + vector * 8;
    float x[8];
    load_eight<ALONG_K, ALONG_K ? K : EXTENT>(
        x, matrix + (ALONG_K ? static_cast<long long>(row) * K + k : static_cast<long long>(k) * EXTENT + row),
        row < EXTENT ? K - k : 0);
    unsigned word[3][4];
#pragma unroll
    for (int pair = 0; pair < 4; ++pair) {
      const Pieces low = split(x[2 * pair], unsplittable), high = split(x[2 * pair + 1], unsplittable);
      word[0][pair] = upper_halves(low.first, high.first);
      word[1][pair] = upper_halves(low.second, high.second);
      word[2][pair] = upper_halves(low.third, high.third);
    }
#pragma unroll
    for (int piece = 0; piece < 3; ++piece)
      to[(piece * CHUNK_VECTORS + vector) * TILE + across] =
          make_uint4(word[piece][0], word[piece][1], word[piece][2], word[piece][3]);
  }
  unsplittable = __syncthreads_or(unsplittable);
  if (threadIdx.x == 0) *flag = unsplittable;
}

extern "C" __global__ void __launch_bounds__(PACK_THREADS) pack_bf16x3(
    const float* __restrict__ a, const float* __restrict__ b, uint4* __restrict__ packed_a,
    uint4* __restrict__ packed_b, int* __restrict__ flags) {
  launch_dependent_grids();
  constexpr int A_TILES = A_COUNT * BLOCKS_M, ALL = K_TILES * SPLIT;
  const int k_tile = blockIdx.x % ALL, tile = blockIdx.x / ALL;
  int* const flag = flags + blockIdx.x;
  if (tile < A_TILES) {
    const size_t index = blockIdx.x;
    pack_tile<TILE_M, M, !TRANSPOSE_A>(
        a + static_cast<size_t>(tile / BLOCKS_M) * A_STRIDE, packed_a + index * (A_BYTES / 16), flag,
        tile % BLOCKS_M, k_tile);
  } else {
    const size_t index = blockIdx.x - A_TILES * ALL;
    pack_tile<TILE_N, N, TRANSPOSE_B>(
        b + static_cast<size_t>((tile - A_TILES) / BLOCKS_N) * B_STRIDE, packed_b + index * (B_BYTES / 16), flag,
        (tile - A_TILES) % BLOCKS_N, k_tile);
  }
}
