// Transposed convolution, NCHW, of float32: each result gathers the taps that reach it, by fmaf
// (conv2d_transpose_direct.py).
//
// A thread has FILTERS output channels of PIXELS pixels of a column of the result, SY rows apart: these have the same
// phase, so that they share the filters' elements, and rows of the data with their neighbours. Of the filters every
// SY-th row and every SX-th column reaches them, from (ky, kx) on. With COLUMNS = SX it has these of a column of each
// phase, side by side: all read the same columns of the data, and whole rows of the filters, by vector loads. The input
// channels are split among SLICES of a block, whose sums are added up in shared memory. Filters are [CI, CO, KH, KW].
constexpr int TAPS = KH * KW, TAPS_Y = (KH + SY - 1) / SY, TAPS_X = (KW + SX - 1) / SX, SEEN = PIXELS + TAPS_Y - 1;
constexpr int CHANNELS_AT_ONCE = UNROLL;  // pragmas take no macros
constexpr int CO_TILES = (CO + FILTERS - 1) / FILTERS, ROWS = SY * ((OH + SY * PIXELS - 1) / (SY * PIXELS));
constexpr int ACROSS = COLUMNS > 1 ? (OW - 1 + LEFT) / SX - LEFT / SX + 1 : OW;
constexpr unsigned TILES = static_cast<unsigned>(N) * CO_TILES * ROWS * ACROSS;
constexpr int SUMS = PIXELS * FILTERS * COLUMNS;
// Elements of a row of filters that a thread reads, and those between two of them.
constexpr int READ = COLUMNS > 1 ? KW : TAPS_X, APART = COLUMNS > 1 ? 1 : SX;
constexpr int VECTOR = COLUMNS == 1 || KW % 2 ? 1 : KW % 4 ? 2 : 4;

extern "C" __global__ void __launch_bounds__(THREADS) conv2d_transpose(
    const float* __restrict__ data, const float* __restrict__ weight, float* __restrict__ out) {
  const int lane = threadIdx.x, slice = threadIdx.y;
  const unsigned tile = blockIdx.x * static_cast<unsigned>(LANES) + lane;
  const bool exists = tile < TILES;
  const int place = tile % ACROSS, row = tile / ACROSS % ROWS, co0 = tile / (ACROSS * ROWS) % CO_TILES * FILTERS;
  const int n = tile / (ACROSS * ROWS * CO_TILES), y = row / SY * (SY * PIXELS) + row % SY;
  // The first of the columns; with several it may be left of the result.
  const int x = COLUMNS > 1 ? (place + LEFT / SX) * SX - LEFT : place;
  const int ky = (y + TOP) % SY, iy = (y + TOP) / SY, kx = (x + LEFT) % SX, ix = (x + LEFT) / SX;
  const float* const image = data + static_cast<size_t>(n) * (CI * IH * IW) + iy * IW + ix;
  const float* const filters = weight + co0 * TAPS + ky * KW + (COLUMNS > 1 ? 0 : kx);
  float sums[SUMS];
#pragma unroll
  for (int k = 0; k < SUMS; ++k) sums[k] = 0.0f;
#pragma unroll CHANNELS_AT_ONCE
  for (int ci = slice; ci < CI; ci += SLICES) {
    bool column[TAPS_X];
    float seen[TAPS_X][SEEN];
#pragma unroll
    for (int j = 0; j < TAPS_X; ++j) {
      column[j] = exists && ix >= j && ix - j < IW && (COLUMNS > 1 || KW % SX == 0 || kx + j * SX < KW);
#pragma unroll
      for (int s = 0; s < SEEN; ++s) {
        const int up = iy + s - (TAPS_Y - 1);
        const bool inside = column[j] && up >= 0 && up < IH;
        seen[j][s] = inside ? image[ci * (IH * IW) + (s - (TAPS_Y - 1)) * IW - j] : 0.0f;
      }
    }
#pragma unroll
    for (int i = 0; i < TAPS_Y; ++i)
#pragma unroll
      for (int c = 0; c < FILTERS; ++c) {
        const bool reaches =
            exists && (KH % SY == 0 || ky + i * SY < KH) && (CO % FILTERS == 0 || co0 + c < CO);
        const float* const from = filters + (ci * CO + c) * TAPS + i * (SY * KW);
        float factors[READ];
#pragma unroll
        for (int k = 0; k < READ; k += VECTOR) {
          if (reaches && (COLUMNS > 1 || column[k])) {
            load_vector<VECTOR>(factors + k, from + k * APART);
          } else {
#pragma unroll
            for (int v = 0; v < VECTOR; ++v) factors[k + v] = 0.0f;
          }
        }
#pragma unroll
        for (int k = 0; k < READ; ++k) {
          const int j = COLUMNS > 1 ? k / SX : k, phase = COLUMNS > 1 ? k % SX : 0;
#pragma unroll
          for (int p = 0; p < PIXELS; ++p) {
            float& sum = sums[(p * FILTERS + c) * COLUMNS + phase];
            sum = fmaf(seen[j][p + TAPS_Y - 1 - i], factors[k], sum);
          }
        }
      }
  }
  auto write = [&](int k, float sum) {
    const int p = k / (FILTERS * COLUMNS), c = k / COLUMNS % FILTERS, at = x + k % COLUMNS;
    const bool within = COLUMNS == 1 || (at >= 0 && at < OW);
    if (exists && within && y + p * SY < OH && (CO % FILTERS == 0 || co0 + c < CO))
      out[((static_cast<size_t>(n) * CO + co0 + c) * OH + y + p * SY) * OW + at] = sum;
  };
#if SLICES > 1
  __shared__ float parts[SLICES][SUMS][LANES];
#pragma unroll
  for (int k = 0; k < SUMS; ++k) parts[slice][k][lane] = sums[k];
  __syncthreads();
  // The slices share what is to be added up and stored.
#pragma unroll
  for (int first = 0; first < SUMS; first += SLICES) {
    const int k = first + slice;
    if (k >= SUMS) break;
    float sum = parts[0][k][lane];
#pragma unroll
    for (int s = 1; s < SLICES; ++s) sum += parts[s][k][lane];
    write(k, sum);
  }
#else
#pragma unroll
  for (int k = 0; k < SUMS; ++k) write(k, sums[k]);
#endif
}
