// The sums of a tile of one row of WIDTH sums over planes of an image. Nothing is packed, so `pitch` and
// `next` are unused. Each tap has an offset of its own, the same for all sums.
#define TAPS (KH * KW)
// Rows and columns that a filter spans.
#define REACH_Y ((KH - 1) * DY + 1)
#define REACH_X ((KW - 1) * DX + 1)
// Row pitch of a plane: taps beyond the end of a row do not read the next.
#define PITCH (OW + (REACH_X - 1) / SX)
// Phases of the stride that taps read; each has a plane of its own, in which neighbours are contiguous.
#define PHASES_Y SMALLER(REACH_Y, SY)
#define PHASES_X SMALLER(REACH_X, SX)
#define PLANE ((LINES + (REACH_Y - 1) / SY) * PITCH)
#define CHANNEL (PHASES_Y * PHASES_X * PLANE)

INLINED void multiply_panel(
    vec sum[ROWS][VECTORS], const int wide, const size_t pitch, const int rows, int channels,
    const float* restrict a, const float* restrict b, int ahead, const float* next, float* copy) {
  (void)pitch, (void)next, (void)copy;
  HIDE(channels);
  for (int c = 0; c < channels; ++c, a += TAPS, b += CHANNEL) {
    if (ahead) prefetch_rows(rows, a);
#pragma GCC unroll 4
    for (int i = 0; i < KH; ++i)
#pragma GCC unroll 8
      for (int j = 0; j < KW; ++j) {
        const int phase = i * DY % SY * PHASES_X + j * DX % SX;
        narrow_step(
            sum, wide, 0, rows, a + i * KW + j, b + phase * PLANE + i * DY / SY * PITCH + j * DX / SX, NULL);
      }
  }
}
