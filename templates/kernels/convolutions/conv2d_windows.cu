// Copies windows of images NCHW of 16-bit floats as rows of a matrix, one for each output pixel, whose elements are those
// of a filter (im2col). A block copies WINDOW_CHANNELS channels of the windows of 32 pixels: warps read neighbouring pixels
// of a tap of a channel, and write vectors of 8 elements of rows.
constexpr int WINDOW_PIXELS = 32, WINDOW_ITEMS = WINDOW_CHANNELS * KH * KW, WINDOW_PITCH = WINDOW_ITEMS + 2;

extern "C" __global__ void __launch_bounds__(256) arrange_data(
    const Bits* __restrict__ from, Bits* __restrict__ to) {
  constexpr int TAPS = KH * KW, ROW = CI * TAPS, CHUNKS = (CI + WINDOW_CHANNELS - 1) / WINDOW_CHANNELS;
  constexpr int WARPS = 8, VECTORS = WINDOW_ITEMS / 8;
  __shared__ unsigned tile[WINDOW_PIXELS * WINDOW_PITCH / 2];
  const int channel0 = blockIdx.x % CHUNKS * WINDOW_CHANNELS, pixel0 = blockIdx.x / CHUNKS * WINDOW_PIXELS;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, pixel = pixel0 + lane;
  const int image = pixel / (OH * OW), y0 = pixel / OW % OH * SY - PY, x0 = pixel % OW * SX - PX;
  const Bits* const first = from + static_cast<size_t>(image) * CI * (IH * IW) + y0 * IW + x0;
  Bits* const row = reinterpret_cast<Bits*>(tile) + lane * WINDOW_PITCH;
  unsigned long long inside = 0;
#pragma unroll
  for (int tap = 0; tap < TAPS; ++tap) {
    const int y = y0 + tap / KW * DY, x = x0 + tap % KW * DX;
    inside |= static_cast<unsigned long long>(pixel < WINDOWS && y >= 0 && y < IH && x >= 0 && x < IW) << tap;
  }
#pragma unroll
  for (int i = 0; i < WINDOW_CHANNELS / WARPS; ++i) {
    const int channel = i * WARPS + warp;
    const Bits* const plane = first + static_cast<size_t>(channel0 + channel) * (IH * IW);
    const unsigned long long there = channel0 + channel < CI ? inside : 0;
#pragma unroll
    for (int tap = 0; tap < TAPS; ++tap)
      row[channel * TAPS + tap] = there >> tap & 1 ? plane[tap / KW * DY * IW + tap % KW * DX] : static_cast<Bits>(0);
  }
  __syncthreads();
#pragma unroll 2
  for (int i = threadIdx.x; i < WINDOW_PIXELS * VECTORS; i += 256) {
    const int line = i / VECTORS, vector = i % VECTORS, at = channel0 * TAPS + vector * 8;
    const unsigned* const words = tile + line * (WINDOW_PITCH / 2) + vector * 4;
    if (pixel0 + line < WINDOWS && at < ROW)
      store_whole(to + static_cast<size_t>(pixel0 + line) * ROW + at, words[0], words[1], words[2], words[3]);
  }
  launch_dependent_grids();
}
