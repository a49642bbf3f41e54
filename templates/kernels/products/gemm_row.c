// C[N] = A[K] B[K, N], row-major float32: a vector-matrix product, bound by memory bandwidth. A task owns PANELS panels
// of WIDTH columns, whose sums stay in cache, and reads DEPTH rows of b at a time: each is a stream of contiguous
// elements as long as the task is wide, which the hardware prefetches. A core waits for as many cache lines at a time as
// it has places for loads, so it loads little else: elements of a stay in registers. The last panel of a row that is no
// multiple of WIDTH starts earlier instead; columns that two panels share are written once.
#if N < WIDTH
#error "a panel is wider than the matrix"
#endif
// Each core reads the same part of b in all calls, of which its caches may hold some.
#define SCHEDULE static
#define STEPS DEPTH
#define FIRST(column) SMALLER(column, N - WIDTH)

// Per thread, and kept between calls: the pages of new memory would be mapped again.
static _Thread_local float sums[PANELS * WIDTH] __attribute__((aligned(64)));

// Adds the products of `depth` rows of b, from some column on, to the sums of a panel.
INLINED void add_panel(const int depth, const vec* a, const float* b, float* to) {
  vec sum[VECTORS];
#pragma GCC unroll 8
  for (int v = 0; v < VECTORS; ++v) sum[v] = *(const vec*)(to + v * LANES);
#pragma GCC unroll 16
  for (int k = 0; k < depth; ++k)
#pragma GCC unroll 8
    for (int v = 0; v < VECTORS; ++v) sum[v] += a[k] * *(const vec*)(b + (size_t)k * N + v * LANES);
#pragma GCC unroll 8
  for (int v = 0; v < VECTORS; ++v) *(vec*)(to + v * LANES) = sum[v];
}

// Multiplies `depth` rows of b and adds to the sums, from `to` on, of the columns from `first` to `end`.
INLINED void add(const int depth, int first, int end, const float* a, const float* b, float* to) {
  vec each[DEPTH];
  int n = first;
#pragma GCC unroll 16
  for (int k = 0; k < depth; ++k) each[k] = (vec){0} + a[k];
  for (; n + WIDTH <= end; n += WIDTH, to += WIDTH) add_panel(depth, each, b + n, to);
  if (n < end) add_panel(depth, each, b + FIRST(n), to);
}

static void task(
    int rows, int k_end, int first, int end, const float* a, const float* b, float* restrict c) {
  int k = 0;
  float* to = sums;
  (void)rows;
  // The address of what a thread owns is asked of a function, which clobbers vector registers: once, not for each row.
  HIDE(to);
  memset(to, 0, sizeof sums);
  for (; k + DEPTH <= k_end; k += DEPTH) add(DEPTH, first, end, a + k, b + (size_t)k * N, to);
  for (; DEPTH > 4 && k + 4 <= k_end; k += 4) add(4, first, end, a + k, b + (size_t)k * N, to);
  for (; k < k_end; ++k) add(1, first, end, a + k, b + (size_t)k * N, to);
  for (int n = first, p = 0; n < end; n += WIDTH, ++p)
    copy_floats(c + n, to + p * WIDTH + (n - FIRST(n)), SMALLER(WIDTH, N - n));
}
