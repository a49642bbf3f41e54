
// Distributes tiles of rows and columns to the threads and, where these are too few for all cores, ranges of K
// (split-K): the first of SPLIT_K partial results is written to c, the others to the matrices of `parts`, and they are
// added to c at the end.
#ifndef SCHEDULE
#define SCHEDULE dynamic
#endif
#define PART (SPLIT_K > 1 ? ((K + SPLIT_K - 1) / SPLIT_K + 15) / 16 * 16 : K)

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
    for (int k = 0; k < K; k += PART)
      for (int m = 0; m < M; m += BLOCK)
        for (int n = 0; n < N; n += PANELS * WIDTH) {
          float* to = k ? parts + (size_t)(k / PART - 1) * M * N : c;
          task(
              SMALLER(BLOCK, M - m), SMALLER(PART, K - k), n, SMALLER(n + PANELS * WIDTH, N),
              a + (size_t)m * K + k, b + (size_t)k * N, to + (size_t)m * N);
        }
#if SPLIT_K > 1
#pragma omp for
    for (int m = 0; m < M; ++m) {
      float* row = c + (size_t)m * N;
      const float* part = parts + (size_t)m * N;
      for (int k = PART; k < K; k += PART, part += (size_t)M * N)
        for (int n = 0; n < N; ++n) row[n] += part[n];
    }
#endif
  }
}
