// C[N] = A[K] B[K, N], row-major float32: a vector-matrix product, bound by memory bandwidth. A task owns PANELS panels
// of WIDTH columns, whose sums stay in cache, and reads DEPTH rows of b at a time: each is a stream of contiguous
// elements as long as the task is wide, which the hardware prefetches. A panel that would extend beyond the row starts
// earlier instead; columns that two panels share are written once.
#if N < WIDTH
#error "a panel is wider than the matrix"
#endif
#define FIRST(column) SMALLER(column, N - WIDTH)

// Per thread, and kept between calls: the pages of new memory would be mapped again.
static _Thread_local float sums[PANELS * WIDTH] __attribute__((aligned(64)));

// Multiplies `depth` rows of b and adds to the sums of the columns from `first` to `end`.
INLINED void add(const int depth, int first, int end, const float* a, const float* b) {
  float* to = sums;
  for (int n = first; n < end; n += WIDTH, to += WIDTH) {
    vec sum[VECTORS];
#pragma GCC unroll 8
    for (int v = 0; v < VECTORS; ++v) sum[v] = *(const vec*)(to + v * LANES);
#pragma GCC unroll 16
    for (int k = 0; k < depth; ++k)
#pragma GCC unroll 8
      for (int v = 0; v < VECTORS; ++v)
        sum[v] += a[k] * *(const vec*)(b + (size_t)k * N + FIRST(n) + v * LANES);
#pragma GCC unroll 8
    for (int v = 0; v < VECTORS; ++v) *(vec*)(to + v * LANES) = sum[v];
  }
}

static void task(
    int rows, int k_end, int first, int end, const float* a, const float* b, float* restrict c) {
  int k = 0;
  (void)rows;
  memset(sums, 0, sizeof sums);
  for (; k + DEPTH <= k_end; k += DEPTH) add(DEPTH, first, end, a + k, b + (size_t)k * N);
  for (; k < k_end; ++k) add(1, first, end, a + k, b + (size_t)k * N);
  for (int n = first, p = 0; n < end; n += WIDTH, ++p)
    copy_floats(c + n, sums + p * WIDTH + (n - FIRST(n)), SMALLER(WIDTH, N - n));
}
