
// Distributes tiles of rows and columns to the threads and, where these are too few for all cores, ranges of K
// (split-K): the first of SPLIT_K partial results is written to c, the others to the matrices of `parts`, and they are
// added to c at the end.
#ifndef SCHEDULE
#define SCHEDULE dynamic
#endif
#ifndef STEPS
#define STEPS 16
#endif
#define ALL_STEPS COUNT(K, STEPS)
#define DEEP SMALLER(SPLIT_K, ALL_STEPS)
// Elements of partial results that a core adds at a time.
#define ADDED 512

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
#if SPLIT_K > 1
#pragma omp for collapse(3) schedule(SCHEDULE)
#else
#pragma omp for collapse(3) schedule(SCHEDULE) nowait
#endif
    for (int p = DEEP - 1; p >= 0; --p)
      for (int i = DOWN - 1; i >= 0; --i)
        for (int j = ACROSS - 1; j >= 0; --j) {
          const int k = START(p, DEEP, ALL_STEPS, STEPS, K), k_end = START(p + 1, DEEP, ALL_STEPS, STEPS, K);
          const int m = ROW_OF(i);
          float* to = p ? parts + (size_t)(p - 1) * M * N : c;
          task(
              ROW_OF(i + 1) - m, k_end - k, COLUMN_OF(j), COLUMN_OF(j + 1), a + (size_t)m * K + k, b + (size_t)k * N,
              to + (size_t)m * N);
        }
#if SPLIT_K > 1
    // Cores add runs of whole cache lines.
    const size_t all = (size_t)M * N;
#pragma omp for nowait
    for (size_t from = 0; from < all; from += ADDED) {
      const size_t end = SMALLER(from + ADDED, all);
      for (int p = 1; p < DEEP; ++p)
        for (size_t i = from; i < end; ++i) c[i] += parts[(p - 1) * all + i];
    }
#endif
  }
}
