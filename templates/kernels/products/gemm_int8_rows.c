// C = A W^T of 8-bit integers, rows of both along K: lanes of vectors are terms of a sum. A tile has ROWS rows of A and
// four rows of W, whose sums are added up across lanes at the end. Nothing is packed.
#define COLUMNS 4
#define WIDTH 64
// The offset of what is added to the data so that 0 stands for nothing.
#define SHIFTED (DATA_ZERO + (DATA_SIGNED ? 128 : 0))
#define QUARTERS(a, b) \
  a, b, a + 1, b + 1, a + 4, b + 4, a + 5, b + 5, a + 8, b + 8, a + 9, b + 9, a + 12, b + 12, a + 13, b + 13
#define HALVES(a, b) \
  a, a + 1, b, b + 1, a + 4, a + 5, b + 4, b + 5, a + 8, a + 9, b + 8, b + 9, a + 12, a + 13, b + 12, b + 13

// Adds the lanes of four vectors: the first four of the result are their sums.
INLINED words across(words a, words b, words c, words d) {
  const words ab = SHUFFLE(a, b, QUARTERS(0, 16)) + SHUFFLE(a, b, QUARTERS(2, 18));
  const words cd = SHUFFLE(c, d, QUARTERS(0, 16)) + SHUFFLE(c, d, QUARTERS(2, 18));
  const words all = SHUFFLE(ab, cd, HALVES(0, 16)) + SHUFFLE(ab, cd, HALVES(2, 18));
  const words half = all + SHUFFLE(all, all, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7);
  return half + SHUFFLE(half, half, 4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11);
}

INLINED words load(const void* from, const int rest) {
  if (!rest) return *(const words*)from;
  words part = {0};
  memcpy(&part, from, rest);
  return part;
}

INLINED void steps(
    words sum[ROWS][COLUMNS], const int height, const int rest, const data_t* restrict a, const int8_t* restrict w) {
  words right[COLUMNS];
#pragma GCC unroll 4
  for (int j = 0; j < COLUMNS; ++j) right[j] = load(w + (size_t)j * K, rest);
#pragma GCC unroll 8
  for (int i = 0; i < height; ++i) {
    const words left = load(a + (size_t)i * K, rest) ^ FLIPPED;
#pragma GCC unroll 4
    for (int j = 0; j < COLUMNS; ++j) sum[i][j] = dot(sum[i][j], left, right[j]);
  }
}

INLINED void tile(
    const int height, const data_t* restrict a, const int8_t* restrict w, const int32_t* restrict sums,
    const float* restrict scale, const float* restrict shift, out_t* restrict c) {
  words sum[ROWS][COLUMNS];
#pragma GCC unroll 8
  for (int i = 0; i < height; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < COLUMNS; ++j) sum[i][j] = (words){0};
  for (int k = 0; k + WIDTH <= K; k += WIDTH) steps(sum, height, 0, a + k, w + k);
  if (K % WIDTH) steps(sum, height, K % WIDTH, a + K / WIDTH * WIDTH, w + K / WIDTH * WIDTH);
#pragma GCC unroll 8
  for (int i = 0; i < height; ++i) {
    const words all = across(sum[i][0], sum[i][1], sum[i][2], sum[i][3]);
#pragma GCC unroll 4
    for (int j = 0; j < COLUMNS; ++j)
      c[(size_t)i * N + j] = finished(all[j] - SHIFTED * sums[j], scale[j], shift[j]);
  }
}

// The columns that remain after whole tiles.
static void last_columns(
    int m, const data_t* restrict a, const int8_t* restrict w, const int32_t* restrict sums, const float* restrict scale,
    const float* restrict shift, out_t* restrict c) {
  for (int n = N / COLUMNS * COLUMNS; n < N; ++n) {
    int32_t sum = -SHIFTED * sums[n];
    for (int k = 0; k < K; ++k) sum += (uint8_t)(a[(size_t)m * K + k] ^ (FLIPPED & 255)) * w[(size_t)n * K + k];
    c[(size_t)m * N + n] = finished(sum, scale[n], shift[n]);
  }
}

void gemm_int8_rows(
    const data_t* restrict a, const int8_t* restrict w, const int32_t* restrict sums, const float* restrict scale,
    const float* restrict shift, out_t* restrict c) {
#pragma omp parallel for collapse(2) schedule(dynamic) if ((size_t)M * N * K > 500000)
  for (int first = 0; first < M; first += BLOCK_M)
    for (int begin = 0; begin < N; begin += BLOCK_N) {
      const int below = SMALLER(first + BLOCK_M, M), end = SMALLER(begin + BLOCK_N, N);
      for (int n = begin; n + COLUMNS <= end; n += COLUMNS) {
        int m = first;
#define TILE(height) \
  tile(height, a + (size_t)m * K, w + (size_t)n * K, sums + n, scale + n, shift + n, c + (size_t)m * N + n)
        for (; m + ROWS <= below; m += ROWS) TILE(ROWS);
        for (; m < below; ++m) TILE(1);
#undef TILE
      }
      if (end == N)
        for (int m = first; m < below; ++m) last_columns(m, a, w, sums, scale, shift, c);
    }
}
