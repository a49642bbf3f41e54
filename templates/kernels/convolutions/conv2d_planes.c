// Convolution, NCHW, float32. A task owns BLOCK output channels and LINES lines of one image. It
// copies the input of CHANNELS channels, with the padding, to planes, without im2col: all rows are
// computed as one long row of pixels with a pitch of PITCH (see planes.h). Sums between the rows of
// the output are discarded.
#define PIXELS (OH * OW)
#define HELD_LINES (LINES + (REACH_Y - 1) / SY)

// Per thread, and kept between calls: the pages of new memory would be mapped again. The last tile of the last channel
// may read up to WIDTH elements beyond it.
static _Thread_local float planes[CHANNELS * CHANNEL + WIDTH] __attribute__((aligned(64)));

// Copies every SX-th element of a row from `from` on, with zeros outside of the image.
static inline void copy_strided(float* restrict to, const float* restrict line, int from) {
  const int first = SMALLER(PITCH, LARGER(0, (SX - 1 - from) / SX));
  const int end = LARGER(first, SMALLER(PITCH, (IW - from + SX - 1) / SX));
  for (int x = 0; x < first; ++x) to[x] = 0.0f;
  gather(to + first, line + from + first * SX, end - first);
  for (int x = end; x < PITCH; ++x) to[x] = 0.0f;
}

// Copies the input of the output rows from `line` on, of some channels.
static void fill(const float* restrict image, int channels, int line) {
  float* to = planes;
  for (int c = 0; c < channels; ++c, image += IH * IW)
    for (int i = 0; i < PHASES_Y; ++i)
      for (int j = 0; j < PHASES_X; ++j)
        for (int r = 0; r < HELD_LINES; ++r, to += PITCH) {
          const int y = (line + r) * SY + i - PY;
          if (y < 0 || y >= IH) memset(to, 0, PITCH * sizeof(float));
          else copy_strided(to, image + (size_t)y * IW, j - PX);
        }
}

// Which of the sums from `at` on are pixels, of `lines` lines.
static inline Columns columns_at(int at, int lines) {
  Columns found = {0};
  int line = at / PITCH, x = at % PITCH;
  for (int j = 0; j < WIDTH && line < lines; j += PITCH - x, x = 0, ++line) {
    const int count = SMALLER(OW - x, WIDTH - j);
    if (count > 0) found.run[found.runs++] = (Run){j, count, line * OW + x};
  }
  found.is_whole = found.runs && found.run[0].count == WIDTH;
  return found;
}

static void task(
    int m0, int line, const float* restrict image, const float* restrict weight, const EpilogueArgs epilogue,
    float* restrict out) {
  const int rows = SMALLER(BLOCK, CO - m0), lines = SMALLER(LINES, OH - line);
  const int sums = (lines - 1) * PITCH + OW;
  for (int c0 = 0; c0 < CI; c0 += CHANNELS) {
    const int channels = SMALLER(CHANNELS, CI - c0), last = c0 + CHANNELS >= CI;
    fill(image + (size_t)c0 * IH * IW, channels, line);
    for (int m = 0; m < rows; m += ROWS)
      for (int at = 0; at < sums; at += WIDTH) {
        const Columns columns = columns_at(at, lines);
        strip(
            WIDTH, PITCH, SMALLER(ROWS, rows - m), channels, weight + (size_t)(m0 + m) * LDA + c0 * TAPS,
            planes + at, out + (size_t)(m0 + m) * PIXELS + line * OW, &columns, c0 == 0, last,
            epilogue_at(epilogue, m0 + m, line * OW), at + WIDTH >= sums, NULL, NULL);
      }
  }
  follow_rows(out + (size_t)m0 * PIXELS + line * OW, rows, PIXELS, lines * OW);
}

// Epilogue operands that the kernel does not have are never read.
void conv2d_nchw(
    const float* restrict data, const float* restrict weight, const float* restrict bias,
    const float* restrict residual, const float* restrict scale, const float* restrict shift,
    KEPT_PARAMETER float* restrict out) {
#pragma omp parallel for collapse(3) schedule(dynamic)
  for (int n = 0; n < BATCH; ++n)
    for (int m = 0; m < CO; m += BLOCK)
      for (int y = 0; y < OH; y += LINES) {
        const EpilogueArgs epilogue = epilogue_of((EpilogueArgs){bias, residual, scale, shift, KEPT_OR_NULL}, n, CO);
        task(m, y, data + (size_t)n * CI * IH * IW, weight + WEIGHT_OF(n), epilogue, out + (size_t)n * CO * PIXELS);
      }
}
