// Images of 8-bit integers, NCHW, in words of four bytes that are multiplied together: a vector of words is what one word
// of a filter meets at 16 neighbouring pixels. Words are four channels of a pixel, in planes [PHASES_Y][PHASES_X][ROWS_IN]
// [PITCH], or BY_COLUMNS, for few channels, four neighbours of a row: lines [IN_H][CI][QUARTERS][PITCH]. Both are padded.
typedef uint32_t packed_t __attribute__((may_alias));
#define PADDING ((uint8_t)DATA_ZERO * 0x01010101u ^ (uint32_t)FLIPPED)

INLINED void fill(packed_t* to, int count) {
  for (int x = 0; x < count; ++x) to[x] = PADDING;
}

// The bytes of 16 pixels, STRIDE_W apart, from one on.
INLINED bytes16 sixteen(const data_t* from) {
#if STRIDE_W == 1
  return *(const bytes16*)from;
#elif STRIDE_W == 2
  const bytes16 low = *(const bytes16*)from, high = *(const bytes16*)(from + 16);
  return SHUFFLE_BYTES(low, high, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
#else
  bytes16 made;
  for (int i = 0; i < LANES; ++i) made[i] = (uint8_t)from[i * STRIDE_W];
  return made;
#endif
}

// Writes the words of 16 pixels of four rows.
#define LOW_HALVES(a, b) SHUFFLE_BYTES(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
#define HIGH_HALVES(a, b) SHUFFLE_BYTES(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)
#define LOW_PAIRS(a, b) SHUFFLE_BYTES(a, b, 0, 1, 16, 17, 2, 3, 18, 19, 4, 5, 20, 21, 6, 7, 22, 23)
#define HIGH_PAIRS(a, b) SHUFFLE_BYTES(a, b, 8, 9, 24, 25, 10, 11, 26, 27, 12, 13, 28, 29, 14, 15, 30, 31)
INLINED void weave_sixteen(const data_t* const from[4], size_t at, packed_t* to) {
  const bytes16 a = sixteen(from[0] + at), b = sixteen(from[1] + at), c = sixteen(from[2] + at), d = sixteen(from[3] + at);
  const bytes16 ab = LOW_HALVES(a, b), cd = LOW_HALVES(c, d), ab_after = HIGH_HALVES(a, b), cd_after = HIGH_HALVES(c, d);
  const uint8_t flipped = (uint8_t)(FLIPPED & 255);
  bytes16* bytes = (bytes16*)to;
  bytes[0] = LOW_PAIRS(ab, cd) ^ flipped;
  bytes[1] = HIGH_PAIRS(ab, cd) ^ flipped;
  bytes[2] = LOW_PAIRS(ab_after, cd_after) ^ flipped;
  bytes[3] = HIGH_PAIRS(ab_after, cd_after) ^ flipped;
}

// Weaves four rows of pixels. Up to 15 words more may be written before `to_end`, and bytes be read before `from_end`: both
// are rows that follow.
INLINED void weave(
    const data_t* const from[4], const int count, packed_t* to, const packed_t* to_end, const data_t* from_end) {
  for (int x = 0; x < count; x += LANES) {
    const size_t at = (size_t)x * STRIDE_W;
    const int whole = to + x + LANES <= to_end && from[3] + at + LANES * STRIDE_W <= from_end;
    if (whole) {
      weave_sixteen(from, at, to + x);
      continue;
    }
    const int left = SMALLER(LANES, count - x);
    for (int i = 0; i < left; ++i) {
      uint32_t word = 0;
      for (int b = 0; b < 4; ++b) word |= (uint32_t)(uint8_t)from[b][at + i * STRIDE_W] << 8 * b;
      to[x + i] = word ^ (uint32_t)FLIPPED;
    }
  }
}

#if !BY_COLUMNS
// Arranges the plane of four channels from `c` on. Channels that do not exist are multiplied by 0.
static void arrange(const data_t* image, const data_t* end, int c, packed_t* to) {
  const packed_t* const to_end = to + PLANE;
  for (int phase = 0; phase < PHASES_Y * PHASES_X; ++phase) {
    const int py = phase / PHASES_X, px = phase % PHASES_X;
    const int begin = SMALLER(PITCH, (LARGER(PAD_LEFT - px, 0) + STRIDE_W - 1) / STRIDE_W);
    const int stop = LARGER(begin, SMALLER(PITCH, (W + PAD_LEFT - px + STRIDE_W - 1) / STRIDE_W));
    for (int row = 0; row < ROWS_IN; ++row, to += PITCH) {
      const int y = row * STRIDE_H + py - PAD_TOP;
      if (y < 0 || y >= H) {
        fill(to, PITCH);
        continue;
      }
      const data_t* from[4];
      for (int i = 0; i < 4; ++i)
        from[i] = image + ((size_t)SMALLER(c + i, CI - 1) * H + y) * W + begin * STRIDE_W + px - PAD_LEFT;
      fill(to, begin);
      weave(from, stop - begin, to + begin, to_end, end);
      fill(to + stop, PITCH - stop);
    }
  }
}
#else
// Arranges a line of a channel, of which `row` is nothing where the image is padded.
static void arrange(const data_t* row, packed_t* to) {
  data_t line[LINE_BYTES] __attribute__((aligned(64)));
  memset(line, DATA_ZERO, sizeof line);
  // Strides may leave out all of a row.
  if (row && IN_W > PAD_LEFT) memcpy(line + PAD_LEFT, row, SMALLER(W, IN_W - PAD_LEFT));
  for (int quarter = 0; quarter < QUARTERS; ++quarter, to += PITCH) {
    const data_t* from[4];
    for (int i = 0; i < 4; ++i) from[i] = line + (4 * quarter + i) * HOLE_W;
    weave(from, PITCH, to, to + PITCH, line + sizeof line);
  }
}
#endif

// Arranges all images, or groups of their channels.
static void arrange_all(const data_t* restrict data, packed_t* restrict to) {
  const data_t* end = data + (size_t)N * GROUPS * CI * H * W;
#pragma omp parallel for collapse(2) if ((size_t)N * GROUPS * CI * H * W > 65536)
  for (int image = 0; image < N * GROUPS; ++image)
#if !BY_COLUMNS
    for (int plane = 0; plane < (CI + 3) / 4; ++plane)
      arrange(data + (size_t)image * CI * H * W, end, 4 * plane, to + ((size_t)image * PLANES + plane) * PLANE);
#else
    for (int y = 0; y < IN_H; ++y)
      for (int c = 0; c < CI; ++c) {
        const int row = y - PAD_TOP;
        const data_t* from = row >= 0 && row < H ? data + (((size_t)image * CI + c) * H + row) * W : NULL;
        arrange(from, to + (((size_t)image * IN_H + y) * CI + c) * QUARTERS * PITCH);
      }
#endif
  (void)end;
}
