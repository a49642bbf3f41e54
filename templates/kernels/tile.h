// The register tile of the CPU kernels of products and convolutions: ROWS x (VECTORS * LANES) sums. A step (a rank-1
// update) broadcasts an element of each row of a, whose pitch is APART, and multiplies it by WIDTH neighbours of b.
#define WIDTH (VECTORS * LANES)
// Rows of a task: as many whole tiles as cover BLOCK_M.
#define BLOCK ((BLOCK_M + ROWS - 1) / ROWS * ROWS)
#ifndef APART
#define APART LDA
#endif
#ifndef SHIFT
#define SHIFT 0
#endif
// How a step loads a vector of what it copies.
#ifndef LOAD_COPIED
#define LOAD_COPIED load_part
#endif
#ifndef KEPT
#define KEPT 0
#endif
#if KEPT
#define KEPT_PARAMETER float* restrict kept,
#define KEPT_OR_NULL kept
#else
#define KEPT_PARAMETER
#define KEPT_OR_NULL NULL
#endif

// Number of vectors of `wide` columns; a load and a store of one of them, masked if it is the last and partial.
#define VECTORS_OF(wide) (((wide) + LANES - 1) / LANES)
INLINED vec load_part(const float* row, const int v, const int wide) {
  if ((v + 1) * LANES <= wide) return *(const vec*)(row + v * LANES);
  return load_some(row + v * LANES, LARGER(0, wide - v * LANES));
}
INLINED void store_part(float* row, const int v, const int wide, const vec what) {
  if ((v + 1) * LANES <= wide) *(vec*)(row + v * LANES) = what;
  else store_some(row + v * LANES, what, LARGER(0, wide - v * LANES));
}

// Arguments of the epilogue, from the first row and column of a tile on: bias, scale and shift per row, and a residual
// of the shape of c. With KEPT the sum before AFFINE is written to `kept`, as in epilogue.h.
typedef struct {
  const float *bias, *residual, *scale, *shift;
  float* kept;
} EpilogueArgs;

// The columns of a tile that exist: runs of `count` neighbours, from column `from` of the tile to column `to` of c.
typedef struct {
  int from, count, to;
} Run;
typedef struct {
  int runs, is_whole;
  Run run[MOST_RUNS];
} Columns;

INLINED EpilogueArgs epilogue_at(EpilogueArgs all, size_t row, size_t column) {
  if (BIAS) all.bias += row;
  if (RESIDUAL) all.residual += row * LDC + column;
  if (AFFINE) all.scale += row, all.shift += row;
  if (SHIFT) all.shift += row;
  if (KEPT) all.kept += row * LDC + column;
  return all;
}

// Images are groups of channels, which have filters and vectors of their own: those of an image, and its epilogue.
#ifndef GROUPS
#define GROUPS 1
#endif
#define GROUP_OF(n) ((n) % GROUPS)
#define WEIGHT_OF(n) ((size_t)GROUP_OF(n) * CO * LDA)
INLINED EpilogueArgs epilogue_of(EpilogueArgs all, int n, size_t rows) {
  if (BIAS) all.bias += GROUP_OF(n) * rows;
  if (AFFINE) all.scale += GROUP_OF(n) * rows, all.shift += GROUP_OF(n) * rows;
  if (SHIFT) all.shift += GROUP_OF(n) * rows;
  if (RESIDUAL) all.residual += n * rows * LDC;
  if (KEPT) all.kept += n * rows * LDC;
  return all;
}

INLINED void finish(vec* sum, EpilogueArgs epilogue, int row, const vec* residual, vec* kept) {
  if (BIAS) *sum += epilogue.bias[row];
  if (RESIDUAL) *sum += *residual;
  if (KEPT) *kept = *sum;
  if (AFFINE) *sum = *sum * epilogue.scale[row] + epilogue.shift[row];
  if (SHIFT) *sum += epilogue.shift[row];
  if (RELU) *sum = (vec)((bits)*sum & ~(*sum < 0.0f));
}

// Fused multiply-add in assembly, which keeps a sum in its register: GCC 12 and 13 would move it to another one in each
// step, which takes as long as the arithmetic, or spills.
INLINED void add_product(vec* sum, const vec a, const vec b) {
#if (defined(__AVX512F__) && LANES == 16) || (defined(__FMA__) && LANES <= 8)
  __asm__("vfmadd231ps %2, %1, %0" : "+v"(*sum) : "v"(a), "v"(b));
#else
  *sum += a * b;
#endif
}

// The same with an element of a that is used once: read by the multiply-add itself, which spares an instruction.
#if defined(__AVX512VL__) && LANES <= 16
#define READS_ELEMENT 1
#define TEXT_OF(number) #number
#define FMA_OF(lanes) "vfmadd231ps %2%{1to" TEXT_OF(lanes) "%}, %1, %0"
INLINED void add_product_of(vec* sum, const float* a, const vec b) {
  __asm__(FMA_OF(LANES) : "+v"(*sum) : "v"(b), "m"(*a));
}
#else
#define READS_ELEMENT 0
#define add_product_of(sum, a, b) add_product(sum, *(a) - (vec){0}, b)
#endif

// Hides that a vector was loaded: where sums and vectors take a few more than 16 of 32 registers, GCC 12 would use only 16,
// and load the vector again for each row.
INLINED void keep_loaded(vec* loaded) {
#if defined(__AVX512F__) && LANES <= 16
  __asm__("" : "+v"(*loaded));
#else
  (void)loaded;
#endif
}

// A step of the first `wide` columns of a tile; no others are read. What is multiplied may be copied. The barrier makes the compiler reload what
// neighbouring steps have in common: kept in registers, it would spill sums.
INLINED void narrow_step(
    vec sum[ROWS][VECTORS], const int wide, const int first, const int end,
    const float* restrict a, const float* restrict b, float* copy) {
  __asm__ volatile("" ::: "memory");
  vec right[VECTORS];
#pragma GCC unroll 8
  for (int v = 0; v < VECTORS_OF(wide); ++v) right[v] = copy ? LOAD_COPIED(b, v, wide) : load_part(b, v, wide);
#pragma GCC unroll 8
  for (int v = 0; v < VECTORS_OF(wide); ++v) keep_loaded(&right[v]);
  if (copy)
#pragma GCC unroll 8
    for (int v = 0; v < VECTORS_OF(wide); ++v) *(vec*)(copy + v * LANES) = right[v];
#pragma GCC unroll 16
  for (int i = first; i < end; ++i) {
    if (READS_ELEMENT && VECTORS_OF(wide) == 1) {
      add_product_of(&sum[i][0], a + (size_t)i * APART, right[0]);
      continue;
    }
    const vec left = a[(size_t)i * APART] - (vec){0};
#pragma GCC unroll 8
    for (int v = 0; v < VECTORS_OF(wide); ++v) add_product(&sum[i][v], right[v], left);
  }
}

INLINED void step(
    vec sum[ROWS][VECTORS], const int first, const int end, const float* restrict a,
    const float* restrict b) {
  narrow_step(sum, WIDTH, first, end, a, b, NULL);
}

// Prefetches the cache line of a column of the `rows` rows of a below a tile.
INLINED void prefetch_rows(const int rows, const float* a) {
#pragma GCC unroll 16
  for (int i = 0; i < rows; ++i) __builtin_prefetch(a + (size_t)(rows + i) * LDA);
}

// Prefetches the part of c that a tile of `wide` columns is added or written to.
INLINED void prefetch_result(
    const int rows, const int wide, const float* c, const Columns* columns) {
#pragma GCC unroll 16
  for (int i = 0; i < rows; ++i) {
    const float* to = c + (size_t)i * LDC + columns->run[0].to;
    for (int j = 0; j < wide; j += 16) __builtin_prefetch(to + j, 1);
    __builtin_prefetch(to + wide - 1, 1);
  }
}

// Copies the columns that exist from a row of c, or to it.
static inline void load_columns(float* restrict part, const float* restrict row, const Columns* columns) {
  for (int r = 0; r < columns->runs; ++r) {
    const Run run = columns->run[r];
    for (int j = 0; j < run.count; ++j) part[run.from + j] = row[run.to + j];
  }
}

static inline void store_columns(float* restrict row, const float* restrict part, const Columns* columns) {
  for (int r = 0; r < columns->runs; ++r) {
    const Run run = columns->run[r];
    for (int j = 0; j < run.count; ++j) row[run.to + j] = part[run.from + j];
  }
}

// Adds a row of a tile to the first `wide` columns of a row of c, or writes it for the `first` part of K; after the
// `last` part it applies the epilogue. `residual` and `kept` are rows too.
INLINED void store_row(
    vec sum[VECTORS], const int wide, float* restrict row, const int first, const int last,
    const EpilogueArgs epilogue, int i, const float* residual, float* kept) {
#pragma GCC unroll 8
  for (int v = 0; v < VECTORS_OF(wide); ++v) {
    vec other = {0}, before;
    if (!first) sum[v] += load_part(row, v, wide);
    if (RESIDUAL && last) other = load_part(residual, v, wide);
    if (last) finish(&sum[v], epilogue, i, &other, &before);
    if (KEPT && last) store_part(kept, v, wide, before);
    store_part(row, v, wide, sum[v]);
  }
}

// Whether rows of c have the same offset in a page: loads of one row would wait for the stores to the row above (4K
// aliasing), so all are loaded first.
#define ALIAS (4 * LDC % 4096 == 0)

// Writes the first `wide` columns of a tile to c.
INLINED void store_tile(
    vec sum[ROWS][VECTORS], const int wide, const int rows, float* restrict c,
    const Columns* columns, const int first, const int last, const EpilogueArgs epilogue) {
  const int to = columns->run[0].to;
  if (ALIAS && !first && columns->is_whole)
#pragma GCC unroll 16
    for (int i = 0; i < rows; ++i)
#pragma GCC unroll 8
      for (int v = 0; v < VECTORS_OF(wide); ++v) sum[i][v] += load_part(c + (size_t)i * LDC + to, v, wide);
#pragma GCC unroll 16
  for (int i = 0; i < rows; ++i) {
    const size_t at = (size_t)i * LDC;
    const float* residual = RESIDUAL ? epilogue.residual + at : NULL;
    float* kept = KEPT ? epilogue.kept + at : NULL;
    if (columns->is_whole) {
      if (RESIDUAL) residual += to;
      if (KEPT) kept += to;
      store_row(sum[i], wide, c + at + to, first || ALIAS, last, epilogue, i, residual, kept);
    } else {
      float part[WIDTH], other[WIDTH], before[WIDTH];
      if (!first) load_columns(part, c + at, columns);
      if (RESIDUAL && last) load_columns(other, residual, columns);
      store_row(sum[i], WIDTH, part, first, last, epilogue, i, other, before);
      store_columns(c + at, part, columns);
      if (KEPT && last) store_columns(kept, before, columns);
    }
  }
}
