// C[M, N] = A[M, K] B[K, N], row-major float32, of few rows, where loading b from memory, once, takes about as long as
// the arithmetic. A task owns BLOCK rows and PANELS panels of WIDTH columns, whose sums stay in cache. While it
// multiplies DEPTH rows of b, it packs the next DEPTH rows into the other of two buffers, in their memory order, SIDE
// rows at a time: the hardware prefetchers follow a few long streams faster than one, or than many short ones. A panel
// that would extend beyond the row starts earlier instead; columns that two panels share are written once.
#if N < WIDTH
#error "a panel is wider than the matrix"
#endif
#define HELD SMALLER(BLOCK, M)
#define FIRST(column) SMALLER(column, N - WIDTH)
// Floats of a cache line.
#define LINE 16
#define STREAMS 4
// Floats of a panel, padded so that panels do not all start in the same set of the cache.
#define PANEL (DEPTH * WIDTH + 3 * LINE)

typedef struct {
  float sums[PANELS][HELD][WIDTH];
  float panels[2][PANELS][PANEL];
  float rows[HELD][DEPTH];
} Scratch;

// Per thread, and kept between calls: the pages of new memory would be mapped again.
static _Thread_local Scratch scratch __attribute__((aligned(64)));

// Source and destination of the next copy of b: one of `side` rows, one of `panels`.
typedef struct {
  const float* rows;
  float* to;
  int row, streams, panel, panels, last;
} Cursor;

// Copies WIDTH elements of a row, and prefetches those SIDE rows below.
INLINED void copy_one(Cursor* at) {
  const float* from = at->rows + (size_t)at->row * N + SMALLER(at->panel * WIDTH, at->last);
  float* to = at->to + (size_t)at->panel * PANEL + at->row * WIDTH;
  for (int j = 0; j < WIDTH; j += LINE) __builtin_prefetch(from + (size_t)STREAMS * N + j, 0, 2);
#pragma GCC unroll 8
  for (int v = 0; v < VECTORS; ++v) *(vec*)(to + v * LANES) = *(const vec*)(from + v * LANES);
  if (++at->row < at->streams) return;
  at->row = 0;
  if (++at->panel < at->panels) return;
  at->panel = 0;
  at->rows += (size_t)at->streams * N;
  at->to += at->streams * WIDTH;
}

// Multiplies `depth` rows of a panel and adds to a tile of sums; makes a copy in each of the first `copies` steps.
INLINED void add(
    const int rows, int depth, int copies, const float* restrict a, const float* restrict b,
    float* restrict to, Cursor* next) {
  vec sum[ROWS][VECTORS];
#pragma GCC unroll 16
  for (int i = 0; i < rows; ++i)
#pragma GCC unroll 8
    for (int v = 0; v < VECTORS; ++v) sum[i][v] = *(const vec*)(to + i * WIDTH + v * LANES);
  Cursor at = *next;
  int k = 0;
  for (; k < copies; ++k) {
    copy_one(&at);
    step(sum, 0, rows, a + k, b + (size_t)k * WIDTH);
  }
  *next = at;
  for (; k < depth; ++k) step(sum, 0, rows, a + k, b + (size_t)k * WIDTH);
#pragma GCC unroll 16
  for (int i = 0; i < rows; ++i)
#pragma GCC unroll 8
    for (int v = 0; v < VECTORS; ++v) *(vec*)(to + i * WIDTH + v * LANES) = sum[i][v];
}

// Adds to `rows` rows of a panel: whole tiles, then the remainder. Together they make `copies`.
static inline void add_all(
    Scratch* with, int rows, int depth, int copies, const float* b, float* restrict to,
    Cursor* next) {
  int i = 0;
#define TILE(height)                                                                     \
  add(height, depth, copies * (i + height) / rows - copies * i / rows, with->rows[i], b, \
      to + i * WIDTH, next)
  for (; i + ROWS <= rows; i += ROWS) TILE(ROWS);
  if (ROWS_LEFT && i < rows) TILE(ROWS_LEFT);
#undef TILE
}

static void task(
    int rows, int k_end, int first, int end, const float* restrict a, const float* b,
    float* restrict c) {
  Scratch* const with = &scratch;
  const int panels = (end - first + WIDTH - 1) / WIDTH, above = SMALLER(DEPTH, k_end);
  memset(with->sums, 0, sizeof with->sums);
  Cursor next = {
      .rows = b + first, .to = with->panels[0][0], .streams = above % STREAMS ? 1 : STREAMS,
      .panels = panels, .last = FIRST(first + (panels - 1) * WIDTH) - first};
  for (int n = above * panels; n > 0; --n) copy_one(&next);
  for (int k = 0, buffer = 0; k < k_end; k += DEPTH, buffer ^= 1) {
    const int depth = SMALLER(DEPTH, k_end - k), below = SMALLER(DEPTH, k_end - k - depth);
    next.to = with->panels[buffer ^ 1][0];
    next.streams = below % STREAMS ? 1 : STREAMS;
    for (int i = 0; i < rows; ++i)
      copy_floats(with->rows[i], a + (size_t)i * K + k, depth);
    for (int p = 0; p < panels; ++p)
      add_all(with, rows, depth, below, with->panels[buffer][p], with->sums[p][0], &next);
  }
  for (int i = 0; i < rows; ++i)
    for (int n = first, p = 0; n < end; n += WIDTH, ++p)
      copy_floats(c + (size_t)i * N + n, with->sums[p][i] + (n - FIRST(n)), SMALLER(WIDTH, N - n));
}
