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

// Each tile prefetches a panel that is read in place, FETCH_STEPS ahead; the hardware prefetcher does not follow the
// stride of its rows. With FETCH_LAST also the last cache line of a row, which need not begin with one; with
// FETCH_NEXT the rows after the last are those of the panel beside it.
#ifndef FETCH_STEPS
#define FETCH_STEPS LINE_FLOATS
#define FETCH_LAST 0
#define FETCH_NEXT 0
#endif

// A panel in memory has STRETCH floats for each column. If it is COPIED by the first tile, that prefetches to L2 the
// floats at a distance of COMING from those of a step instead.
#ifndef COPIED
#define COPIED 0
#define COMING 0
#define STRETCH 1
#endif

// Prefetches for step `k` of `depth`, which reads the first `wide` columns of the row `b`.
INLINED void fetch_coming(
    const int wide, const ptrdiff_t pitch, const int k, const int depth, const float* b) {
  if (COPIED) {
    for (int j = 0; j < wide * STRETCH; j += LINE_FLOATS) __builtin_prefetch(b + COMING + j, 0, 2);
    return;
  }
  const int is_next = FETCH_NEXT && k + FETCH_STEPS >= depth;
  const float* row = b + (is_next ? WIDTH + (FETCH_STEPS - depth) * pitch : FETCH_STEPS * pitch);
  for (int j = 0; j < wide; j += LINE_FLOATS) __builtin_prefetch(row + j);
  if (FETCH_LAST) __builtin_prefetch(row + wide - 1);
}

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
      if (pitch != WIDTH) fetch_coming(wide, pitch, k, depth, b + k * pitch);
      narrow_step(sum, read, 0, rows, a + k, b + k * pitch, copy ? copy + k * WIDTH : NULL);
    }
  }
}

// Columns of the last panel of an extent.
#define LAST_OF(extent) (((extent) - 1) % WIDTH + 1)

// The columns of a panel of `wide` columns.
INLINED Columns first_columns(const int wide) { return (Columns){1, 1, {{0, wide, 0}}}; }
