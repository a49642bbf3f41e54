// Depthwise convolutions of NHWC images of 8-bit integers, one filter a channel, with their requantisation
// (requantise.h). A thread computes PIXELS neighbours of a row for COUNT channels, whose filters it keeps in registers,
// and reads each column of its windows once; outside of images it reads the zero point.
constexpr int BLOCKS_X = (OW + PIXELS - 1) / PIXELS, COLUMNS = (PIXELS - 1) * SX + (KW - 1) * DX + 1;

typedef unsigned char Byte;

__device__ __forceinline__ int byte_in(unsigned word, int i) {
#if DATA_SIGNED
  return static_cast<signed char>(word >> 8 * i);
#else
  return word >> 8 * i & 0xff;
#endif
}

// Loads the bytes of COUNT channels.
__device__ __forceinline__ unsigned load_channels(const Byte* from) {
  return COUNT == 4 ? *reinterpret_cast<const unsigned*>(from) : *from;
}

// Loads the filters of neighbouring channels: those of four are whole words.
__device__ __forceinline__ void load_filters(int (&filter)[COUNT][KH * KW], const signed char* __restrict__ from) {
  constexpr int TAPS = KH * KW;
  unsigned word[TAPS];
#pragma unroll
  for (int i = 0; i < TAPS; ++i)
    word[i] = COUNT == 4 ? reinterpret_cast<const unsigned*>(from)[i] : static_cast<unsigned char>(from[i]);
#pragma unroll
  for (int i = 0; i < COUNT * TAPS; ++i)
    filter[i / TAPS][i % TAPS] = static_cast<signed char>(COUNT == 4 ? word[i / 4] >> i % 4 * 8 : word[i]);
}

extern "C" __global__ void __launch_bounds__(THREADS, 512 / THREADS) conv2d_int8_planes(
    const Byte* __restrict__ data, const signed char* __restrict__ weight,
    REQUANTISE_PARAMETERS Result* __restrict__ out) {
  const int i = blockIdx.x * THREADS + threadIdx.x, channel = i % (CO / COUNT) * COUNT;
  const int x0 = i / (CO / COUNT) % BLOCKS_X * PIXELS, row = i / (CO / COUNT) / BLOCKS_X, image = row / OH;
  if (image >= IMAGES) return;
  int filter[COUNT][KH * KW], sums[PIXELS][COUNT] = {};
  const Channels<COUNT> end = all_channels<COUNT>(REQUANTISATION, channel);
  load_filters(filter, weight + channel * (KH * KW));
  unsigned word[KH][COLUMNS];
#pragma unroll
  for (int ky = 0; ky < KH; ++ky) {
    const int y = row % OH * SY - PAD_TOP + ky * DY;
    const Byte* const line = data + ((image * IH + y) * IW) * CO + channel;
#pragma unroll
    for (int column = 0; column < COLUMNS; ++column) {
      const int x = x0 * SX - PAD_LEFT + column;
      const bool inside = static_cast<unsigned>(y) < IH && static_cast<unsigned>(x) < IW;
      word[ky][column] = inside ? load_channels(line + x * CO) : DATA_ZERO_WORD;
    }
  }
#pragma unroll
  for (int ky = 0; ky < KH; ++ky)
#pragma unroll
    for (int column = 0; column < COLUMNS; ++column)
#pragma unroll
      for (int p = 0; p < PIXELS; ++p) {
        const int from = column - p * SX;
        if (from >= 0 && from % DX == 0 && from / DX < KW) {
#pragma unroll
          for (int c = 0; c < COUNT; ++c) sums[p][c] += byte_in(word[ky][column], c) * filter[c][ky * KW + from / DX];
        }
      }
#pragma unroll
  for (int p = 0; p < PIXELS; ++p)
    if (OW % PIXELS == 0 || x0 + p < OW)
      write_results<true>(
          out, (static_cast<size_t>(row) * OW + x0 + p) * CO + channel, sums[p], end, COUNT RESIDUAL_POINTER);
}
