
// Input and output transforms of Winograd convolution (Lavin and Gray, "Fast Algorithms for Convolutional Neural
// Networks", 2016), before and after a matrix product for each of the IN_TILE x IN_TILE points
// of a tile. Input tiles of IN_TILE x IN_TILE pixels have a stride of OUT_TILE; output tiles are OUT_TILE x OUT_TILE
// pixels. Operands are [point, channel, tile] for NCHW and [point, tile, channel] for NHWC. Accesses are coalesced.
constexpr int TILES = IMAGES * TILES_Y * TILES_X;

struct Tile {
  int image, y, x;
};

__device__ __forceinline__ Tile tile_of(int tile) {
  return {tile / (TILES_Y * TILES_X), tile / TILES_X % TILES_Y * OUT_TILE, tile % TILES_X * OUT_TILE};
}

__device__ __forceinline__ size_t pixel(Tile tile, int channel, int y, int x, int channels, int h, int w) {
#if NHWC
  return ((static_cast<size_t>(tile.image) * h + y) * w + x) * channels + channel;
#else
  return ((static_cast<size_t>(tile.image) * channels + channel) * h + y) * w + x;
#endif
}

// matrix^T patch matrix: products with 0 are skipped, those with 1 cost nothing.
template <int FROM, int TO>
__device__ __forceinline__ void transform(
    float (&to)[TO][TO], const float (&patch)[FROM][FROM], const float (&matrix)[FROM][TO]) {
  float half[TO][FROM];
#pragma unroll
  for (int i = 0; i < TO; ++i)
#pragma unroll
    for (int j = 0; j < FROM; ++j) {
      half[i][j] = 0.0f;
#pragma unroll
      for (int k = 0; k < FROM; ++k)
        if (matrix[k][i] != 0.0f) half[i][j] = fmaf(matrix[k][i], patch[k][j], half[i][j]);
    }
#pragma unroll
  for (int i = 0; i < TO; ++i)
#pragma unroll
    for (int j = 0; j < TO; ++j) {
      to[i][j] = 0.0f;
#pragma unroll
      for (int k = 0; k < FROM; ++k)
        if (matrix[k][j] != 0.0f) to[i][j] = fmaf(half[i][k], matrix[k][j], to[i][j]);
    }
}

// One resident block, so that the compiler does not save registers and load a tile in several rounds.
extern "C" __global__ void __launch_bounds__(128, 1) winograd_in(
    const float* __restrict__ data, float* __restrict__ tiles) {
  const size_t i = static_cast<size_t>(blockIdx.x) * 128 + threadIdx.x;
  if (i >= static_cast<size_t>(TILES) * CI) return;
  const int tile_index = static_cast<int>(NHWC ? i / CI : i % TILES);
  const int channel = static_cast<int>(NHWC ? i % CI : i / TILES);
  const Tile tile = tile_of(tile_index);
  const float matrix[IN_TILE][IN_TILE] = DATA_MATRIX;
  float patch[IN_TILE][IN_TILE], out[IN_TILE][IN_TILE];
#pragma unroll
  for (int r = 0; r < IN_TILE; ++r)
#pragma unroll
    for (int q = 0; q < IN_TILE; ++q) {
      const int y = tile.y + r - PY, x = tile.x + q - PX;
      const bool inside = y >= 0 && y < IH && x >= 0 && x < IW;
      patch[r][q] = inside ? data[pixel(tile, channel, y, x, CI, IH, IW)] : 0.0f;
    }
  transform(out, patch, matrix);
#pragma unroll
  for (int r = 0; r < IN_TILE; ++r)
#pragma unroll
    for (int q = 0; q < IN_TILE; ++q)
      tiles[(r * IN_TILE + q) * (static_cast<size_t>(TILES) * CI) + i] = out[r][q];
}

extern "C" __global__ void __launch_bounds__(128, 1) winograd_out(
    const float* __restrict__ products, const float* __restrict__ bias,
    const float* __restrict__ residual, const float* __restrict__ scale,
    const float* __restrict__ shift, KEPT_PARAMETER float* __restrict__ out) {
  const EpilogueArgs epilogue = {bias, residual, scale, shift KEPT_POINTER};
  const size_t i = static_cast<size_t>(blockIdx.x) * 128 + threadIdx.x;
  if (i >= static_cast<size_t>(TILES) * CO) return;
  const int tile_index = static_cast<int>(NHWC ? i / CO : i % TILES);
  const int channel = static_cast<int>(NHWC ? i % CO : i / TILES);
  const Tile tile = tile_of(tile_index);
  const float matrix[IN_TILE][OUT_TILE] = OUT_MATRIX;
  float patch[IN_TILE][IN_TILE], result[OUT_TILE][OUT_TILE];
#pragma unroll
  for (int r = 0; r < IN_TILE; ++r)
#pragma unroll
    for (int q = 0; q < IN_TILE; ++q)
      patch[r][q] = products[(r * IN_TILE + q) * (static_cast<size_t>(TILES) * CO) + i];
  transform(result, patch, matrix);
#pragma unroll
  for (int r = 0; r < OUT_TILE; ++r)
#pragma unroll
    for (int q = 0; q < OUT_TILE; ++q) {
      if (tile.y + r >= OH || tile.x + q >= OW) continue;
      const size_t at = pixel(tile, channel, tile.y + r, tile.x + q, CO, OH, OW);
      float value[1] = {result[r][q]};
      finish<0>(value, epilogue, channel, at);
      out[at] = value[0];
    }
}
