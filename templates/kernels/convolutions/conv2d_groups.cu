// A convolution of NHWC images of 16-bit floats in groups of few channels, on tensor cores with sums in float32.
//
// A block owns TILE_H x TILE_W output pixels of an image and BLOCK_GROUPS groups. It copies the input tile with its halo,
// of these groups, to shared memory. There eight channels of a pixel are 16 bytes, an octet, which is a row of an
// ldmatrix: two octets, of two taps or of one, are the K extent of an m16n8k16 product of 16 pixels by 8 output channels.
// A warp keeps the filters of one group, or one of FILTER_WARPS of them, in registers and loops over the pixels of the tile,
// TOGETHER times 16 of them at a time, so that independent products hide latency. If the octets of a window are odd in
// number, the last is multiplied by zeros.
constexpr int WINDOW_H = (TILE_H - 1) * SY + (KH - 1) * DY + 1, WINDOW_W = (TILE_W - 1) * SX + (KW - 1) * DX + 1;
constexpr int OCTETS_EACH = GROUP_CI / 8, OCTETS = BLOCK_GROUPS * OCTETS_EACH;  // of a pixel: of a group, and of all
constexpr int PITCH = OCTETS | 1;  // octets of a pixel: an odd number avoids bank conflicts
constexpr int STEPS = (KH * KW * OCTETS_EACH + 1) / 2, WARP_CO = GROUP_CO / FILTER_WARPS, FRAGS_N = WARP_CO / 8;
constexpr int PIXELS = TILE_H * TILE_W, FRAGS = (PIXELS + 15) / 16;
constexpr int BLOCK_CO = BLOCK_GROUPS * GROUP_CO, OUT_PITCH = BLOCK_CO + 8, OUT_OCTETS = BLOCK_CO / 8;
constexpr int FILTER_ROWS = KH * KW * GROUP_CI;
constexpr int TILES_X = (OW + TILE_W - 1) / TILE_W, TILES_Y = (OH + TILE_H - 1) / TILE_H;
static_assert(THREADS == 32 * BLOCK_GROUPS * FILTER_WARPS * WARPS, "each warp has filters of one group");

// Returns the offset of an octet of a window from the window's first one, in units of 16 bytes; 0 beyond the last.
__device__ __forceinline__ constexpr int octet_offset(int octet) {
  return octet < KH * KW * OCTETS_EACH
             ? (octet / OCTETS_EACH / KW * DY * WINDOW_W + octet / OCTETS_EACH % KW * DX) * PITCH + octet % OCTETS_EACH
             : 0;
}

// Returns the offset of the window of a pixel of the tile, in units of 16 bytes; of the first beyond the last.
__device__ __forceinline__ int window_offset(int pixel) {
  if (pixel >= PIXELS) pixel = 0;
  return (pixel / TILE_W * SY * WINDOW_W + pixel % TILE_W * SX) * PITCH;
}

__device__ __forceinline__ void stage_windows(Item* tile, const Item* __restrict__ image, int y0, int x0, int tid) {
#pragma unroll 4
  for (int i = tid; i < WINDOW_H * WINDOW_W * OCTETS; i += THREADS) {
    const int octet = i % OCTETS, pixel = i / OCTETS, y = y0 + pixel / WINDOW_W, x = x0 + pixel % WINDOW_W;
    const bool valid = y >= 0 && y < IH && x >= 0 && x < IW;
    const Item* const from = image + (valid ? (static_cast<long long>(y) * IW + x) * CI + octet * 8 : 0);
    copy_async<4>(reinterpret_cast<float*>(tile + (pixel * PITCH + octet) * 8), reinterpret_cast<const float*>(from), valid);
  }
}

#if JOINED > 1
// JOINED groups of fewer than 8 channels are merged; filters are zero between channels of different groups.
__device__ __forceinline__ void stage_filters(Item* filters, const Item* __restrict__ weight, int tid) {
  constexpr int OWN_CI = GROUP_CI / JOINED, OWN_CO = GROUP_CO / JOINED, PIECE = OWN_CO < 8 ? OWN_CO : 8;
#pragma unroll 4
  for (int i = tid; i < FILTER_ROWS * (BLOCK_CO / PIECE); i += THREADS) {
    const int row = i / (BLOCK_CO / PIECE), co = i % (BLOCK_CO / PIECE) * PIECE, ci = row % GROUP_CI;
    const bool own = co % GROUP_CO / OWN_CO == ci / OWN_CI;
    const Item* const from = weight + static_cast<size_t>(row / GROUP_CI * OWN_CI + ci % OWN_CI) * CO + co;
    copy_async<PIECE / 2>(
        reinterpret_cast<float*>(filters + row * OUT_PITCH + co), reinterpret_cast<const float*>(from), own);
  }
}
#else
__device__ __forceinline__ void stage_filters(Item* filters, const Item* __restrict__ weight, int tid) {
#pragma unroll 4
  for (int i = tid; i < FILTER_ROWS * OUT_OCTETS; i += THREADS) {
    const int row = i / OUT_OCTETS, octet = i % OUT_OCTETS;
    copy_async<4>(reinterpret_cast<float*>(filters + row * OUT_PITCH + octet * 8),
                  reinterpret_cast<const float*>(weight + static_cast<size_t>(row) * CO + octet * 8), true);
  }
}

#endif

// Loads the filters of a warp as right operands: words of two neighbours along K.
__device__ __forceinline__ void load_filters(unsigned (&right)[FRAGS_N * STEPS * 2], const Item* filters, int lane) {
#pragma unroll
  for (int i = 0; i < FRAGS_N * STEPS * 2; i += 4) {
    unsigned words[4];
#ifdef AUTOTUNE_EMULATE
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      const int octet = (i + r) % (STEPS * 2), j = (i + r) / (STEPS * 2);
      const bool exists = octet * 8 < FILTER_ROWS && j < FRAGS_N;
      words[r] = exists ? load_word<false>(filters + j * 8, OUT_PITCH, lane / 4, octet * 8 + lane % 4 * 2) : 0u;
    }
#else
    const int own = i + lane / 8, octet = own % (STEPS * 2), j = own / (STEPS * 2);
    const bool exists = octet * 8 < FILTER_ROWS && j < FRAGS_N;
    ldmatrix_x4<true>(words, filters + (exists ? (octet * 8 + lane % 8) * OUT_PITCH + j * 8 : 0));
#endif
#pragma unroll
    for (int r = 0; r < 4 && i + r < FRAGS_N * STEPS * 2; ++r)
      right[i + r] = (i + r) % (STEPS * 2) * 8 < FILTER_ROWS ? words[r] : 0u;
  }
}

// Loads the left operand of a step, of 16 pixels from `first` on.
__device__ __forceinline__ void load_pixels(unsigned (&left)[4], const Item* tile, int first, int step, int lane) {
#ifdef AUTOTUNE_EMULATE
#pragma unroll
  for (int r = 0; r < 4; ++r) {
    const int offset = window_offset(first + lane / 4 + r % 2 * 8) + octet_offset(step * 2 + r / 2);
    left[r] = load_word<true>(tile + offset * 8, 0, 0, lane % 4 * 2);
  }
#else
  const int offset = window_offset(first + lane % 16) + (lane < 16 ? octet_offset(step * 2) : octet_offset(step * 2 + 1));
  ldmatrix_x4<false>(left, tile + offset * 8);
#endif
}

extern "C" __global__ void __launch_bounds__(THREADS) conv2d_groups(
    const Item* __restrict__ data, const Item* __restrict__ weight, EPILOGUE_PARAMETERS Item* __restrict__ out) {
  extern __shared__ float4 shared_memory[];
  Item* const tile = reinterpret_cast<Item*>(shared_memory);
  const int tid = threadIdx.x, lane = tid % 32, warp = tid / 32, group = warp % (BLOCK_GROUPS * FILTER_WARPS) / FILTER_WARPS;
  const int warp_co = warp % (BLOCK_GROUPS * FILTER_WARPS) * WARP_CO;  // first of its filters
  const int x0 = blockIdx.x % TILES_X * TILE_W, y0 = blockIdx.x / TILES_X % TILES_Y * TILE_H;
  const int image = blockIdx.x / (TILES_X * TILES_Y), first_co = blockIdx.y * BLOCK_CO;
  stage_windows(tile, data + static_cast<size_t>(image) * IH * IW * CI + blockIdx.y * (OCTETS * 8), y0 * SY - PY,
                x0 * SX - PX, tid);
  Item* const filters = tile + WINDOW_H * WINDOW_W * PITCH * 8;
  Item* const results = filters;  // take the place of filters, which are in registers by then
#if FOLLOWS
  const EpilogueArgs epilogue = {bias, residual, scale, shift};
#endif
  stage_filters(filters, weight + first_co, tid);
  copy_commit();
  copy_wait<0>();
  __syncthreads();
  unsigned right[FRAGS_N * STEPS * 2];
  load_filters(right, filters + warp_co, lane);
  __syncthreads();
#pragma unroll 1
  for (int frag = warp / (BLOCK_GROUPS * FILTER_WARPS) * TOGETHER; frag < FRAGS; frag += WARPS * TOGETHER) {
    float sum[TOGETHER][FRAGS_N][4];
#pragma unroll
    for (int i = 0; i < TOGETHER * FRAGS_N; ++i)
#pragma unroll
      for (int r = 0; r < 4; ++r) sum[i / FRAGS_N][i % FRAGS_N][r] = 0.0f;
#pragma unroll
    for (int step = 0; step < STEPS; ++step) {
      unsigned left[TOGETHER][4];
#pragma unroll
      for (int i = 0; i < TOGETHER; ++i)
        load_pixels(left[i], tile + group * (OCTETS_EACH * 8), (frag + i) * 16, step, lane);
#pragma unroll
      for (int i = 0; i < TOGETHER; ++i)
#pragma unroll
        for (int j = 0; j < FRAGS_N; ++j)
          multiply_add(
              sum[i][j], left[i], right[(j * STEPS + step) * 2], right[(j * STEPS + step) * 2 + 1], lane);
    }
#pragma unroll
    for (int half = 0; half < 2 * TOGETHER; ++half) {
      const int pixel = frag * 16 + half * 8 + lane / 4, y = y0 + pixel / TILE_W, x = x0 + pixel % TILE_W;
      if (pixel >= PIXELS) continue;
#pragma unroll
      for (int j = 0; j < FRAGS_N; ++j) {
        float low = sum[half / 2][j][half % 2 * 2], high = sum[half / 2][j][half % 2 * 2 + 1];
        const int inside = warp_co + j * 8 + lane % 4 * 2;
#if FOLLOWS
        if (y < OH && x < OW) {
          const size_t at = ((static_cast<size_t>(image) * OH + y) * OW + x) * CO + first_co + inside;
          finish_pair(low, high, epilogue, first_co + inside, at);
        }
#endif
        *reinterpret_cast<unsigned*>(results + pixel * OUT_PITCH + inside) = pack_pair(low, high);
      }
    }
  }
  __syncthreads();
#pragma unroll 4
  for (int i = tid; i < PIXELS * OUT_OCTETS; i += THREADS) {
    const int octet = i % OUT_OCTETS, pixel = i / OUT_OCTETS, y = y0 + pixel / TILE_W, x = x0 + pixel % TILE_W;
    if ((OH % TILE_H && y >= OH) || (OW % TILE_W && x >= OW)) continue;
    const size_t at = ((static_cast<size_t>(image) * OH + y) * OW + x) * CO + first_co + octet * 8;
    *reinterpret_cast<uint4*>(out + at) = *reinterpret_cast<const uint4*>(results + pixel * OUT_PITCH + octet * 8);
  }
}
