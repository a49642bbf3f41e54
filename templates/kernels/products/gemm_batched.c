// BATCH products C[M, N] = A B, float32, each row-major; A is [M, K] or, with TRANSPOSE_A, [K, M], and B [K, N] or [N, K].
// A task owns a panel of WIDTH columns of one product: it packs DEPTH rows of the panel at a time, transposed if need be,
// and multiplies at most BLOCK rows of A by them.
#define A_ROW (TRANSPOSE_A ? 1 : K)
#define A_STEP (TRANSPOSE_A ? M : 1)
#define LAST ((N - 1) % WIDTH + 1)
// Parts of a sum, which are of one size but the last.
#define PARTS ((K + DEPTH - 1) / DEPTH)
#define PART ((K + PARTS - 1) / PARTS)

// Per thread, and kept between calls: the pages of new memory would be mapped again.
static _Thread_local float packed[PART * WIDTH] __attribute__((aligned(64)));

// Packs `depth` rows of a panel of `wide` columns from row `k` and column `n` on.
INLINED void pack(float* restrict to, const float* restrict b, const int wide, int depth, int k, int n) {
#if TRANSPOSE_B
  b += (size_t)n * K + k;
  for (int x = 0; x < wide; x += LANES) {
    int i = 0;
    if (x + LANES <= wide)
      for (; i + LANES <= depth; i += LANES)
        transpose_rows(to + (size_t)i * WIDTH + x, b + (size_t)x * K + i, K, LANES, LANES, 1.0f);
    for (; i < depth; i += LANES)
      transpose_rows(to + (size_t)i * WIDTH + x, b + (size_t)x * K + i, K, wide - x, depth - i, 1.0f);
  }
#else
  b += (size_t)k * N + n;
  for (int i = 0; i < depth; ++i)
#pragma GCC unroll 8
    for (int v = 0; v < VECTORS_OF(wide); ++v)
      *(vec*)(to + (size_t)i * WIDTH + v * LANES) = load_part(b + (size_t)i * N, v, wide);
#endif
}

INLINED void tile(
    const int wide, const int rows, int depth, const float* restrict a, const float* restrict b, float* restrict c,
    int first) {
  vec sum[ROWS][VECTORS];
#pragma GCC unroll 16
  for (int i = 0; i < rows; ++i)
#pragma GCC unroll 8
    for (int v = 0; v < VECTORS_OF(wide); ++v) sum[i][v] = (vec){0};
  HIDE(depth);
  for (int k = 0; k < depth; ++k)
    rank_one(sum, VECTORS_OF(wide) * LANES, rows, a + (size_t)k * A_STEP, A_ROW, b + (size_t)k * WIDTH);
#pragma GCC unroll 16
  for (int i = 0; i < rows; ++i)
#pragma GCC unroll 8
    for (int v = 0; v < VECTORS_OF(wide); ++v) {
      float* to = c + (size_t)i * N;
      if (!first) sum[i][v] += load_part(to, v, wide);
      store_part(to, v, wide, sum[i][v]);
    }
}

INLINED void panel(const int wide, int n, int rows, const float* a, const float* b, float* c) {
  float* to = packed;
  // GCC 12 would recompute the thread-local address in the innermost loop.
  __asm__("" : "+r"(to));
  for (int k = 0; k < K; k += PART) {
    const int depth = SMALLER(PART, K - k);
    pack(to, b, wide, depth, k, n);
    int m = 0;
#define TILE(height)                                                                                            \
  tile(wide, height, depth, a + (size_t)m * A_ROW + (size_t)k * A_STEP, to, c + (size_t)m * N + n, k == 0)
    for (; m + ROWS <= rows; m += ROWS) TILE(ROWS);
    if (ROWS_LEFT && m < rows) TILE(ROWS_LEFT);
#undef TILE
  }
}

static void whole_panel(int n, int rows, const float* a, const float* b, float* c) { panel(WIDTH, n, rows, a, b, c); }
static void last_panel(int n, int rows, const float* a, const float* b, float* c) { panel(LAST, n, rows, a, b, c); }

void gemm(const float* restrict a, const float* restrict b, float* restrict c) {
#pragma omp parallel for collapse(3) schedule(dynamic) if ((size_t)BATCH * M * N * K > 250000)
  for (int i = 0; i < BATCH; ++i)
    for (int part = DOWN - 1; part >= 0; --part)
      for (int n = 0; n < N; n += WIDTH) {
        const int m = ROW_OF(part);
        (LAST < WIDTH && n + WIDTH > N ? last_panel : whole_panel)(
            n, ROW_OF(part + 1) - m, a + (size_t)i * A_STRIDE + (size_t)m * A_ROW, b + (size_t)i * B_STRIDE,
            c + ((size_t)i * M + m) * N);
      }
}
