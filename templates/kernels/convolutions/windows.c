// Depthwise convolution and pooling over copied planes. A task owns LINES rows of a channel. It copies
// their input, with the padding, to one plane for each phase of the stride: there the inputs of
// neighbouring outputs at a tap are contiguous, at the same offset for all.
#define PITCH (VECTORS * LANES + REACH_X / SX)
#define HELD (LINES + REACH_Y / SY)
#define PLANE (HELD * PITCH)
// Output rows that are computed together.
#ifndef TOGETHER
#define TOGETHER 2
#endif

// Per thread, and kept between calls: the pages of new memory would be mapped again.
static _Thread_local float planes[SY * SX * PLANE] __attribute__((aligned(64)));

// The range in which all phases of the stride are inside the image, with constant bounds.
#define INNER SMALLER(PITCH, (PX + SX - 1) / SX)
#define BEYOND LARGER(INNER, SMALLER(PITCH, (IW + PX) / SX))
// Elements that are deinterleaved at a time; the last overlap, so that there is no remainder.
#define BATCHED 16

// Deinterleaves elements `from` to `end` of a row, with bounds checks; phases are a PLANE apart.
static inline void deinterleave_checked(float* restrict to, const float* restrict line, int from, int end) {
  for (int x = from; x < end; ++x)
    for (int j = 0; j < SX; ++j) {
      const int at = x * SX + j - PX;
      to[j * PLANE + x] = at >= 0 && at < IW ? line[at] : IDENTITY;
    }
}

#if SX == 2
#if LANES == 16
#define EVENS 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30
#define ODDS 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31
#elif LANES == 8
#define EVENS 0, 2, 4, 6, 8, 10, 12, 14
#define ODDS 1, 3, 5, 7, 9, 11, 13, 15
#else
#define EVENS 0, 2, 4, 6
#define ODDS 1, 3, 5, 7
#endif

// Deinterleaves a short row by whole vectors, the last of which overlaps. What they load beyond the
// row is within the images, and is masked.
static inline void deinterleave_short(float* restrict to, const float* restrict line) {
#pragma GCC unroll 8
  for (int x = 0; x < PITCH; x += LANES) {
    const int from = SMALLER(x, PITCH - LANES), at = from * 2 - PX;
    const vec low = *(const vec*)(line + at), high = *(const vec*)(line + at + LANES);
    const vec parts[2] = {SHUFFLE(low, high, EVENS), SHUFFLE(low, high, ODDS)};
#pragma GCC unroll 2
    for (int j = 0; j < 2; ++j) {
      bits exists;
#pragma GCC unroll 16
      for (int i = 0; i < LANES; ++i)
        exists[i] = -(at + 2 * i + j >= 0 && at + 2 * i + j < IW);
      const vec identity = (vec){0} + IDENTITY;
      *(vec*)(to + j * PLANE + from) = (vec)(((bits)parts[j] & exists) | ((bits)identity & ~exists));
    }
  }
}
#endif

static void deinterleave(float* restrict to, const float* restrict line) {
  deinterleave_checked(to, line, 0, INNER);
  if (BEYOND - INNER < BATCHED) {
    for (int x = INNER; x < BEYOND; ++x)
      for (int j = 0; j < SX; ++j) to[j * PLANE + x] = line[x * SX + j - PX];
  } else {
    for (int x = INNER; x < BEYOND; x += BATCHED) {
      const int from = SMALLER(x, BEYOND - BATCHED);
      for (int i = from; i < from + BATCHED; ++i)
        for (int j = 0; j < SX; ++j) to[j * PLANE + i] = line[i * SX + j - PX];
    }
  }
  deinterleave_checked(to, line, BEYOND, PITCH);
}

// Copies the input of the output rows from `line` on of plane `c`.
static void fill(const float* data, int c, int line) {
  for (int i = 0; i < SY; ++i)
    for (int r = 0; r < HELD; ++r) {
      // Keeps GCC from vectorising over rows where the inner loops are unrolled: with rows above the
      // image and no padding at its left, 12.2 does not copy all of them.
      __asm__ volatile("" ::: "memory");
      const int y = (line + r) * SY + i - PY;
      const size_t at = ((size_t)c * IH + y) * IW;
      float* to = planes + i * SX * PLANE + r * PITCH;
      if (y < 0 || y >= IH) {
        for (int j = 0; j < SX; ++j)
          for (int x = 0; x < PITCH; ++x) to[j * PLANE + x] = IDENTITY;
        continue;
      }
#if SX == 2
      if (BEYOND - INNER < BATCHED && at >= PX &&
          at + 2 * PITCH <= (size_t)BATCH * CHANNELS * IH * IW + PX) {
        deinterleave_short(to, data + at);
        continue;
      }
#endif
      deinterleave(to, data + at);
    }
}

#if OPERATION == 1
// Whether windows of several rows of outputs have the maxima of rows of the planes in common, which are kept then.
#define SHARES (REACH_Y >= SY)
static _Thread_local float maxima[SHARES ? SY * HELD * VECTORS * LANES : 1] __attribute__((aligned(64)));

// The largest of each window of row `r` of the planes of phase `i`, for the outputs from `at` on; adds to `found` where
// elements are NaN.
INLINED vec row_maxima(const int i, int r, int at, Found* found) {
  vec largest, before;
#pragma GCC unroll 16
  for (int j = 0; j < KW; ++j) {
    const int phase = i * SX + j * DX % SX;
    const vec input = *(const vec*)(planes + phase * PLANE + r * PITCH + j * DX / SX + at);
    largest = j ? larger_of(input, largest) : input;
    if (j % 2) *found = find_nan(*found, before, input);
    else if (j == KW - 1) *found = find_nan(*found, input, input);
    before = input;
  }
  return largest;
}

static void fill_maxima(Found* found) {
  for (int i = 0; i < SY; ++i)
    for (int r = 0; r < HELD; ++r)
      for (int at = 0; at < VECTORS * LANES; at += LANES)
        *(vec*)(maxima + (i * HELD + r) * VECTORS * LANES + at) = row_maxima(i, r, at, found);
}
#endif

// The input of tap `j` of row `i` of a window, for the outputs from `at` on, `r` rows below the first of a task; of a
// maximum, that of all taps of the row.
INLINED vec load_input(const int i, const int j, int r, int at, Found* found) {
#if OPERATION == 1
  if (!SHARES) return row_maxima(i * DY % SY, r, at, found);
  return *(const vec*)(maxima + (i * DY % SY * HELD + r) * VECTORS * LANES + at);
#else
  return *(const vec*)(planes + (i * DY % SY * SX + j * DX % SX) * PLANE + r * PITCH + j * DX / SX + at);
#endif
}

// Neighbouring output rows of a channel, from `y` of the task on; shared input is loaded once.
INLINED void compute_rows(
    const int lines, float* restrict out, const float* restrict residual,
    const float* restrict filter, int line, int y, float bias, float scale, float shift, Found* found) {
  for (int at = 0; at < OW; at += LANES) {
    vec sum[TOGETHER];
#pragma GCC unroll 8
    for (int l = 0; l < lines; ++l) sum[l] = (vec){0} + IDENTITY;
#pragma GCC unroll 16
    for (int r = 0; r < lines + REACH_Y / SY; ++r)
#pragma GCC unroll 8
      for (int i = 0; i < KH; ++i) {
        const int l = r - i * DY / SY;
        if (l < 0 || l >= lines) continue;
#pragma GCC unroll 8
        for (int j = 0; j < (OPERATION == 1 ? 1 : KW); ++j) {
          const vec input = load_input(i, j, y + r, at, found);
          if (OPERATION == 0) sum[l] += input * filter[i * KW + j];
          if (OPERATION == 1) sum[l] = larger_of(input, sum[l]);
          if (OPERATION == 2) sum[l] += input;
        }
      }
#pragma GCC unroll 8
    for (int l = 0; l < lines; ++l)
      store_outputs(out + l * OW, residual + RESIDUAL * l * OW, sum[l], line + y + l, at, 0, bias, scale,
          shift);
  }
}

// Prefetches the input of output row `line` of plane `c`, which the next task copies.
static inline void prefetch_input(const float* data, int c, int line) {
  const size_t at = (size_t)c * IH * IW + (size_t)line * SY * IW;
  if (at + SY * IW <= (size_t)BATCH * CHANNELS * IH * IW)
    for (int x = 0; x < SY * IW; x += 16) __builtin_prefetch(data + at + x, 0, 2);
}

// Filters and epilogue operands that the kernel does not have are never read.
void windows(
    const float* restrict data, const float* restrict weight, const float* restrict bias,
    const float* restrict residual, const float* restrict scale, const float* restrict shift,
    float* restrict out) {
#pragma omp parallel for collapse(2) schedule(static)
  for (int c = 0; c < BATCH * CHANNELS; ++c)
    for (int line = 0; line < OH; line += LINES) {
      const int lines = SMALLER(LINES, OH - line);
      fill(data, c, line);
      Found found = {0};
#if OPERATION == 1
      if (SHARES) fill_maxima(&found);
#endif
      for (int m = 0; m < MULTIPLIER; ++m) {
        const int filter = c % CHANNELS * MULTIPLIER + m;
        const float* const taps = weight + (OPERATION ? 0 : filter * KH * KW);
        const float first = BIAS ? bias[filter] : 0.0f, factor = AFFINE ? scale[filter] : 1.0f;
        const float last = AFFINE ? shift[filter] : 0.0f;
        const size_t plane = (((size_t)c * MULTIPLIER + m) * OH + line) * OW;
        for (int y = 0; y < lines;) {
          const int some = y + TOGETHER <= lines ? TOGETHER : 1;
          for (int l = 0; m == 0 && l < some; ++l) prefetch_input(data, c, line + y + l + LINES);
          float* to = out + plane + (size_t)y * OW;
          const float* other = residual + RESIDUAL * (plane + (size_t)y * OW);
          if (some > 1) compute_rows(TOGETHER, to, other, taps, line, y, first, factor, last, &found);
          else compute_rows(1, to, other, taps, line, y, first, factor, last, &found);
          y += some;
        }
#if OPERATION == 1
        const int top = LARGER(0, line * SY - PY);
        if (is_any(found)) write_nans(data + ((size_t)c * IH + top) * IW, top, line, lines, out + plane);
#endif
        follow_rows(out + plane, 1, 0, (long)lines * OW);
      }
    }
}
