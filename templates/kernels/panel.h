// Micro-kernel of matrix products: the sums of a register tile over a panel of b, of WIDTH columns and `depth` rows.
// Elements of a in a cache line.
#define LINE_FLOATS 16

// Prefetch of the rows that are packed next: FETCHED of them with every LINE_FLOATS steps, their pitch, and the floats of
// each, which need not begin with a cache line.
#ifndef FETCHED
#define FETCHED 0
#define FETCH_PITCH 0
#define FETCH_WIDE 0
#endif

// A panel in memory has STRETCH floats for each column. If it is COPIED by the first tile, that prefetches to L2 the
// floats at a distance of COMING from those of a step; else each tile fetches its rows from L2, LINE_FLOATS steps ahead.
#ifndef COPIED
#define COPIED 0
#define STRETCH 1
#endif
#if COPIED
#define FETCH_COMING(b, pitch) __builtin_prefetch((b) + COMING, 0, 2)
#else
#define FETCH_COMING(b, pitch) __builtin_prefetch((b) + LINE_FLOATS * (pitch))
#endif

// Multiplies by the first `wide` columns of a panel with a row pitch of `pitch`. With `ahead` the rows of a of the tile
// below are prefetched meanwhile, and with `next` rows of b from there on. Packed panels are padded to whole vectors; one
// may be packed to `copy`.
INLINED void multiply_panel(
    vec sum[ROWS][VECTORS], const int wide, const size_t pitch, const int rows, int depth,
    const float* restrict a, const float* restrict b, int ahead, const float* next, float* copy) {
  const int read = pitch == WIDTH ? VECTORS_OF(wide) * LANES : wide;
  HIDE(depth);
  for (int near = 0; near < depth; near += LINE_FLOATS) {
    if (ahead) prefetch_rows(rows, a + near);
    if (FETCHED && next)
#pragma GCC unroll 4
      for (int i = 0; i < FETCHED; ++i, next += FETCH_PITCH) {
        for (int j = 0; j < FETCH_WIDE; j += LINE_FLOATS) __builtin_prefetch(next + j, 0, 2);
        __builtin_prefetch(next + FETCH_WIDE - 1, 0, 2);
      }
    const int end = SMALLER(near + LINE_FLOATS, depth);
    for (int k = near; k < end; ++k) {
      // Rows of a panel that is not packed come from L2; the hardware prefetcher does not follow their stride.
      if (pitch != WIDTH)
        for (int j = 0; j < wide * STRETCH; j += LINE_FLOATS) FETCH_COMING(b + k * pitch + j, pitch);
      narrow_step(sum, read, 0, rows, a + k, b + k * pitch, copy ? copy + k * WIDTH : NULL);
    }
  }
}

// Columns of the last panel of an extent.
#define LAST_OF(extent) (((extent) - 1) % WIDTH + 1)

// The columns of a panel of `wide` columns.
INLINED Columns first_columns(const int wide) { return (Columns){1, 1, {{0, wide, 0}}}; }
