// The sums of a tile over a packed panel of b: WIDTH columns, `depth` rows.
// Elements of a in a line of cache.
#define NEAR 16

// Rows of what will be packed next, of which so many are fetched with each NEAR steps; how far they are apart,
// and how many floats each has.
#ifndef FETCHED
#define FETCHED 0
#define FETCH_PITCH 0
#define FETCH_WIDE 0
#endif

// Of the first `wide` columns of a panel, rows of which lie `pitch` apart. Where `ahead` is set, what the tile
// below will need of a is fetched meanwhile, and where there is a `next`, rows from there on. What is packed
// may be read to the end of its last vector.
INLINED void sum_up(
    vec sum[ROWS][VECTORS], const int wide, const size_t pitch, const int rows, int depth,
    const float* restrict a, const float* restrict b, int ahead, const float* next) {
  const int read = pitch == WIDTH ? VECTORS_OF(wide) * LANES : wide;
  HIDE(depth);
  for (int near = 0; near < depth; near += NEAR) {
    if (ahead) fetch(rows, a + near);
    if (FETCHED && next)
#pragma GCC unroll 4
      for (int i = 0; i < FETCHED; ++i, next += FETCH_PITCH)
        for (int j = 0; j < FETCH_WIDE; j += NEAR) __builtin_prefetch(next + j, 0, 2);
    const int end = SMALLER(near + NEAR, depth);
    for (int k = near; k < end; ++k) {
      // Rows that lie apart come from the second cache, which a core does not do ahead by itself.
      if (pitch != WIDTH)
        for (int j = 0; j < wide; j += NEAR) __builtin_prefetch(b + (k + NEAR) * pitch + j);
      narrow_step(sum, read, 0, rows, a + k, b + k * pitch);
    }
  }
}

// Columns of the last panel of an extent.
#define LAST_OF(extent) (((extent) - 1) % WIDTH + 1)

// The columns of a panel that is `wide`.
INLINED Columns first_columns(const int wide) { return (Columns){1, 1, {{0, wide, 0}}}; }
