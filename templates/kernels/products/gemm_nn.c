// C[M, N] = A[M, K] B[K, N], row-major float32, blocked for caches (Goto and van de Geijn, "Anatomy of High-Performance
// Matrix Multiplication", 2008). A task owns BLOCK rows and PANELS panels of WIDTH columns. It packs DEPTH rows of a
// GROUP of panels at a time, which then stay in cache for all its rows: a group of one panel in L1, a larger one in L2.
// With IN_PLACE b is not packed. With COPIES_ROWS its rows of a are copied, as many columns at a time, and stay in L2.
#define LAST LAST_OF(N)
// Tiles that prefetch the rows of the next group, the last ones of all: what is prefetched early is evicted until then.
#define SHARES (FETCHED ? (LINE_FLOATS + FETCHED - 1) / FETCHED : 0)

// Per thread, and kept between calls: the pages of new memory would be mapped again.
static _Thread_local float panels[IN_PLACE ? 1 : GROUP * DEPTH * WIDTH] __attribute__((aligned(64)));
// The rows of a of a task, DEPTH columns at a time, if they are copied.
static _Thread_local float copied[COPIES_ROWS ? SMALLER(BLOCK, M) * LDA : 1] __attribute__((aligned(64)));

// Packs the first `wide` columns of a panel, padded with zeros to whole vectors.
INLINED void pack_columns(float* restrict to, const float* restrict b, const int wide, int depth) {
  for (int k = 0; k < depth; ++k, to += WIDTH, b += N)
#pragma GCC unroll 8
    for (int v = 0; v < VECTORS_OF(wide); ++v) *(vec*)(to + v * LANES) = load_part(b, v, wide);
}

static void pack(float* restrict to, const float* restrict b, int depth, int columns) {
  if (LAST < WIDTH && columns < WIDTH) pack_columns(to, b, LAST, depth);
  else pack_columns(to, b, WIDTH, depth);
}

// Computes the first tile of a whole panel directly from b, whose rows it prefetches unless the tiles before have done so,
// and packs the panel for the tiles below meanwhile.
INLINED void first_tile(
    int depth, const float* restrict a, const float* restrict b, float* restrict panel,
    float* restrict c, const Columns* columns, const int first) {
  vec sum[ROWS][VECTORS];
  prefetch_result(ROWS, WIDTH, c, columns);
#pragma GCC unroll 16
  for (int i = 0; i < ROWS; ++i)
#pragma GCC unroll 8
    for (int v = 0; v < VECTORS; ++v) sum[i][v] = (vec){0};
  for (int k = 0; k < depth; ++k, b += N, panel += WIDTH) {
    if (!FETCHED) fetch_coming(WIDTH, N, k, depth, b);
    step(sum, 0, ROWS, a + k, b);
#pragma GCC unroll 8
    for (int v = 0; v < VECTORS; ++v)
      *(vec*)(panel + v * LANES) = *(const vec*)(b + v * LANES);
  }
  store_tile(sum, WIDTH, ROWS, c, columns, first, 0, (EpilogueArgs){0});
}

// Returns the rows of b that the tile of row `m` prefetches, or NULL: its share of the group that is packed after that
// of column `n`, which is the next one along N, or else the first one of the next rows.
static const float* next_of(
    int m, int rows, int k0, int k_end, int n, int first_column, int end, const float* b) {
  const int begin = LARGER(BY_TILES, (rows + ROWS - 1) / ROWS - SHARES), tile = m / ROWS - begin;
  const int row = tile * (DEPTH / LINE_FLOATS) * FETCHED;
  if (tile < 0) return NULL;
  if (n + GROUP * WIDTH < end) n += GROUP * WIDTH;
  else n = first_column, k0 += DEPTH;
  if (row + DEPTH / LINE_FLOATS * FETCHED > SMALLER(DEPTH, k_end - k0) || n + GROUP * WIDTH > N) return NULL;
  return b + (size_t)(k0 + row) * N + n;
}

// Multiplies `depth` rows of a panel, with a pitch of `pitch`, and adds to `rows` rows of c, or writes them if these
// are the `first`. The first `count` columns of the panel exist.
INLINED void panel_strip(
    int rows, int depth, const float* restrict a, const float* restrict panel, const size_t pitch,
    float* restrict c, int count, int first, int last, int ahead, const float* next) {
#define STRIP(wide)                                                                       \
  const Columns columns = first_columns(wide);                                            \
  strip(                                                                                  \
      wide, pitch, rows, depth, a, panel, c, &columns, first, last, (EpilogueArgs){0}, ahead, next,  \
      NULL)
  if (LAST < WIDTH && count < WIDTH) {
    STRIP(LAST);
  } else {
    STRIP(WIDTH);
  }
#undef STRIP
}

// Multiplies `rows` rows of a, from column `k0` on, by a group of panels: from column `first` to `end`, and from row `k0`
// on, up to `k_end`.
static void group(
    int rows, int k0, int k_end, int first, int end, const float* restrict a, const float* restrict b,
    float* restrict c, int first_column, int last_column) {
  const int depth = SMALLER(DEPTH, k_end - k0);
  for (int m = 0; m < rows; m += ROWS) {
    const float* left = a + (size_t)m * LDA;
    const float* next = FETCHED ? next_of(m, rows, k0, k_end, first, first_column, last_column, b) : NULL;
    float* panel = panels;
    for (int n = first; n < end; n += WIDTH, panel += DEPTH * WIDTH) {
      const float* right = b + (size_t)k0 * N + n;
      float* to = c + (size_t)m * N + n;
      // With BY_TILES a panel is packed while its first tile is computed, else before it.
      if (BY_TILES && m == 0 && rows >= ROWS && n + WIDTH <= end) {
        const Columns columns = first_columns(WIDTH);
        first_tile(depth, left, right, panel, to, &columns, k0 == 0);
        continue;
      }
      if (!IN_PLACE && m == 0) pack(panel, right, depth, end - n);
      panel_strip(
          SMALLER(ROWS, rows - m), depth, left, IN_PLACE ? right : panel, IN_PLACE ? N : WIDTH, to,
          end - n, k0 == 0, k0 + DEPTH >= k_end, n + WIDTH >= end, next ? next + n - first : NULL);
    }
  }
}

// Copies the first `depth` columns of `rows` rows of a. The hardware prefetcher follows no rows as short as these.
static void copy_rows(int rows, int depth, const float* restrict a) {
  for (int i = 0; i < rows; ++i, a += K) {
    for (int j = 0; j < depth; j += LINE_FLOATS) __builtin_prefetch(a + 2 * (size_t)K + j);
    copy_floats(copied + (size_t)i * LDA, a, depth);
  }
}

// Multiplies `rows` rows of a by the columns of b from `first` to `end`, up to `k_end` along K.
static void task(
    int rows, int k_end, int first, int end, const float* restrict a, const float* restrict b,
    float* restrict c) {
  for (int k = 0; k < k_end; k += DEPTH) {
    if (COPIES_ROWS) copy_rows(rows, SMALLER(DEPTH, k_end - k), a + k);
    const float* left = COPIES_ROWS ? copied : a + k;
    for (int n = first; n < end; n += GROUP * WIDTH)
      group(rows, k, k_end, n, SMALLER(n + GROUP * WIDTH, end), left, b, c, first, end);
  }
}
