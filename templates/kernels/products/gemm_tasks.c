
// Distributes tiles of rows and columns to the threads and, where these are too few for all cores, ranges of K
// (split-K): the first of SPLIT_K partial results is written to c, the others to the matrices of `parts`, and they are
// added to c at the end. Extents are divided evenly, by whole tiles, panels and steps of K: BLOCK and PANELS are the
// largest parts.
#ifndef SCHEDULE
#define SCHEDULE dynamic
#endif
#ifndef STEPS
#define STEPS 16
#endif
#define COUNT(extent, each) (((extent) + (each)-1) / (each))
#define TILES COUNT(M, ROWS)
#define DOWN COUNT(TILES, BLOCK / ROWS)
#define ALL_PANELS COUNT(N, WIDTH)
#define ACROSS COUNT(ALL_PANELS, PANELS)
#define ALL_STEPS COUNT(K, STEPS)
#define DEEP SMALLER(SPLIT_K, ALL_STEPS)
// Elements of partial results that a core adds at a time.
#define ADDED 512
// The first element of a part of an extent, which has so many units.
#define START(part, parts, units, unit, extent) SMALLER((extent), (int)((size_t)(part) * (units) / (parts)) * (unit))

#if SPLIT_K > 1
void gemm_nn(
    const float* restrict a, const float* restrict b, float* restrict c, float* restrict parts) {
#else
void gemm_nn(const float* restrict a, const float* restrict b, float* restrict c) {
  float* const parts = c;
#endif
  // For the smallest products waking other threads takes longer than the work.
#pragma omp parallel if ((size_t)M * N * K > 250000)
  {
#pragma omp for collapse(3) schedule(SCHEDULE)
    for (int p = 0; p < DEEP; ++p)
      for (int i = 0; i < DOWN; ++i)
        for (int j = 0; j < ACROSS; ++j) {
          const int k = START(p, DEEP, ALL_STEPS, STEPS, K), k_end = START(p + 1, DEEP, ALL_STEPS, STEPS, K);
          const int m = START(i, DOWN, TILES, ROWS, M), m_end = START(i + 1, DOWN, TILES, ROWS, M);
          const int n = START(j, ACROSS, ALL_PANELS, WIDTH, N), n_end = START(j + 1, ACROSS, ALL_PANELS, WIDTH, N);
          float* to = p ? parts + (size_t)(p - 1) * M * N : c;
          task(m_end - m, k_end - k, n, n_end, a + (size_t)m * K + k, b + (size_t)k * N, to + (size_t)m * N);
        }
#if SPLIT_K > 1
    // Cores add runs of whole cache lines.
    const size_t all = (size_t)M * N;
#pragma omp for
    for (size_t from = 0; from < all; from += ADDED) {
      const size_t end = SMALLER(from + ADDED, all);
      for (int p = 1; p < DEEP; ++p)
        for (size_t i = from; i < end; ++i) c[i] += parts[(p - 1) * all + i];
    }
#endif
  }
}
