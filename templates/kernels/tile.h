// The register tile that the matrix-like CPU kernels share: rows x (VECTORS * LANES) sums, fed by
// `depth` elements of each row of a (LDA apart) and by a packed panel of b.
#include <stdlib.h>
#include <string.h>

#define WIDTH (VECTORS * LANES)
#define SMALLER(a, b) ((a) < (b) ? (a) : (b))
#define LARGER(a, b) ((a) > (b) ? (a) : (b))

typedef float vec __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef int bits __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

// What follows the last addition: numbers of each row, and a tensor as large as c, from the first
// row and column of what is computed on.
typedef struct {
  const float *bias, *residual, *scale, *shift;
} Rest;

static inline __attribute__((always_inline)) Rest rest_at(Rest all, size_t row, size_t column) {
  if (BIAS) all.bias += row;
  if (RESIDUAL) all.residual += row * LDC + column;
  if (AFFINE) all.scale += row, all.shift += row;
  return all;
}

static inline __attribute__((always_inline)) void finish(
    vec* sum, Rest rest, int row, const vec* residual) {
  if (BIAS) *sum += rest.bias[row];
  if (RESIDUAL) *sum += *residual;
  if (AFFINE) *sum = *sum * rest.scale[row] + rest.shift[row];
  if (RELU) *sum = (vec)((bits)*sum & ~(*sum < 0.0f));
}

// Adds to c, or writes it when this is the first part of the reduction; on the last part the rest
// follows. Only `columns` of the WIDTH columns exist.
static inline __attribute__((always_inline)) void tile(
    const int rows, const int depth, const float* restrict a, const float* restrict b,
    float* restrict c, const int columns, const int first, const int last, const Rest rest) {
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
    // A copy of a size that the compiler knows stays in registers.
    const int whole = columns == WIDTH;
    if (!first && !whole) memcpy(part, to, columns * sizeof(float));
    float other[WIDTH];
    const float* residual = RESIDUAL ? rest.residual + (size_t)i * LDC : other;
    if (RESIDUAL && last && !whole) {
      memcpy(other, residual, columns * sizeof(float));
      residual = other;
    }
#pragma GCC unroll 8
    for (int v = 0; v < VECTORS; ++v) {
      const vec* before = (const vec*)((whole ? to : part) + v * LANES);
      if (!first) sum[i][v] += *before;
      if (last) finish(&sum[i][v], rest, i, (const vec*)(residual + v * LANES));
      *(vec*)((whole ? to : part) + v * LANES) = sum[i][v];
    }
    if (!whole) memcpy(to, part, columns * sizeof(float));
  }
}

// Runs the tile over `rows` rows: whole tiles first, then what is left in ever smaller ones.
static inline void strip(
    int rows, int depth, const float* restrict a, const float* restrict b, float* restrict c,
    int columns, int first, int last, Rest rest) {
  int i = 0;
#define TILES(height)                                                                           \
  for (; height <= ROWS && i + height <= rows; i += height)                                     \
    tile(height, depth, a + (size_t)i * LDA, b, c + (size_t)i * LDC, columns, first, last,      \
         rest_at(rest, i, 0))
  TILES(ROWS);
  TILES(4);
  TILES(2);
  TILES(1);
#undef TILES
}
