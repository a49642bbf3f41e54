// Reductions of an array [OUTER, DEPTH, INNER] along its middle axis, float32. The axis has SPLIT parts of PER_SPLIT
// elements, whose results are combined at the end: in `partial`, and with ARG their indices in `indices`.
//
// REDUCER is one of these. Sums begin with minus zero, which keeps the sign of a zero.
#define SUM 0
#define PRODUCT 1
#define MAXIMUM 2
#define MINIMUM 3

#if REDUCER == SUM
#define IDENTITY -0.0f
#define COMBINED(a, b) ((a) + (b))
INLINED vec combined(vec a, vec b) { return a + b; }
#elif REDUCER == PRODUCT
#define IDENTITY 1.0f
#define COMBINED(a, b) ((a) * (b))
INLINED vec combined(vec a, vec b) { return a * b; }
#else
#if REDUCER == MAXIMUM
#define IDENTITY -__builtin_inff()
#define BEHIND(b, a) ((b) <= (a))
#else
#define IDENTITY __builtin_inff()
#define BEHIND(b, a) ((b) >= (a))
#endif
// Whether b takes the place of a. NaNs propagate, as in numpy: none takes the place of the first.
#define BETTER(b, a) (~BEHIND(b, a) & ((a) == (a)))
#define COMBINED(a, b) (BETTER(b, a) ? (b) : (a))
INLINED vec combined(vec a, vec b) { return pick(BETTER(b, a), b, a); }
#endif

#if ARG
typedef int result;
#else
typedef float result;
#endif
// Elements of a row: the index of its largest is looked for in one block only.
#define BLOCK 2048

#define ELEMENTS(i, n, other) loaded(from + (i), n, other)

#if INNER == 1
#define TILE 1
INLINED float reduced(const float* restrict from, int count) {
  vec state;
  REDUCE_ROW(state, count, all(IDENTITY), combined, ELEMENTS);
  return state[0];
}

#if ARG
INLINED bits lower(bits a, bits b) {
  const bits first = a < b;
  return (first & a) | (~first & b);
}

// Returns the index of the first element that equals `best`, or is a NaN as well.
INLINED int found(const float* restrict from, int count, float best) {
  bits index, least;
#pragma GCC unroll 16
  for (int j = 0; j < LANES; ++j) index[j] = j, least[j] = count;
  for (int i = 0; i < count; i += LANES, index += LANES) {
    const vec v = loaded(from + i, SMALLER(LANES, count - i), all(0));
    const bits is = v == best | (v != v & (bits)(all(best) != all(best)));
    least = lower(least, (is & index) | ~is & count);
  }
  REDUCE(least, lower);
  return least[0];
}
#endif

// Reduces `count` neighbours; the index of the first is `first`.
static void reduce_part(const float* restrict from, int first, int count, int width, float* value, int* index) {
#if ARG
  int at = 0;
  *value = IDENTITY;
  for (int i = 0; i < count; i += BLOCK) {
    const float best = reduced(from + i, SMALLER(BLOCK, count - i));
    if (BETTER(best, *value)) *value = best, at = i;
  }
  *index = first + at + found(from + at, SMALLER(BLOCK, count - at), *value);
#else
  *value = reduced(from, count);
#endif
}
#else
// Adds `rows` rows, INNER elements apart, to the results of the columns of a vector; `row` is the index of the first.
INLINED void add_rows(const float* restrict from, int row, int rows, int lanes, float* value, int* index) {
  vec state = loaded(value, lanes, all(0));
  bits best = (bits)loaded((const float*)index, lanes, all(0));
#pragma GCC unroll 8
  for (int r = 0; r < rows; ++r) {
    const vec v = loaded(from + (size_t)r * INNER, lanes, all(0));
#if ARG
    const bits is = BETTER(v, state);
    best = (is & (row + r)) | (~is & best);
#endif
    state = combined(state, v);
  }
  stored(value, lanes, state);
  if (ARG) stored((float*)index, lanes, (vec)best);
}

INLINED void add_lines(
    const float* restrict from, int row, int rows, int width, float* value, int* index) {
  int i = 0;
  for (; i + LANES <= width; i += LANES) add_rows(from + i, row, rows, LANES, value + i, index + i);
  if (i < width) add_rows(from + i, row, rows, width - i, value + i, index + i);
}

// Reduces `width` columns of `count` rows; the index of the first row is `first`. Results stay in the L1 cache, and are
// loaded and stored once for ROWS rows.
static void reduce_part(const float* restrict from, int first, int count, int width, float* value, int* index) {
  for (int i = 0; i < width; ++i) value[i] = IDENTITY, index[i] = first;
  int row = 0;
  for (; row + ROWS <= count; row += ROWS, from += (size_t)ROWS * INNER)
    add_lines(from, first + row, ROWS, width, value, index);
  for (; row < count; ++row, from += INNER) add_lines(from, first + row, 1, width, value, index);
}
#endif

// Writes a result.
INLINED void finish(result* out, float value, int index) { *out = ARG ? index : MEAN ? value / DEPTH : value; }

void reduce(const float* restrict data, float* restrict partial, int* restrict indices, result* restrict out) {
  const size_t outputs = (size_t)OUTER * INNER;
  const int tiles = (INNER + TILE - 1) / TILE;
  // Waking other threads takes longer than the smallest arrays.
#pragma omp parallel for schedule(static) if (outputs * DEPTH > 30000)
  for (size_t task = 0; task < (size_t)OUTER * tiles * SPLIT; ++task) {
    const int part = task % SPLIT, column = task / SPLIT % tiles * TILE, first = part * PER_SPLIT;
    const size_t outer = task / SPLIT / tiles, at = outer * INNER + column;
    const int width = SMALLER(TILE, INNER - column), count = SMALLER(PER_SPLIT, DEPTH - first);
    float value[TILE];
    int index[TILE];
    reduce_part(data + (outer * DEPTH + first) * INNER + column, first, count, width, value, index);
    for (int i = 0; i < width; ++i)
      if (SPLIT == 1) {
        finish(out + at + i, value[i], index[i]);
      } else {
        partial[part * outputs + at + i] = value[i];
        if (ARG) indices[part * outputs + at + i] = index[i];
      }
  }
#if SPLIT > 1
#pragma omp parallel for schedule(static) if (outputs * SPLIT > 30000)
  for (size_t at = 0; at < outputs; ++at) {
    float value = partial[at];
    int index = ARG ? indices[at] : 0;
    for (int part = 1; part < SPLIT; ++part) {
      const float other = partial[part * outputs + at];
#if ARG
      index = BETTER(other, value) ? indices[part * outputs + at] : index;
#endif
      value = COMBINED(value, other);
    }
    finish(out + at, value, index);
  }
#endif
}
