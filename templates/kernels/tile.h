// The register tile that the matrix-like CPU kernels share: rows x (VECTORS * LANES) sums, fed by
// `depth` elements of each row of a (LDA apart) and by a packed panel of b.
#include <stdlib.h>
#include <string.h>

#define WIDTH (VECTORS * LANES)
#define SMALLER(a, b) ((a) < (b) ? (a) : (b))

typedef float vec __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

static inline __attribute__((always_inline)) float finish(float sum, const float* bias) {
  if (BIAS) sum += *bias;
  return RELU && sum < 0.0f ? 0.0f : sum;
}

// Adds to c, or writes it when this is the first part of the reduction; on the last part the bias
// and relu follow. Only `columns` of the WIDTH columns exist.
static inline __attribute__((always_inline)) void tile(
    const int rows, const int depth, const float* restrict a, const float* restrict b,
    float* restrict c, const int columns, const int first, const int last,
    const float* restrict bias) {
  vec sum[ROWS][VECTORS];
#pragma GCC unroll 16
  for (int i = 0; i < rows; ++i)
#pragma GCC unroll 8
    for (int v = 0; v < VECTORS; ++v) sum[i][v] = (vec){0};
  for (int k = 0; k < depth; ++k) {
    vec right[VECTORS];
#pragma GCC unroll 8
    for (int v = 0; v < VECTORS; ++v) right[v] = *(const vec*)(b + k * WIDTH + v * LANES);
#pragma GCC unroll 16
    for (int i = 0; i < rows; ++i)
#pragma GCC unroll 8
      for (int v = 0; v < VECTORS; ++v) sum[i][v] += right[v] * a[(size_t)i * LDA + k];
  }
#pragma GCC unroll 16
  for (int i = 0; i < rows; ++i) {
    float* restrict to = c + (size_t)i * LDC;
    float part[WIDTH];
    if (!first) memcpy(part, to, columns * sizeof(float));
#pragma GCC unroll 8
    for (int v = 0; v < VECTORS; ++v) {
      vec* at = (vec*)(part + v * LANES);
      if (!first) sum[i][v] += *at;
      *at = sum[i][v];
    }
    if (last)
      for (int j = 0; j < WIDTH; ++j) part[j] = finish(part[j], bias + i);
    memcpy(to, part, columns * sizeof(float));
  }
}

// Runs the tile over `rows` rows: whole tiles first, then one row at a time.
static inline void strip(
    int rows, int depth, const float* restrict a, const float* restrict b, float* restrict c,
    int columns, int first, int last, const float* restrict bias) {
  int i = 0;
  for (; i + ROWS <= rows; i += ROWS)
    tile(ROWS, depth, a + (size_t)i * LDA, b, c + (size_t)i * LDC, columns, first, last, bias + i);
  for (; i < rows; ++i)
    tile(1, depth, a + (size_t)i * LDA, b, c + (size_t)i * LDC, columns, first, last, bias + i);
}
