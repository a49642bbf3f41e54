// C[M, N] = A[M, K] B[K, N], row-major float32. A task owns BLOCK rows and PANELS panels of WIDTH
// columns; it packs DEPTH rows of its panels at a time, which then stay in cache for all its rows. What is
// near already may stay IN_PLACE.
#define LAST LAST_OF(N)

// Of each thread, and kept from call to call: fresh memory would be mapped anew page by page.
static _Thread_local float panels[IN_PLACE ? 1 : PANELS * DEPTH * WIDTH] __attribute__((aligned(64)));

// Copies row by row, as far as the panels go: rows of a wide matrix lie in pages of their own.
static void pack(float* restrict to, const float* restrict b, int depth, int columns) {
  for (int k = 0; k < depth; ++k, to += WIDTH, b += N) {
    int n = 0;
    for (; n + WIDTH <= columns; n += WIDTH)
      memcpy(to + (size_t)n * DEPTH, b + n, WIDTH * sizeof(float));
    if (n < columns)
      for (int j = 0; j < WIDTH; ++j) to[(size_t)n * DEPTH + j] = n + j < columns ? b[n + j] : 0.0f;
  }
}

// Computes a tile of whole panels from b where it lies, and leaves a copy for the tiles below.
INLINED void first_tile(
    int depth, const float* restrict a, const float* restrict b, float* restrict panel,
    float* restrict c, const Columns* columns, const int first) {
  vec sum[ROWS][VECTORS];
  fetch_result(ROWS, WIDTH, c, columns);
#pragma GCC unroll 16
  for (int i = 0; i < ROWS; ++i)
#pragma GCC unroll 8
    for (int v = 0; v < VECTORS; ++v) sum[i][v] = (vec){0};
  for (int k = 0; k < depth; ++k, b += N, panel += WIDTH) {
    step(sum, 0, ROWS, a + k, b);
#pragma GCC unroll 8
    for (int v = 0; v < VECTORS; ++v)
      *(vec*)(panel + v * LANES) = *(const vec*)(b + v * LANES);
  }
  put(sum, WIDTH, ROWS, c, columns, first, 0, (Rest){0});
}

// Where in b that begins what the tiles from row `m` on fetch: they share what is packed next, the rows
// below or else the panels beside, if there is any left.
static const float* next_of(int m, int k0, int first_column, const float* b) {
  const int below = k0 + DEPTH < K, row = m / ROWS * (DEPTH / NEAR) * FETCHED;
  const int rows = SMALLER(DEPTH, below ? K - k0 - DEPTH : K);
  const int column = below ? first_column : first_column + PANELS * WIDTH;
  if (row + DEPTH / NEAR * FETCHED > rows || column + PANELS * WIDTH > N) return NULL;
  return b + (size_t)((below ? k0 + DEPTH : 0) + row) * N + column;
}

// Adds what `depth` rows of a panel, `pitch` apart, give to `rows` rows of c, or writes it when these are the
// first. Of the panel `count` columns exist.
INLINED void panel_strip(
    int rows, int depth, const float* restrict a, const float* restrict panel, const size_t pitch,
    float* restrict c, int count, int k0, int ahead, const float* next) {
#define STRIP(wide)                                                                       \
  const Columns columns = first_columns(wide);                                            \
  strip(wide, pitch, rows, depth, a, panel, c, &columns, k0 == 0, k0 + DEPTH >= K,        \
        (Rest){0}, ahead, next)
  if (LAST < WIDTH && count < WIDTH) {
    STRIP(LAST);
  } else {
    STRIP(WIDTH);
  }
#undef STRIP
}

static void task(
    int m0, int first_column, const float* restrict a, const float* restrict b,
    float* restrict c) {
  const int rows = SMALLER(BLOCK, M - m0);
  const int end = SMALLER(first_column + PANELS * WIDTH, N);
  // Packing takes a pass of its own, or goes on while the first tiles are computed.
  const int in_passing = BY_TILES && rows >= ROWS;
  for (int k0 = 0; k0 < K; k0 += DEPTH) {
    const int depth = SMALLER(DEPTH, K - k0);
    const float* from = b + (size_t)k0 * N;
    if (!in_passing) pack(panels, from + first_column, depth, end - first_column);
    for (int m = 0; m < rows; m += ROWS) {
      const float* left = a + (size_t)(m0 + m) * K + k0;
      const float* next = next_of(m, k0, first_column, b);
      float* panel = panels;
      for (int n = first_column; n < end; n += WIDTH, panel += DEPTH * WIDTH) {
        float* to = c + (size_t)(m0 + m) * N + n;
        if (in_passing && m == 0 && n + WIDTH <= end) {
          const Columns columns = first_columns(WIDTH);
          first_tile(depth, left, from + n, panel, to, &columns, k0 == 0);
          continue;
        }
        if (in_passing && m == 0) pack(panel, from + n, depth, end - n);
        const float* beside = next ? next + n - first_column : NULL;
        panel_strip(
            SMALLER(ROWS, rows - m), depth, left, panel, WIDTH, to, N - n, k0, n + WIDTH >= end,
            beside);
      }
    }
  }
}

// Of what is near: each panel meets all rows at once.
static void task_in_place(
    int m0, int first_column, const float* restrict a, const float* restrict b,
    float* restrict c) {
  const int rows = SMALLER(BLOCK, M - m0);
  const int end = SMALLER(first_column + PANELS * WIDTH, N);
  for (int k0 = 0; k0 < K; k0 += DEPTH) {
    const int depth = SMALLER(DEPTH, K - k0);
    const float* left = a + (size_t)m0 * K + k0;
    for (int n = first_column; n < end; n += WIDTH) {
      const float* right = b + (size_t)k0 * N + n;
      float* to = c + (size_t)m0 * N + n;
      panel_strip(rows, depth, left, right, N, to, end - n, k0, 1, NULL);
    }
  }
}

void gemm_nn(const float* restrict a, const float* restrict b, float* restrict c) {
#pragma omp parallel for collapse(2) schedule(dynamic)
  for (int m = 0; m < M; m += BLOCK)
    for (int n = 0; n < N; n += PANELS * WIDTH)
      if (IN_PLACE) task_in_place(m, n, a, b, c);
      else task(m, n, a, b, c);
}
