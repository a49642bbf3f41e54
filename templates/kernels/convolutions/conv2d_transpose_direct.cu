// Transposed convolution, NCHW, of float32: each result gathers the taps that reach it, by fmaf
// (conv2d_transpose_direct.py).
//
// A thread has FILTERS output channels of PIXELS pixels of a column of the result, SY rows apart: these have the same
// phase, so that they share the filters' elements, and rows of the data with their neighbours. Of the filters every
// SY-th row and every SX-th column reaches them, from (ky, kx) on. The input channels are split among SLICES of a
// block, whose sums are added up in shared memory. Filters are [CI, CO, KH, KW].
constexpr int TAPS = KH * KW, TAPS_Y = (KH + SY - 1) / SY, TAPS_X = (KW + SX - 1) / SX, SEEN = PIXELS + TAPS_Y - 1;
constexpr int CHANNELS_AT_ONCE = UNROLL;  // pragmas take no macros
constexpr int CO_TILES = (CO + FILTERS - 1) / FILTERS, ROWS = SY * ((OH + SY * PIXELS - 1) / (SY * PIXELS));
constexpr unsigned TILES = static_cast<unsigned>(N) * CO_TILES * ROWS * OW;

extern "C" __global__ void __launch_bounds__(THREADS) conv2d_transpose(
    const float* __restrict__ data, const float* __restrict__ weight, float* __restrict__ out) {
  const int lane = threadIdx.x, slice = threadIdx.y;
  const unsigned tile = blockIdx.x * static_cast<unsigned>(LANES) + lane;
  const bool exists = tile < TILES;
  const int x = tile % OW, row = tile / OW % ROWS, co0 = tile / (OW * ROWS) % CO_TILES * FILTERS;
  const int n = tile / (OW * ROWS * CO_TILES), y = row / SY * (SY * PIXELS) + row % SY;
  const int ky = (y + TOP) % SY, iy = (y + TOP) / SY, kx = (x + LEFT) % SX, ix = (x + LEFT) / SX;
  const float* const image = data + static_cast<size_t>(n) * (CI * IH * IW) + iy * IW + ix;
  const float* const filters = weight + co0 * TAPS + ky * KW + kx;
  float sums[PIXELS][FILTERS];
#pragma unroll
  for (int p = 0; p < PIXELS; ++p)
#pragma unroll
    for (int c = 0; c < FILTERS; ++c) sums[p][c] = 0.0f;
#pragma unroll CHANNELS_AT_ONCE
  for (int ci = slice; ci < CI; ci += SLICES) {
#pragma unroll
    for (int j = 0; j < TAPS_X; ++j) {
      const bool column = exists && ix >= j && ix - j < IW && (KW % SX == 0 || kx + j * SX < KW);
      float seen[SEEN];
#pragma unroll
      for (int s = 0; s < SEEN; ++s) {
        const int up = iy + s - (TAPS_Y - 1);
        const bool inside = column && up >= 0 && up < IH;
        seen[s] = inside ? image[ci * (IH * IW) + (s - (TAPS_Y - 1)) * IW - j] : 0.0f;
      }
#pragma unroll
      for (int i = 0; i < TAPS_Y; ++i)
#pragma unroll
        for (int c = 0; c < FILTERS; ++c) {
          const bool reaches =
              column && (KH % SY == 0 || ky + i * SY < KH) && (CO % FILTERS == 0 || co0 + c < CO);
          const float factor = reaches ? filters[(ci * CO + c) * TAPS + i * (SY * KW) + j * SX] : 0.0f;
#pragma unroll
          for (int p = 0; p < PIXELS; ++p) sums[p][c] = fmaf(seen[p + TAPS_Y - 1 - i], factor, sums[p][c]);
        }
    }
  }
#if SLICES > 1
  __shared__ float parts[SLICES][PIXELS * FILTERS][LANES];
#pragma unroll
  for (int k = 0; k < PIXELS * FILTERS; ++k) parts[slice][k][lane] = sums[k / FILTERS][k % FILTERS];
  __syncthreads();
  // The slices share what is to be added up and stored.
#pragma unroll
  for (int first = 0; first < PIXELS * FILTERS; first += SLICES) {
    const int k = first + slice, p = k / FILTERS, c = k % FILTERS;
    if (k >= PIXELS * FILTERS) break;
    float sum = parts[0][k][lane];
#pragma unroll
    for (int s = 1; s < SLICES; ++s) sum += parts[s][k][lane];
    if (exists && y + p * SY < OH && (CO % FILTERS == 0 || co0 + c < CO))
      out[((static_cast<size_t>(n) * CO + co0 + c) * OH + y + p * SY) * OW + x] = sum;
  }
#else
  if (!exists) return;
#pragma unroll
  for (int c = 0; c < FILTERS; ++c)
#pragma unroll
    for (int p = 0; p < PIXELS; ++p)
      if ((CO % FILTERS == 0 || co0 + c < CO) && y + p * SY < OH)
        out[((static_cast<size_t>(n) * CO + co0 + c) * OH + y + p * SY) * OW + x] = sums[p][c];
#endif
}
