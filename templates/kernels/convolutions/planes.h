// The sums of a tile over planes of an image, one line of WIDTH sums long: `channels` times what the
// taps of a filter meet. Nothing is packed, so there are neither rows that lie `pitch` apart nor a
// `next`. Each tap lies at its own distance from the first, the same for all sums.
#define TAPS (KH * KW)
// Lines of a plane are so far apart that what taps meet beyond the end of one is not yet the next.
#define PITCH (OW + (KW - 1) / SX)
// Places within a stride that taps meet; each has a plane of its own, in which neighbours are near.
#define PHASES_Y SMALLER(KH, SY)
#define PHASES_X SMALLER(KW, SX)
#define PLANE ((LINES + (KH - 1) / SY) * PITCH)
#define CHANNEL (PHASES_Y * PHASES_X * PLANE)

INLINED void sum_up(
    vec sum[ROWS][VECTORS], const int wide, const size_t pitch, const int rows, int channels,
    const float* restrict a, const float* restrict b, int ahead, const float* next) {
  (void)pitch, (void)next;
  HIDE(channels);
  for (int c = 0; c < channels; ++c, a += TAPS, b += CHANNEL) {
    if (ahead) fetch(rows, a);
#pragma GCC unroll 4
    for (int i = 0; i < KH; ++i)
#pragma GCC unroll 8
      for (int j = 0; j < KW; ++j) {
        const int phase = i % SY * PHASES_X + j % SX;
        narrow_step(
            sum, wide, 0, rows, a + i * KW + j, b + phase * PLANE + i / SY * PITCH + j / SX);
      }
  }
}
