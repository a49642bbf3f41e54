// C[M, N] = A[M, K] B[K, N], row-major float32. A task owns BLOCK_M rows and PANELS panels of WIDTH
// columns; it packs DEPTH rows of its panels at a time, which then stay in cache for all its rows.

// Of each thread, and kept from call to call: fresh memory would be mapped anew page by page.
static _Thread_local float panels[PANELS * DEPTH * WIDTH] __attribute__((aligned(64)));

static void pack(float* restrict to, const float* restrict b, int k0, int depth, int n0) {
  const int columns = SMALLER(WIDTH, N - n0);
  for (int k = 0; k < depth; ++k, to += WIDTH) {
    const float* restrict from = b + (size_t)(k0 + k) * N + n0;
    if (columns == WIDTH) {
      memcpy(to, from, WIDTH * sizeof(float));
    } else {
      for (int j = 0; j < WIDTH; ++j) to[j] = j < columns ? from[j] : 0.0f;
    }
  }
}

static void task(
    int m0, int first_column, const float* restrict a, const float* restrict b,
    float* restrict c) {
  float* const packed = panels;
  const int rows = SMALLER(BLOCK_M, M - m0);
  const int end = SMALLER(first_column + PANELS * WIDTH, N);
  for (int k0 = 0; k0 < K; k0 += DEPTH) {
    const int depth = SMALLER(DEPTH, K - k0);
    float* panel = packed;
    for (int n = first_column; n < end; n += WIDTH, panel += DEPTH * WIDTH)
      pack(panel, b, k0, depth, n);
    for (int m = 0; m < rows; m += ROWS) {
      panel = packed;
      for (int n = first_column; n < end; n += WIDTH, panel += DEPTH * WIDTH)
        strip(
            SMALLER(ROWS, rows - m), depth, a + (size_t)(m0 + m) * K + k0, panel,
            c + (size_t)(m0 + m) * N + n, SMALLER(WIDTH, N - n), k0 == 0, k0 + DEPTH >= K, (Rest){0});
    }
  }
}

void gemm_nn(const float* restrict a, const float* restrict b, float* restrict c) {
#pragma omp parallel for collapse(2) schedule(dynamic)
  for (int m = 0; m < M; m += BLOCK_M)
    for (int n = 0; n < N; n += PANELS * WIDTH) task(m, n, a, b, c);
}
