// A convolution of NHWC images of 16-bit floats by few filters, on tensor cores with sums in float32.
//
// The rows of the product are input pixels, and its columns pairs of a tap and a filter: what a pixel contributes to
// the output pixels around it. A block owns TILE_H x TILE_W output pixels. It multiplies each pixel of its input tile
// once, straight from global memory, writes these partial sums to shared memory, and adds up those of an output.
//
// A thread loads 16 bytes of a pixel, an octet of channels, which are the left operands of two products: so channels
// are permuted along K, in the filters too. Filters are stored in fragment order: 16 bytes for each step, column
// fragment and lane.
constexpr int WINDOW_H = (TILE_H - 1) * SY + (KH - 1) * DY + 1, WINDOW_W = (TILE_W - 1) * SX + (KW - 1) * DX + 1;
constexpr int PIXELS = WINDOW_H * WINDOW_W, FRAGS = (PIXELS + 15) / 16;
constexpr int COLUMNS = KH * KW * CO, FRAGS_N = (COLUMNS + 7) / 8, OCTETS = CI / 8, STEPS = (OCTETS + 3) / 4;
constexpr int PITCH = FRAGS * 16 + 4;  // of a column of partial sums: stores are free of bank conflicts
constexpr int TILES_X = (OW + TILE_W - 1) / TILE_W, TILES_Y = (OH + TILE_H - 1) / TILE_H;

__device__ __forceinline__ void stage_filters(Item* filters, const Item* __restrict__ weight, int tid) {
  if (OCTETS % 4) {
    for (int i = tid; i < STEPS * FRAGS_N * 32; i += THREADS)
      reinterpret_cast<uint4*>(filters)[i] = make_uint4(0u, 0u, 0u, 0u);
    __syncthreads();
  }
#pragma unroll 2
  for (int i = tid; i < COLUMNS * OCTETS; i += THREADS) {
    const uint4 eight = reinterpret_cast<const uint4*>(weight)[i];
    const unsigned words[4] = {eight.x, eight.y, eight.z, eight.w};
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      const int at = i * 8 + e, column = at / (CO * CI) * CO + at % CO, channel = at / CO % CI, octet = channel / 8;
      const int lane = column % 8 * 4 + octet % 4;
      filters[((octet / 4 * FRAGS_N + column / 8) * 32 + lane) * 8 + channel % 8] =
          static_cast<Item>(words[e / 2] >> e % 2 * 16);
    }
  }
}

extern "C" __global__ void __launch_bounds__(THREADS) conv2d_few_filters(
    const Item* __restrict__ data, const Item* __restrict__ weight, EPILOGUE_PARAMETERS Item* __restrict__ out) {
  extern __shared__ float4 shared_memory[];
  Item* const filters = reinterpret_cast<Item*>(shared_memory);
  float* const parts = reinterpret_cast<float*>(shared_memory + STEPS * FRAGS_N * 32);
  const int tid = threadIdx.x, lane = tid % 32;
  const int x0 = blockIdx.x % TILES_X * TILE_W, y0 = blockIdx.x / TILES_X % TILES_Y * TILE_H;
  const int image = blockIdx.x / (TILES_X * TILES_Y);
  const Item* const pixels = data + static_cast<size_t>(image) * IH * IW * CI + lane % 4 * 8;
  stage_filters(filters, weight, tid);
  __syncthreads();
#pragma unroll 1
  for (int frag = tid / 32 * TOGETHER; frag < FRAGS; frag += THREADS / 32 * TOGETHER) {
    const Item* from[TOGETHER][2];
    bool exists[TOGETHER][2];
    float sum[TOGETHER][FRAGS_N][4];
#pragma unroll
    for (int i = 0; i < 2 * TOGETHER; ++i) {
      const int pixel = frag * 16 + i * 8 + lane / 4;
      const int y = y0 * SY - PY + pixel / WINDOW_W, x = x0 * SX - PX + pixel % WINDOW_W;
      exists[i / 2][i % 2] = pixel < PIXELS && y >= 0 && y < IH && x >= 0 && x < IW;
      from[i / 2][i % 2] = pixels + (exists[i / 2][i % 2] ? (static_cast<size_t>(y) * IW + x) * CI : 0);
#pragma unroll
      for (int j = 0; j < FRAGS_N; ++j) sum[i / 2][j][i % 2 * 2] = sum[i / 2][j][i % 2 * 2 + 1] = 0.0f;
    }
#pragma unroll 1
    for (int begin = 0; begin < STEPS; begin += AHEAD) {
      uint4 left[AHEAD][TOGETHER][2];
#pragma unroll
      for (int s = 0; s < AHEAD; ++s)
#pragma unroll
        for (int i = 0; i < 2 * TOGETHER; ++i) {
          const bool valid = exists[i / 2][i % 2] && (begin + s) * 4 + lane % 4 < OCTETS;
          left[s][i / 2][i % 2] = make_uint4(0u, 0u, 0u, 0u);
          if (valid) left[s][i / 2][i % 2] = *reinterpret_cast<const uint4*>(from[i / 2][i % 2] + (begin + s) * 32);
        }
#pragma unroll
      for (int s = 0; s < AHEAD; ++s) {
        if (STEPS % AHEAD && begin + s >= STEPS) break;
#pragma unroll
        for (int j = 0; j < FRAGS_N; ++j) {
          const uint4 right = reinterpret_cast<const uint4*>(filters)[((begin + s) * FRAGS_N + j) * 32 + lane];
#pragma unroll
          for (int i = 0; i < TOGETHER; ++i) {
            const uint4 upper = left[s][i][0], lower = left[s][i][1];
            const unsigned first[4] = {upper.x, lower.x, upper.y, lower.y};
            const unsigned second[4] = {upper.z, lower.z, upper.w, lower.w};
            multiply_add(sum[i][j], first, right.x, right.y, lane);
            multiply_add(sum[i][j], second, right.z, right.w, lane);
          }
        }
      }
    }
#pragma unroll
    for (int i = 0; i < TOGETHER; ++i)
#pragma unroll
      for (int r = 0; r < FRAGS_N * 4; ++r) {
        const int column = r / 4 * 8 + lane % 4 * 2 + r % 2;
        if (frag + i < FRAGS && column < COLUMNS)
          parts[column * PITCH + (frag + i) * 16 + r % 4 / 2 * 8 + lane / 4] = sum[i][r / 4][r % 4];
      }
  }
  __syncthreads();
#if FOLLOWS
  const EpilogueArgs epilogue = {bias, residual, scale, shift};
#endif
#pragma unroll 1
  for (int i = tid; i < TILE_H * TILE_W; i += THREADS) {
    const int y = y0 + i / TILE_W, x = x0 + i % TILE_W;
    if ((OH % TILE_H && y >= OH) || (OW % TILE_W && x >= OW)) continue;
    const float* const window = parts + i / TILE_W * SY * WINDOW_W + i % TILE_W * SX;
    const size_t at = ((static_cast<size_t>(image) * OH + y) * OW + x) * CO;
#pragma unroll
    for (int f = 0; f < CO; ++f) {
      float total[1] = {0.0f};
#pragma unroll
      for (int tap = 0; tap < KH * KW; ++tap)
        total[0] += window[(tap * CO + f) * PITCH + tap / KW * DY * WINDOW_W + tap % KW * DX];
#if FOLLOWS
      finish<1>(total, epilogue, f, at + f);
#endif
      out[at + f] = static_cast<Item>(element_of_float(total[0]));
    }
  }
}
