// C[M, N] = A[M, K] B[K, N], row-major float32, of few rows; b is not packed ahead. A task owns BLOCK rows and PANELS
// panels of WIDTH columns, whose sums stay in cache. It multiplies DEPTH rows of b at a time, panel by panel, and
// prefetches what it reads some steps later; the first tile of each panel packs it for the other tiles. A panel that
// would extend beyond the row starts earlier instead; columns that two panels share are written once.
#if N < WIDTH
#error "a panel is wider than the matrix"
#endif
#define HELD SMALLER(BLOCK, M)
#define FIRST(column) SMALLER(column, N - WIDTH)
// Floats of a cache line.
#define LINE 16
// Steps between the prefetch of a row of a panel and its use: about 2 KB of b, which comes from L3.
#define AHEAD SMALLER(DEPTH, LANES < 16 ? 32 : 12)

// The current elements of rows of a are copied, as rows may map to the same set of the cache.
typedef struct {
  float sums[PANELS][HELD][WIDTH];
  float copy[DEPTH][WIDTH];
  float rows[HELD][DEPTH];
} Scratch;

// Per thread, and kept between calls: the pages of new memory would be mapped again.
static _Thread_local Scratch scratch __attribute__((aligned(64)));

// Prefetches a row of a panel, which need not begin with a cache line. The hardware prefetcher does not follow rows of a
// few lines, of which the next ones belong to another panel.
INLINED void prefetch_panel_row(const float* b) {
  for (int j = 0; j < WIDTH; j += LINE) __builtin_prefetch(b + j);
  __builtin_prefetch(b + WIDTH - 1);
}

// Multiplies `depth` rows of b, with a pitch of `pitch`, and adds to a tile of sums. With `packs` they are packed
// into `packed`; with `next` its rows ahead are prefetched, of which those after the last are at `next`.
INLINED void add(
    const int rows, const size_t pitch, const int packs, int depth, const float* restrict a,
    const float* b, float* restrict to, float* packed, const float* next) {
  vec sum[ROWS][VECTORS];
#pragma GCC unroll 16
  for (int i = 0; i < rows; ++i)
#pragma GCC unroll 8
    for (int v = 0; v < VECTORS; ++v) sum[i][v] = *(const vec*)(to + i * WIDTH + v * LANES);
  for (int k = 0; k < depth; ++k, b += pitch, packed += WIDTH) {
    const int after = k + AHEAD - depth;
    if (next) prefetch_panel_row(after < 0 ? b + AHEAD * pitch : next + after * pitch);
    step(sum, 0, rows, a + k, b);
    if (packs)
#pragma GCC unroll 8
      for (int v = 0; v < VECTORS; ++v) *(vec*)(packed + v * LANES) = *(const vec*)(b + v * LANES);
  }
#pragma GCC unroll 16
  for (int i = 0; i < rows; ++i)
#pragma GCC unroll 8
    for (int v = 0; v < VECTORS; ++v) *(vec*)(to + i * WIDTH + v * LANES) = sum[i][v];
}

// Adds to `rows` rows of a panel: whole tiles, then the remainder.
static inline void add_all(
    Scratch* with, int rows, int depth, const float* b, float* restrict to, const float* next) {
  int i = 0;
  float* const copy = with->copy[0];
  if (rows < ROWS)
    for (int k = 0; k < depth; ++k) copy_floats(with->copy[k], b + (size_t)k * N, WIDTH);
  else
    add(ROWS, N, M > ROWS, depth, with->rows[0], b, to, copy, next), i = ROWS;
#define TILE(height) add(height, WIDTH, 0, depth, with->rows[i], copy, to + i * WIDTH, copy, NULL)
  for (; i + ROWS <= rows; i += ROWS) TILE(ROWS);
  if (ROWS_LEFT && i < rows) TILE(ROWS_LEFT);
#undef TILE
}

static void task(
    int rows, int k_end, int first, int end, const float* restrict a, const float* b,
    float* restrict c) {
  Scratch* const with = &scratch;
  memset(with->sums, 0, sizeof with->sums);
  for (int k = 0; k < k_end; k += DEPTH) {
    const int depth = SMALLER(DEPTH, k_end - k);
    for (int i = 0; i < rows; ++i) {
      const float* from = a + (size_t)i * K + k;
      if (depth == DEPTH) copy_floats(with->rows[i], from, DEPTH);
      else copy_floats(with->rows[i], from, depth);
    }
    const float* const right = b + (size_t)k * N;
    for (int n = first, p = 0; n < end; n += WIDTH, ++p) {
      const float* next = right + (n + WIDTH < end ? FIRST(n + WIDTH) : (size_t)DEPTH * N + FIRST(first));
      add_all(with, rows, depth, right + FIRST(n), with->sums[p][0], next);
    }
  }
  for (int i = 0; i < rows; ++i)
    for (int n = first, p = 0; n < end; n += WIDTH, ++p)
      copy_floats(c + (size_t)i * N + n, with->sums[p][i] + (n - FIRST(n)), SMALLER(WIDTH, N - n));
}
