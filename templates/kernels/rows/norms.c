// Layer normalisation of the rows of a matrix, or with RMS that by the root mean square, float32; TASK_ROWS rows per
// task. A row has CHANNELS channels of SPATIAL neighbouring elements, and every GROUPS-th row the same ones; with GAIN
// and SHIFT each channel has a factor and a summand.

// Elements whose mean and squared deviations are computed from the L1 cache, in two passes.
#define BLOCK 4096
#define ELEMENTS(i, n, other) loaded(from + (i), n, other)
#define SQUARE(v) ((v) * (v))
#define SQUARES(i, n, other) SQUARE(loaded(from + (i), n, other))
#define DEVIATIONS(i, n, other) SQUARE(loaded(from + (i), n, center) - center)

// Sets the mean of a row, and the factor of deviations from it.
INLINED void statistics(const float* restrict from, vec* mean, vec* factor) {
  vec squares, sum;
#if RMS
  *mean = (vec){0};
  REDUCE_ROW(squares, COLUMNS, (vec){0}, plus, SQUARES);
#else
  // Blocks are combined by the parallel algorithm of Chan, Golub and LeVeque (1979): memory is read once, and the
  // result is accurate where the mean is far from zero.
  *mean = squares = (vec){0};
  for (int first = 0; first < COLUMNS; first += BLOCK, from += BLOCK) {
    const int size = SMALLER(BLOCK, COLUMNS - first);
    const float share = (float)size / (float)(first + size);
    REDUCE_ROW(sum, size, (vec){0}, plus, ELEMENTS);
    const vec center = sum / (float)size, apart = center - *mean;
    REDUCE_ROW(sum, size, (vec){0}, plus, DEVIATIONS);
    *mean += apart * share;
    squares += sum + (float)first * share * apart * apart;
  }
#endif
  *factor = all(1.0f / __builtin_sqrtf(squares[0] / COLUMNS + (float)EPSILON));
}

INLINED void mapped(const float* from, float* to, int count, vec mean, vec factor, vec gain, vec shift) {
  stored(to, count, (loaded(from, count, mean) - mean) * factor * gain + shift);
}

static void one_row(
    const float* restrict from, const float* restrict gain, const float* restrict shift, float* restrict to) {
  vec mean, factor;
  statistics(from, &mean, &factor);
#if SPATIAL == 1
#define PARAMETER(used, values, i, count, other) (used ? loaded(values + (i), count, other) : (other))
#define MAPPED(i, count)                                                                     \
  mapped(from + (i), to + (i), count, mean, factor, PARAMETER(GAIN, gain, i, count, all(1)), \
         PARAMETER(SHIFT, shift, i, count, all(-0.0f)))
  const int whole = COLUMNS - COLUMNS % LANES;
#pragma GCC unroll 4
  for (int i = 0; i < whole; i += LANES) MAPPED(i, LANES);
  if (whole < COLUMNS) MAPPED(whole, COLUMNS - whole);
#else
  const int whole = SPATIAL - SPATIAL % LANES;
  for (int c = 0; c < CHANNELS; ++c, from += SPATIAL, to += SPATIAL) {
    const vec scale = GAIN ? all(gain[c]) : all(1), offset = SHIFT ? all(shift[c]) : all(-0.0f);
#pragma GCC unroll 4
    for (int i = 0; i < whole; i += LANES) mapped(from + i, to + i, LANES, mean, factor, scale, offset);
    if (whole < SPATIAL) mapped(from + whole, to + whole, SPATIAL - whole, mean, factor, scale, offset);
  }
#endif
}

void norm(
    const float* restrict data, const float* restrict gain, const float* restrict shift, float* restrict out) {
  // Waking other threads takes longer than the smallest matrices.
#pragma omp parallel for schedule(static) if ((size_t)BATCH * COLUMNS > 30000)
  for (int task = 0; task < BATCH; task += TASK_ROWS)
    for (int row = task; row < SMALLER(task + TASK_ROWS, BATCH); ++row) {
      const size_t first = (size_t)row * COLUMNS;
      const int channel = row % GROUPS * CHANNELS;
      one_row(data + first, gain + channel, shift + channel, out + first);
    }
}
