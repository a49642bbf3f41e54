// im2col of NCHW images, and splitting of its rows and of the filters into three bfloat16 each, for gemm_bf16x3.cu.
// With HAS_BIAS K is padded to whole vectors: the bias follows each filter, and is multiplied by one.
//
// A block owns a K tile of a tile of rows, as in pack_bf16x3.cu: it writes their floats, which are the operands of
// flagged tiles, then packs them. The matrix of a pointwise layer is transposed, a row for each channel, so that
// neighbouring threads read neighbouring pixels; with IN_PLACE it is the images.
#if HAS_BIAS
#define BIAS_PARAMETER const float *__restrict__ bias,
typedef float Filter;
#else
#define BIAS_PARAMETER
typedef const float Filter;
#endif
#if IN_PLACE
typedef const float Column;
#else
typedef float Column;
#endif

// Writes ROWS rows of a matrix over a K tile, from `row` and `k` on, VEC neighbours at a time; `read` loads them.
template <int ROWS, int EXTENT, int VEC, class Read>
__device__ __forceinline__ void write_rows(float* matrix, int row, int k, Read read) {
#pragma unroll 4
  for (int i = threadIdx.x; i < ROWS * CHUNK / VEC; i += PACK_THREADS) {
    const int m = row + i / (CHUNK / VEC), at = k + i % (CHUNK / VEC) * VEC;
    if (m >= EXTENT || at >= K) continue;
    float x[VEC] = {};
    read(x, m, at);
    store_vector<VEC>(matrix + static_cast<size_t>(m) * K + at, x);
  }
}

// Writes the rows of a K tile of the transposed matrix of a pointwise layer, at TILE_N pixels from `first` on.
__device__ __forceinline__ void write_pixels(float* matrix, const float* from, int first, int k0) {
#pragma unroll 4
  for (int i = threadIdx.x; i < TILE_N * CHUNK; i += PACK_THREADS) {
    const int n = first + i % TILE_N, k = k0 + i / TILE_N;
    if (n >= N || k >= K) continue;
    const int line = n / OW * SY - PY, column = n % OW * SX - PX;
    const bool inside = !PADDED || (line >= 0 && line < IH && column >= 0 && column < IW);
    const float x = k < WINDOW && inside ? from[(k * IH + line) * IW + column] : 0.0f;
    matrix[static_cast<size_t>(k) * N + n] = k == WINDOW ? 1.0f : x;
  }
}

extern "C" __global__ void __launch_bounds__(PACK_THREADS) im2col_bf16x3(
    const float* __restrict__ data, const float* __restrict__ weight, BIAS_PARAMETER Filter* filters, Column* columns,
    uint4* __restrict__ packed_a, uint4* __restrict__ packed_b, int* __restrict__ flags) {
  launch_dependent_grids();
  constexpr int A_TILES = BLOCKS_M, ALL = K_TILES * SPLIT, TAPS = KH * KW;
  const int k_tile = blockIdx.x % ALL, k0 = k_tile * CHUNK, tile_number = blockIdx.x / ALL;
  int* const flag = flags + blockIdx.x;
  if (tile_number < A_TILES) {
#if HAS_BIAS
    write_rows<TILE_M, M, A_VEC>(filters, tile_number * TILE_M, k0, [&](float(&x)[A_VEC], int m, int k) {
      if (k < WINDOW) load_vector<A_VEC>(x, weight + static_cast<size_t>(m) * WINDOW + k);
      if (k == WINDOW) x[0] = bias[m];
    });
    __syncthreads();
#endif
    pack_tile<TILE_M, M, true>(
        filters, packed_a + static_cast<size_t>(blockIdx.x) * (A_BYTES / 16), flag, tile_number, k_tile);
  } else {
    const int image = (tile_number - A_TILES) / BLOCKS_N, tile = (tile_number - A_TILES) % BLOCKS_N;
    const float* const from = data + static_cast<size_t>(image) * (CI * IH * IW);
    Column* const matrix = columns + static_cast<size_t>(image) * B_STRIDE;
#if KH * KW == 1
#if !IN_PLACE
    write_pixels(matrix, from, tile * TILE_N, k0);
    __syncthreads();
#endif
#else
    write_rows<TILE_N, N, B_VEC>(matrix, tile * TILE_N, k0, [&](float(&x)[B_VEC], int n, int k) {
      const int line = n / OW * SY - PY + k % TAPS / KW * DY, column = n % OW * SX - PX + k % KW * DX;
      const bool inside = !PADDED || (line >= 0 && line < IH && column >= 0 && column < IW);
      if (k < WINDOW && inside) load_vector<B_VEC>(x, from + (k / TAPS * IH + line) * IW + column);
      if (k == WINDOW) x[0] = 1.0f;
    });
    __syncthreads();
#endif
    const size_t index = blockIdx.x - A_TILES * ALL;
    pack_tile<TILE_N, N, (KH * KW > 1)>(matrix, packed_b + index * (B_BYTES / 16), flag, tile, k_tile);
  }
}
