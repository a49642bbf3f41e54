// The register tile that the matrix-like CPU kernels share: rows x (VECTORS * LANES) sums. A step
// adds to them the products of an element of each row of a (APART) and of WIDTH neighbours of b.
#include <stdlib.h>
#include <string.h>

#define WIDTH (VECTORS * LANES)
// Rows of a task: as many whole tiles as cover BLOCK_M.
#define BLOCK ((BLOCK_M + ROWS - 1) / ROWS * ROWS)
#define SMALLER(a, b) ((a) < (b) ? (a) : (b))
#define LARGER(a, b) ((a) > (b) ? (a) : (b))
#ifndef APART
#define APART LDA
#endif
#ifndef SHIFT
#define SHIFT 0
#endif
#ifndef KEPT
#define KEPT 0
#endif
#if KEPT
#define KEPT_PARAMETER float* restrict kept,
#define KEPT_AT(at) kept + (at)
#else
#define KEPT_PARAMETER
#define KEPT_AT(at) NULL
#endif
#define INLINED static inline __attribute__((always_inline))

// Tuned for some CPUs, GCC 12 loads an operand again for each product that it is in. Registers that are
// given out loop by loop would be exchanged from loop to loop. Calls leave no vector in its register: a
// loop that copies a part of a tile must not become one, or the tile's other sums live in memory.
#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__)
#pragma GCC target("tune=generic")
#pragma GCC optimize("ira-region=one", "no-tree-loop-distribute-patterns")
#endif

// Keeps a compiler from knowing a number of steps: those that it writes out, GCC 12 orders so that sums go
// to memory and back, which takes twice as long.
#define HIDE(number) __asm__("" : "+r"(number))

typedef float vec __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef int bits __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

// What follows the last addition: numbers of each row, and a tensor as large as c, from the first
// row and column of what is computed on. Where it is KEPT, the sum before it is scaled goes to `kept`.
typedef struct {
  const float *bias, *residual, *scale, *shift;
  float* kept;
} Rest;

// Which of the WIDTH columns of a tile exist: runs of neighbours, and where they lie in a row of c.
typedef struct {
  int from, count, to;
} Run;
typedef struct {
  int runs, is_whole;
  Run run[MOST_RUNS];
} Columns;

INLINED Rest rest_at(Rest all, size_t row, size_t column) {
  if (BIAS) all.bias += row;
  if (RESIDUAL) all.residual += row * LDC + column;
  if (AFFINE) all.scale += row, all.shift += row;
  if (SHIFT) all.shift += row;
  if (KEPT) all.kept += row * LDC + column;
  return all;
}

INLINED void finish(vec* sum, Rest rest, int row, const vec* residual, vec* kept) {
  if (BIAS) *sum += rest.bias[row];
  if (RESIDUAL) *sum += *residual;
  if (KEPT) *kept = *sum;
  if (AFFINE) *sum = *sum * rest.scale[row] + rest.shift[row];
  if (SHIFT) *sum += rest.shift[row];
  if (RELU) *sum = (vec)((bits)*sum & ~(*sum < 0.0f));
}

// Adds a product to a sum, which stays in its register: GCC 12 and 13 would have it move from one to
// another from step to step, which takes as long as sums, or leaves too few for all.
INLINED void add_product(vec* sum, const vec a, const vec b) {
#if (defined(__AVX512F__) && LANES == 16) || (defined(__FMA__) && LANES <= 8)
  __asm__("vfmadd231ps %2, %1, %0" : "+v"(*sum) : "v"(a), "v"(b));
#else
  *sum += a * b;
#endif
}

// Of the first `vectors` of a tile. What neighbouring steps have in common is loaded again: kept, it would
// push sums out of registers.
INLINED void narrow_step(
    vec sum[ROWS][VECTORS], const int vectors, const int first, const int end,
    const float* restrict a, const float* restrict b) {
  __asm__ volatile("" ::: "memory");
  vec right[VECTORS];
#pragma GCC unroll 8
  for (int v = 0; v < vectors; ++v) right[v] = *(const vec*)(b + v * LANES);
#pragma GCC unroll 16
  for (int i = first; i < end; ++i) {
    const vec left = a[(size_t)i * APART] - (vec){0};
#pragma GCC unroll 8
    for (int v = 0; v < vectors; ++v) add_product(&sum[i][v], right[v], left);
  }
}

INLINED void step(
    vec sum[ROWS][VECTORS], const int first, const int end, const float* restrict a,
    const float* restrict b) {
  narrow_step(sum, VECTORS, first, end, a, b);
}

// Fetches the line of cache around a column of the `rows` rows of a below a tile.
INLINED void fetch(const int rows, const float* a) {
#pragma GCC unroll 16
  for (int i = 0; i < rows; ++i) __builtin_prefetch(a + (size_t)(rows + i) * LDA);
}

// Fetches what a tile of `width` columns will be added to, or written over, while it is computed.
INLINED void fetch_result(
    const int rows, const int width, const float* c, const Columns* columns) {
#pragma GCC unroll 16
  for (int i = 0; i < rows; ++i) {
    const float* to = c + (size_t)i * LDC + columns->run[0].to;
    for (int j = 0; j < width; j += 16) __builtin_prefetch(to + j, 1);
    __builtin_prefetch(to + width - 1, 1);
  }
}

// Copies the columns that exist of a row of c, or to it.
static inline void take(float* restrict part, const float* restrict row, const Columns* columns) {
  for (int r = 0; r < columns->runs; ++r) {
    const Run run = columns->run[r];
    for (int j = 0; j < run.count; ++j) part[run.from + j] = row[run.to + j];
  }
}

static inline void give(float* restrict row, const float* restrict part, const Columns* columns) {
  for (int r = 0; r < columns->runs; ++r) {
    const Run run = columns->run[r];
    for (int j = 0; j < run.count; ++j) row[run.to + j] = part[run.from + j];
  }
}

// Adds the first `vectors` of a tile to c, or writes them when these are the first sums; after the last the
// rest follows.
INLINED void put(
    vec sum[ROWS][VECTORS], const int vectors, const int rows, float* restrict c,
    const Columns* columns, const int first, const int last, const Rest rest) {
#pragma GCC unroll 16
  for (int i = 0; i < rows; ++i) {
    float* restrict row = c + (size_t)i * LDC;
    float part[WIDTH], other[WIDTH], before[WIDTH];
    const int whole = columns->is_whole;
    float* restrict to = whole ? row + columns->run[0].to : part;
    if (!first && !whole) take(part, row, columns);
    const float* residual = other;
    if (RESIDUAL && last) {
      residual = rest.residual + (size_t)i * LDC;
      if (whole) residual += columns->run[0].to;
      else take(other, residual, columns), residual = other;
    }
    float* kept = before;
    if (KEPT && whole) kept = rest.kept + (size_t)i * LDC + columns->run[0].to;
#pragma GCC unroll 8
    for (int v = 0; v < vectors; ++v) {
      if (!first) sum[i][v] += *(const vec*)(to + v * LANES);
      if (last)
        finish(&sum[i][v], rest, i, (const vec*)(residual + v * LANES), (vec*)(kept + v * LANES));
      *(vec*)(to + v * LANES) = sum[i][v];
    }
    if (!whole) give(row, part, columns);
    if (KEPT && last && !whole) give(rest.kept + (size_t)i * LDC, before, columns);
  }
}
