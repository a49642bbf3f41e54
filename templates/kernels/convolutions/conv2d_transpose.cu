// Filters of the phases of a transposed convolution, and images of all phases woven together.
//
// Filters are given as [SPREAD_CI, SPREAD_CO, SPREAD_KH, SPREAD_KW]; those of phase (y, x) of an output channel have
// SPREAD_PHASE_H x SPREAD_PHASE_W taps for each input channel, of which tap (i, j) is the given one at
// y + SPREAD_CUT_Y - SPREAD_SY * (i + FIRST_Y), and the same of x, or 0 where there is none. A block takes SPREAD_CI_TILE input channels
// of SPREAD_CO_TILE output channels by way of shared memory, so that neighbours are read and written together.
// With SPREAD_APART phases are groups of channels, before which filters begin at a place of their own.
constexpr int WOVEN_THREADS = 256, WOVEN_EACH = 4, SPREAD_PHASES = SPREAD_SY * SPREAD_SX;

// Where filters of a phase begin, from the place of a result among those of its phase on.
__device__ __forceinline__ int first_y(int phase) {
  return SPREAD_FIRST_Y + (SPREAD_APART ? (phase / SPREAD_SX + SPREAD_CUT_Y) / SPREAD_SY : 0);
}

__device__ __forceinline__ int first_x(int phase) {
  return SPREAD_FIRST_X + (SPREAD_APART ? (phase % SPREAD_SX + SPREAD_CUT_X) / SPREAD_SX : 0);
}

// Which of the channels of all phases one of them is.
__device__ __forceinline__ int channel_of(int co, int phase) {
  return SPREAD_APART ? phase * SPREAD_CO + co : co * SPREAD_PHASES + phase;
}

extern "C" __global__ void __launch_bounds__(WOVEN_THREADS) arrange_weight(
    const float* __restrict__ from, float* __restrict__ to) {
  constexpr int Given = SPREAD_KH * SPREAD_KW, Taps = SPREAD_PHASE_H * SPREAD_PHASE_W, Phases = SPREAD_PHASES;
  constexpr int Row = SPREAD_CO_TILE * Given, Tiles = (SPREAD_CO + SPREAD_CO_TILE - 1) / SPREAD_CO_TILE;
  __shared__ float tile[SPREAD_CI_TILE * (Row + 1)];
  let_next_begin();
  const int co0 = blockIdx.x % Tiles * SPREAD_CO_TILE, ci0 = blockIdx.x / Tiles * SPREAD_CI_TILE;
  for (int i = threadIdx.x; i < SPREAD_CI_TILE * Row; i += WOVEN_THREADS) {
    const int ci = i / Row, inside = i % Row;
    if (ci0 + ci < SPREAD_CI && co0 * Given + inside < SPREAD_CO * Given)
      tile[ci * (Row + 1) + inside] = from[static_cast<size_t>(ci0 + ci) * (SPREAD_CO * Given) + co0 * Given + inside];
  }
  __syncthreads();
  for (int i = threadIdx.x; i < SPREAD_CO_TILE * Phases * SPREAD_CI_TILE * Taps; i += WOVEN_THREADS) {
    const int tap = i % Taps, ci = i / Taps % SPREAD_CI_TILE, filter = i / (Taps * SPREAD_CI_TILE);
    const int co = filter / Phases, phase = filter % Phases;
    const int y = phase / SPREAD_SX + SPREAD_CUT_Y - SPREAD_SY * (tap / SPREAD_PHASE_W + first_y(phase));
    const int x = phase % SPREAD_SX + SPREAD_CUT_X - SPREAD_SX * (tap % SPREAD_PHASE_W + first_x(phase));
    const bool exists = y >= 0 && y < SPREAD_KH && x >= 0 && x < SPREAD_KW;
    if (ci0 + ci < SPREAD_CI && co0 + co < SPREAD_CO)
      to[(static_cast<size_t>(channel_of(co0 + co, phase)) * SPREAD_CI + ci0 + ci) * Taps + tap] =
          exists ? tile[ci * (Row + 1) + (co * SPREAD_KH + y) * SPREAD_KW + x] : 0.0f;
  }
}

#if SPREAD_APART
// Data as each phase sees it, from where its filters begin: zeros beyond the edges. Runs beside `arrange_weight`.
extern "C" __global__ void __launch_bounds__(WOVEN_THREADS) arrange_data(
    const float* __restrict__ from, float* __restrict__ to) {
  constexpr unsigned Seen = SPREAD_SEEN_H * SPREAD_SEEN_W, Size = SPREAD_N * SPREAD_PHASES * SPREAD_CI * Seen;
  const unsigned first = blockIdx.x * (WOVEN_THREADS * WOVEN_EACH) + threadIdx.x;
  float read[WOVEN_EACH];
#pragma unroll
  for (int v = 0; v < WOVEN_EACH; ++v) {
    const unsigned i = first + v * WOVEN_THREADS, image = i / Seen, ci = image % SPREAD_CI;
    const int phase = image / SPREAD_CI % SPREAD_PHASES;
    const int y = i / SPREAD_SEEN_W % SPREAD_SEEN_H + first_y(phase), x = i % SPREAD_SEEN_W + first_x(phase);
    const bool exists = i < Size && y >= 0 && y < SPREAD_H && x >= 0 && x < SPREAD_W;
    const size_t plane = static_cast<size_t>(image / (SPREAD_CI * SPREAD_PHASES)) * SPREAD_CI + ci;
    read[v] = exists ? from[(plane * SPREAD_H + y) * SPREAD_W + x] : 0.0f;
  }
#pragma unroll
  for (int v = 0; v < WOVEN_EACH; ++v)
    if (first + v * WOVEN_THREADS < Size) to[first + v * WOVEN_THREADS] = read[v];
  wait_for_kernel_before();  // so that filters are there too when this one ends
}
#endif

#ifdef WOVEN_H
// Images [.., SPREAD_SY, SPREAD_SX, WOVEN_ROWS, WOVEN_COLUMNS] as those of WOVEN_H x WOVEN_W, of which there are WOVEN_IMAGES.
extern "C" __global__ void __launch_bounds__(WOVEN_THREADS) arrange_out(
    const float* __restrict__ from, float* __restrict__ to) {
  constexpr unsigned Size = static_cast<unsigned>(WOVEN_IMAGES) * WOVEN_H * WOVEN_W;
  const unsigned first = blockIdx.x * (WOVEN_THREADS * WOVEN_EACH) + threadIdx.x;
  float read[WOVEN_EACH];
  wait_for_kernel_before();
#pragma unroll
  for (int v = 0; v < WOVEN_EACH; ++v) {
    const unsigned i = first + v * WOVEN_THREADS, image = i / (WOVEN_H * WOVEN_W);
    const int y = i / WOVEN_W % WOVEN_H, x = i % WOVEN_W;
    const int phase = y % SPREAD_SY * SPREAD_SX + x % SPREAD_SX;
    const size_t begin = static_cast<size_t>(image / SPREAD_CO) * (SPREAD_CO * SPREAD_PHASES);
    const size_t plane = begin + channel_of(image % SPREAD_CO, phase);
    if (i < Size) read[v] = from[(plane * WOVEN_ROWS + y / SPREAD_SY) * WOVEN_COLUMNS + x / SPREAD_SX];
  }
#pragma unroll
  for (int v = 0; v < WOVEN_EACH; ++v)
    if (first + v * WOVEN_THREADS < Size) to[first + v * WOVEN_THREADS] = read[v];
}
#endif
