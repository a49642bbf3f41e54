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

static void task(
    int m0, int first_column, const float* restrict a, const float* restrict b,
    float* restrict c) {
  const int rows = SMALLER(BLOCK, M - m0);
  const int end = SMALLER(first_column + PANELS * WIDTH, N);
  for (int k0 = 0; k0 < K; k0 += DEPTH) {
    const int depth = SMALLER(DEPTH, K - k0);
    pack(panels, b + (size_t)k0 * N + first_column, depth, end - first_column);
    for (int m = 0; m < rows; m += ROWS) {
      const float* panel = panels;
      for (int n = first_column; n < end; n += WIDTH, panel += DEPTH * WIDTH) {
        const Columns columns = first_columns(N - n);
        strip(
            SMALLER(ROWS, rows - m), depth, a + (size_t)(m0 + m) * K + k0, panel,
            c + (size_t)(m0 + m) * N + n, &columns, k0 == 0, k0 + DEPTH >= K, (Rest){0},
            n + WIDTH >= end);
      }
    }
  }
}

void gemm_nn(const float* restrict a, const float* restrict b, float* restrict c) {
#pragma omp parallel for collapse(2) schedule(dynamic)
  for (int m = 0; m < M; m += BLOCK)
    for (int n = 0; n < N; n += PANELS * WIDTH) task(m, n, a, b, c);
}
