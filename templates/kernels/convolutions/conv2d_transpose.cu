// Copies around the 2-D convolution that computes the phases of a transposed one: the filters of each phase, and the
// result, in which phases are interleaved.
//
// Filters are given as [TRANSPOSE_CI, TRANSPOSE_CO, TRANSPOSE_KH, TRANSPOSE_KW]; those of phase (y, x) of an output channel have
// TRANSPOSE_PHASE_KH x TRANSPOSE_PHASE_KW taps for each input channel, of which tap (i, j) is the given one
// at y + TRANSPOSE_CUT_Y - TRANSPOSE_SY * (i + FIRST_Y), and the same of x, or 0 where there is none. A block moves
// TRANSPOSE_CI_TILE input channels of TRANSPOSE_CO_TILE output channels through shared memory, so that loads and
// stores are coalesced. With TRANSPOSE_APART phases are groups of channels, whose filters have offsets of their own.
constexpr int COPY_THREADS = 256, COPY_EACH = 4, PHASES = TRANSPOSE_SY * TRANSPOSE_SX;

// Offset of the first tap of a phase from the coordinate of a result in its phase.
__device__ __forceinline__ int first_y(int phase) {
  return TRANSPOSE_FIRST_Y + (TRANSPOSE_APART ? (phase / TRANSPOSE_SX + TRANSPOSE_CUT_Y) / TRANSPOSE_SY : 0);
}

__device__ __forceinline__ int first_x(int phase) {
  return TRANSPOSE_FIRST_X + (TRANSPOSE_APART ? (phase % TRANSPOSE_SX + TRANSPOSE_CUT_X) / TRANSPOSE_SX : 0);
}

// Index of the output channel of a phase among those of all phases.
__device__ __forceinline__ int channel_of(int co, int phase) {
  return TRANSPOSE_APART ? phase * TRANSPOSE_CO + co : co * PHASES + phase;
}

extern "C" __global__ void __launch_bounds__(COPY_THREADS) arrange_weight(
    const float* __restrict__ from, float* __restrict__ to) {
  constexpr int Given = TRANSPOSE_KH * TRANSPOSE_KW, Taps = TRANSPOSE_PHASE_KH * TRANSPOSE_PHASE_KW, Phases = PHASES;
  constexpr int Row = TRANSPOSE_CO_TILE * Given, Tiles = (TRANSPOSE_CO + TRANSPOSE_CO_TILE - 1) / TRANSPOSE_CO_TILE;
  __shared__ float tile[TRANSPOSE_CI_TILE * (Row + 1)];
  launch_dependent_grids();
  const int co0 = blockIdx.x % Tiles * TRANSPOSE_CO_TILE, ci0 = blockIdx.x / Tiles * TRANSPOSE_CI_TILE;
  for (int i = threadIdx.x; i < TRANSPOSE_CI_TILE * Row; i += COPY_THREADS) {
    const int ci = i / Row, inside = i % Row;
    if (ci0 + ci < TRANSPOSE_CI && co0 * Given + inside < TRANSPOSE_CO * Given)
      tile[ci * (Row + 1) + inside] = from[static_cast<size_t>(ci0 + ci) * (TRANSPOSE_CO * Given) + co0 * Given + inside];
  }
  __syncthreads();
  for (int i = threadIdx.x; i < TRANSPOSE_CO_TILE * Phases * TRANSPOSE_CI_TILE * Taps; i += COPY_THREADS) {
    const int tap = i % Taps, ci = i / Taps % TRANSPOSE_CI_TILE, filter = i / (Taps * TRANSPOSE_CI_TILE);
    const int co = filter / Phases, phase = filter % Phases;
    const int y = phase / TRANSPOSE_SX + TRANSPOSE_CUT_Y - TRANSPOSE_SY * (tap / TRANSPOSE_PHASE_KW + first_y(phase));
    const int x = phase % TRANSPOSE_SX + TRANSPOSE_CUT_X - TRANSPOSE_SX * (tap % TRANSPOSE_PHASE_KW + first_x(phase));
    const bool exists = y >= 0 && y < TRANSPOSE_KH && x >= 0 && x < TRANSPOSE_KW;
    if (ci0 + ci < TRANSPOSE_CI && co0 + co < TRANSPOSE_CO)
      to[(static_cast<size_t>(channel_of(co0 + co, phase)) * TRANSPOSE_CI + ci0 + ci) * Taps + tap] =
          exists ? tile[ci * (Row + 1) + (co * TRANSPOSE_KH + y) * TRANSPOSE_KW + x] : 0.0f;
  }
}

#if TRANSPOSE_APART
// Shifts the data by the offset of each phase, with zeros beyond the edges. Overlaps with `arrange_weight`.
extern "C" __global__ void __launch_bounds__(COPY_THREADS) arrange_data(
    const float* __restrict__ from, float* __restrict__ to) {
  constexpr unsigned Seen = TRANSPOSE_PHASE_IH * TRANSPOSE_PHASE_IW, Size = TRANSPOSE_N * PHASES * TRANSPOSE_CI * Seen;
  const unsigned first = blockIdx.x * (COPY_THREADS * COPY_EACH) + threadIdx.x;
  float read[COPY_EACH];
#pragma unroll
  for (int v = 0; v < COPY_EACH; ++v) {
    const unsigned i = first + v * COPY_THREADS, image = i / Seen, ci = image % TRANSPOSE_CI;
    const int phase = image / TRANSPOSE_CI % PHASES;
    const int y = i / TRANSPOSE_PHASE_IW % TRANSPOSE_PHASE_IH + first_y(phase), x = i % TRANSPOSE_PHASE_IW + first_x(phase);
    const bool exists = i < Size && y >= 0 && y < TRANSPOSE_IH && x >= 0 && x < TRANSPOSE_IW;
    const size_t plane = static_cast<size_t>(image / (TRANSPOSE_CI * PHASES)) * TRANSPOSE_CI + ci;
    read[v] = exists ? from[(plane * TRANSPOSE_IH + y) * TRANSPOSE_IW + x] : 0.0f;
  }
#pragma unroll
  for (int v = 0; v < COPY_EACH; ++v)
    if (first + v * COPY_THREADS < Size) to[first + v * COPY_THREADS] = read[v];
  wait_on_dependent_grids();  // so that the filters too are written when this kernel ends
}
#endif

#ifdef TRANSPOSE_OH
// Images [.., TRANSPOSE_SY, TRANSPOSE_SX, TRANSPOSE_PHASE_OH, TRANSPOSE_PHASE_OW] as those of TRANSPOSE_OH x TRANSPOSE_OW, of which there are TRANSPOSE_IMAGES.
extern "C" __global__ void __launch_bounds__(COPY_THREADS) arrange_out(
    const float* __restrict__ from, float* __restrict__ to) {
  constexpr unsigned Size = static_cast<unsigned>(TRANSPOSE_IMAGES) * TRANSPOSE_OH * TRANSPOSE_OW;
  const unsigned first = blockIdx.x * (COPY_THREADS * COPY_EACH) + threadIdx.x;
  float read[COPY_EACH];
  wait_on_dependent_grids();
#pragma unroll
  for (int v = 0; v < COPY_EACH; ++v) {
    const unsigned i = first + v * COPY_THREADS, image = i / (TRANSPOSE_OH * TRANSPOSE_OW);
    const int y = i / TRANSPOSE_OW % TRANSPOSE_OH, x = i % TRANSPOSE_OW;
    const int phase = y % TRANSPOSE_SY * TRANSPOSE_SX + x % TRANSPOSE_SX;
    const size_t begin = static_cast<size_t>(image / TRANSPOSE_CO) * (TRANSPOSE_CO * PHASES);
    const size_t plane = begin + channel_of(image % TRANSPOSE_CO, phase);
    if (i < Size) read[v] = from[(plane * TRANSPOSE_PHASE_OH + y / TRANSPOSE_SY) * TRANSPOSE_PHASE_OW + x / TRANSPOSE_SX];
  }
#pragma unroll
  for (int v = 0; v < COPY_EACH; ++v)
    if (first + v * COPY_THREADS < Size) to[first + v * COPY_THREADS] = read[v];
}
#endif
