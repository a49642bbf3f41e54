// C[M, N] = A[M, K] W, row-major float32, where W was packed once: blocks of LANES columns, the last one padded with zeros,
// each of which has its K rows one after another. A tile reads a stream for each of its vectors. A task owns
// at most BLOCK rows and PANELS panels of WIDTH columns. DEPTH rows of a panel stay in L1 while all rows are multiplied by
// them, and tiles prefetch those of the next panel meanwhile.
#define LAST LAST_OF(N)
// Parts of a sum, which are of one size but the last: a multiple of what a tile prefetches together.
#define PARTS ((K + DEPTH - 1) / DEPTH)
#define PART (((K + PARTS - 1) / PARTS + LINE_FLOATS - 1) / LINE_FLOATS * LINE_FLOATS)
#define STREAM ((size_t)K * LANES)

// Where the block of row k is that begins with column n.
#define PLACE(k, n) ((size_t)((n) / LANES) * STREAM + (size_t)(k) * LANES)

// The bias of columns, and a residual as large as c, from the first row and column of a tile on.
typedef struct {
  const float *bias, *residual;
} Following;

INLINED void packed_step(
    vec sum[ROWS][VECTORS], const int vectors, const int rows, const float* restrict a, const float* restrict b) {
  __asm__ volatile("" ::: "memory");
  vec right[VECTORS];
#pragma GCC unroll 8
  for (int v = 0; v < vectors; ++v) right[v] = *(const vec*)(b + PLACE(0, v * LANES));
#pragma GCC unroll 8
  for (int v = 0; v < vectors; ++v) keep_loaded(&right[v]);
#pragma GCC unroll 16
  for (int i = 0; i < rows; ++i) {
    if (READS_ELEMENT && vectors == 1) {
      add_product_of(&sum[i][0], a + (size_t)i * LDA, right[0]);
      continue;
    }
    const vec left = a[(size_t)i * LDA] - (vec){0};
#pragma GCC unroll 8
    for (int v = 0; v < vectors; ++v) add_product(&sum[i][v], right[v], left);
  }
}

// Multiplies `rows` rows of a by `depth` rows of a panel, of which `wide` columns exist. `next` is what this tile
// prefetches of the next panel, or NULL.
INLINED void tile(
    const int wide, const int rows, int depth, const float* restrict a, const float* restrict b, float* restrict c,
    int first, int last, const Following following, int ahead, const float* next) {
  vec sum[ROWS][VECTORS];
  const Columns columns = first_columns(wide);
  prefetch_result(rows, wide, c, &columns);
#pragma GCC unroll 16
  for (int i = 0; i < rows; ++i)
#pragma GCC unroll 8
    for (int v = 0; v < VECTORS_OF(wide); ++v) sum[i][v] = (vec){0};
  HIDE(depth);
  for (int near = 0; near < depth; near += LINE_FLOATS) {
    if (ahead) prefetch_rows(rows, a + near);
    if (next)
#pragma GCC unroll 16
      for (int i = 0; i < FETCHED; ++i, next += LINE_FLOATS)
#pragma GCC unroll 4
        for (int s = 0; s < VECTORS; ++s) __builtin_prefetch(next + s * STREAM, 0, 2);
    const int end = SMALLER(near + LINE_FLOATS, depth);
    for (int k = near; k < end; ++k) packed_step(sum, VECTORS_OF(wide), rows, a + k, b + PLACE(k, 0));
  }
#pragma GCC unroll 16
  for (int i = 0; i < rows; ++i)
#pragma GCC unroll 8
    for (int v = 0; v < VECTORS_OF(wide); ++v) {
      float* to = c + (size_t)i * N;
      vec all = sum[i][v];
      if (!first) all += load_part(to, v, wide);
      if (last && BIAS) all += load_part(following.bias, v, wide);
      if (last && RESIDUAL) all += load_part(following.residual + (size_t)i * N, v, wide);
      if (last && RELU) all = (vec)((bits)all & ~(all < 0.0f));
      store_part(to, v, wide, all);
    }
}

// Multiplies all rows of a task by DEPTH rows of a panel; `next` is the same part of the next one, or NULL.
INLINED void panel(
    const int wide, int rows, int depth, const float* restrict a, const float* restrict b, float* restrict c, int first,
    int last, const Following following, int ahead, const float* next) {
  int m = 0;
#define TILE(height)                                                                                                \
  tile(                                                                                                             \
      wide, height, depth, a + (size_t)m * LDA, b, c + (size_t)m * N, first, last,                                   \
      (Following){following.bias, following.residual + RESIDUAL * (size_t)m * N}, ahead,                            \
      next && (m / ROWS + 1) * FETCHED <= LANES                                                                      \
          ? next + (size_t)m / ROWS * FETCHED * PART                                                                 \
          : NULL)
  for (; m + ROWS <= rows; m += ROWS) TILE(ROWS);
  if (ROWS_LEFT && m < rows) TILE(ROWS_LEFT);
#undef TILE
}

// Multiplies a part of a sum by a panel; that of column `then` from row `below` on is next.
INLINED void part_of(
    int k, int n, int below, int then, int rows, int ahead, const float* restrict a, const float* restrict w,
    float* restrict c, const Following following) {
  const int depth = SMALLER(PART, K - k), first = k == 0, last = k + PART >= K;
  const float* next = FETCHED && below + PART <= K && then + WIDTH <= N ? w + PLACE(below, then) : NULL;
  const Following here = {following.bias + BIAS * n, following.residual + RESIDUAL * n};
#define PANEL(wide) panel(wide, rows, depth, a + k, w + PLACE(k, n), c + n, first, last, here, ahead, next)
  if (LAST < WIDTH && n + WIDTH > N) PANEL(LAST);
  else PANEL(WIDTH);
#undef PANEL
}

static void task(
    int rows, int n0, int end, const float* restrict a, const float* restrict w, float* restrict c,
    const Following following) {
#if BY_PANELS
  for (int n = n0; n < end; n += WIDTH)
    for (int k = 0; k < K; k += PART) {
      const int is_end = k + PART >= K;
      part_of(k, n, is_end ? 0 : k + PART, is_end ? n + WIDTH : n, rows, 1, a, w, c, following);
    }
#else
  for (int k = 0; k < K; k += PART)
    for (int n = n0; n < end; n += WIDTH) {
      const int is_end = n + WIDTH >= end;
      part_of(k, n, is_end ? k + PART : k, is_end ? n0 : n + WIDTH, rows, is_end, a, w, c, following);
    }
#endif
}

void gemm_packed(
    const float* restrict a, const float* restrict w, const float* restrict bias, const float* restrict residual,
    float* restrict c) {
#pragma omp parallel for collapse(2) schedule(dynamic) if ((size_t)M * N * K > 250000)
  for (int i = DOWN - 1; i >= 0; --i)
    for (int j = ACROSS - 1; j >= 0; --j) {
      const int m = ROW_OF(i);
      task(
          ROW_OF(i + 1) - m, COLUMN_OF(j), COLUMN_OF(j + 1), a + (size_t)m * LDA, w, c + (size_t)m * N,
          (Following){bias, residual + RESIDUAL * (size_t)m * N});
    }
}
