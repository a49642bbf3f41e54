// C[M, N] = A[M, K] B[K, N], row-major float32. A task owns BLOCK rows and PANELS panels of WIDTH
// columns; it packs DEPTH rows of its panels at a time, which then stay in cache for all its rows.

// Of each thread, and kept from call to call: fresh memory would be mapped anew page by page.
static _Thread_local float panels[PANELS * DEPTH * WIDTH] __attribute__((aligned(64)));

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
  fetch_result(ROWS, c, columns);
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
  put(sum, ROWS, c, columns, first, 0, (Rest){0});
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
        const Columns columns = first_columns(N - n);
        float* to = c + (size_t)(m0 + m) * N + n;
        if (in_passing && m == 0 && columns.is_whole) {
          first_tile(depth, left, from + n, panel, to, &columns, k0 == 0);
          continue;
        }
        if (in_passing && m == 0) pack(panel, from + n, depth, end - n);
        strip(
            SMALLER(ROWS, rows - m), depth, left, panel, to, &columns, k0 == 0, k0 + DEPTH >= K,
            (Rest){0}, n + WIDTH >= end, next ? next + n - first_column : NULL);
      }
    }
  }
}

void gemm_nn(const float* restrict a, const float* restrict b, float* restrict c) {
#pragma omp parallel for collapse(2) schedule(dynamic)
  for (int m = 0; m < M; m += BLOCK)
    for (int n = 0; n < N; n += PANELS * WIDTH) task(m, n, a, b, c);
}
