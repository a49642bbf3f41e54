// Attention, float32: softmax(q k^T * SCALE) v of each head. A task owns WIDTH queries of a head, which are lanes of vectors:
// a step of the scores broadcasts an element of each of ROWS keys and multiplies it by the transposed queries, so neither
// keys nor values are packed, and maxima and sums of a query are those of a lane. Keys come in parts of PART, and sums of
// values are scaled as larger scores are met (online softmax). With BIASED a bias is added to scores, transposed as
// the queries are.
#define PARTS ((KEYS + KEY_BLOCK - 1) / KEY_BLOCK)
#define PART ((KEYS + PARTS - 1) / PARTS)
// Keys beyond those of the same number that a query sees.
#define MORE_KEYS (KEYS - QUERIES)
#define PADDED_SIZE ((SIZE + LANES - 1) / LANES * LANES)
// Queries of the last task of a head.
#define LAST ((QUERIES - 1) % WIDTH + 1)
// Floats of a cache line, and rows of values that are prefetched ahead.
#define LINE 16
#define AHEAD 8
#define LEAST_SUM 1e-30f
#define SAME(lane) lane

typedef struct {
  float queries[SIZE][WIDTH], scores[PART][WIDTH], sums[WIDTH][PADDED_SIZE];
  float top[WIDTH], total[WIDTH], factor[WIDTH];
#if BIASED
  float bias[(PART + LANES - 1) / LANES * LANES][WIDTH];
#endif
} Scratch;

#if BIASED
#define BIAS_PARAMETER const float* restrict bias,
#define BIAS_OF(with) (with)->bias[0]
#else
#define BIAS_PARAMETER
#define BIAS_OF(with) NULL
#endif

// Per thread, and kept between calls: the pages of new memory would be mapped again.
static _Thread_local Scratch scratch __attribute__((aligned(64)));

// Transposes `count` queries times SCALE; lanes beyond are zero.
static void pack_queries(float to[SIZE][WIDTH], const float* restrict from, const int count) {
  for (int x = 0; x < VECTORS_OF(count) * LANES; x += LANES)
    for (int d = 0; d < SIZE; d += LANES)
      transpose_rows(to[d] + x, from + (size_t)x * QUERY_ROW + d, QUERY_ROW, count - x, SIZE - d, SCALE);
}

#if BIASED
// Transposes the bias of `count` queries and `keys` keys.
static void pack_bias(float to[][WIDTH], const float* restrict from, const int count, const int keys) {
  for (int x = 0; x < VECTORS_OF(count) * LANES; x += LANES)
    for (int k = 0; k < keys; k += LANES)
      transpose_rows(to[k] + x, from + (size_t)x * BIAS_ROW + k, BIAS_ROW, count - x, keys - k, 1.0f);
}
#endif

// The scores of `rows` keys. `unseen` is the number of the first of these keys minus that of the last key that the first
// query sees: of a positive number on, lanes see some keys only.
INLINED void score_tile(
    const int wide, const int rows, const float* restrict keys, const float* restrict queries,
    const float* restrict bias, float* restrict scores, float* restrict top, int unseen) {
  vec sum[ROWS][VECTORS];
#pragma GCC unroll 16
  for (int i = 0; i < rows; ++i)
#pragma GCC unroll 8
    for (int v = 0; v < VECTORS_OF(wide); ++v) sum[i][v] = (vec){0};
  int size = SIZE;
  HIDE(size);
  for (int near = 0; near < size; near += LINE) {
#pragma GCC unroll 16
    for (int i = 0; i < rows; ++i) __builtin_prefetch(keys + (size_t)(rows + i) * KEY_ROW + near);
    const int end = SMALLER(near + LINE, size);
    for (int d = near; d < end; ++d) rank_one(sum, wide, rows, keys + d, KEY_ROW, queries + (size_t)d * WIDTH);
  }
#pragma GCC unroll 8
  for (int v = 0; v < VECTORS_OF(wide); ++v) {
    vec most = *(vec*)(top + v * LANES);
#pragma GCC unroll 16
    for (int i = 0; i < rows; ++i) {
      vec x = sum[i][v];
      if (BIASED) x += *(const vec*)(bias + i * WIDTH + v * LANES);
      if (CAUSAL && unseen + i > 0) {
        const bits is_unseen = (bits){ORDER(SAME)} + v * LANES < unseen + i;
        x = pick(is_unseen, all(-__builtin_inff()), x);
      }
      most = larger(x, most);
      *(vec*)(scores + i * WIDTH + v * LANES) = x;
    }
    *(vec*)(top + v * LANES) = most;
  }
}

INLINED void score(
    const int wide, int count, const float* restrict keys, const float* restrict queries, const float* restrict bias,
    float* restrict scores, float* restrict top, int unseen) {
  int k = 0;
#define TILE(height)                                                                                      \
  score_tile(                                                                                             \
      wide, height, keys + (size_t)k * KEY_ROW, queries, bias + (BIASED ? (size_t)k * WIDTH : 0),         \
      scores + (size_t)k * WIDTH, top, unseen + k)
  for (; k + ROWS <= count; k += ROWS) TILE(ROWS);
  if (k < count && count >= ROWS) {
    // Some keys again.
    k = count - ROWS;
    TILE(ROWS);
  } else {
    for (; k < count; ++k) TILE(1);
  }
#undef TILE
}

// Exponentials of scores, in place, and their sums.
INLINED void raise(const int wide, int count, float* restrict scores, const float* top, float* restrict total) {
  vec most[VECTORS], sum[VECTORS];
#pragma GCC unroll 8
  for (int v = 0; v < VECTORS_OF(wide); ++v)
    most[v] = *(const vec*)(top + v * LANES), sum[v] = *(const vec*)(total + v * LANES);
  for (int k = 0; k < count; ++k, scores += WIDTH)
#pragma GCC unroll 8
    for (int v = 0; v < VECTORS_OF(wide); ++v) {
      const vec p = power(*(const vec*)(scores + v * LANES) - most[v]);
      sum[v] += p;
      *(vec*)(scores + v * LANES) = p;
    }
#pragma GCC unroll 8
  for (int v = 0; v < VECTORS_OF(wide); ++v) *(vec*)(total + v * LANES) = sum[v];
}

// Adds the values of `count` keys, weighted, to the sums of `rows` queries, which are multiplied by a factor first; after
// the `last` part they are divided by the totals and written to the result.
INLINED void value_tile(
    const int wide, const int rows, int count, const float* restrict powers, const float* restrict values,
    float* restrict sums, const float* restrict factor, const float* restrict total, int first, int last,
    float* restrict out) {
  vec sum[ROWS][VECTORS] = {0};
  if (!first)
#pragma GCC unroll 16
  for (int i = 0; i < rows; ++i)
#pragma GCC unroll 8
    for (int v = 0; v < VECTORS_OF(wide); ++v)
      sum[i][v] = *(const vec*)(sums + i * PADDED_SIZE + v * LANES) * factor[i];
  HIDE(count);
  for (int k = 0; k < count; ++k) {
#pragma GCC unroll 4
    for (int j = 0; j < wide; j += LINE) __builtin_prefetch(values + (size_t)(k + AHEAD) * KEY_ROW + j);
    rank_one(sum, wide, rows, powers + (size_t)k * WIDTH, 1, values + (size_t)k * KEY_ROW);
  }
#pragma GCC unroll 16
  for (int i = 0; i < rows; ++i) {
    const float part = last ? 1.0f / LARGER(total[i], LEAST_SUM) : 1.0f;
    // A NaN is not larger than anything.
    const float by = last && total[i] != total[i] ? total[i] : part;
#pragma GCC unroll 8
    for (int v = 0; v < VECTORS_OF(wide); ++v) {
      if (last) store_part(out + (size_t)i * OUT_ROW, v, wide, sum[i][v] * by);
      else *(vec*)(sums + i * PADDED_SIZE + v * LANES) = sum[i][v];
    }
  }
}

// All columns of the values, for `queries` queries.
INLINED void weigh(
    const int queries, int count, Scratch* restrict with, const float* restrict values, int first, int last,
    float* restrict out) {
#define TILE(wide, height)                                                                                     \
  value_tile(                                                                                                  \
      wide, height, count, with->scores[0] + i, values + d, with->sums[i] + d, with->factor + i, with->total + i, \
      first, last, out + (size_t)i * OUT_ROW + d)
  int d = 0;
  for (; d + WIDTH <= SIZE; d += WIDTH) {
    int i = 0;
    for (; i + ROWS <= queries; i += ROWS) TILE(WIDTH, ROWS);
    if (queries % ROWS) TILE(WIDTH, queries % ROWS);
  }
  if (SIZE % WIDTH) {
    int i = 0;
    for (; i + ROWS <= queries; i += ROWS) TILE(SIZE % WIDTH, ROWS);
    if (queries % ROWS) TILE(SIZE % WIDTH, queries % ROWS);
  }
#undef TILE
}

// Attention of `queries` queries, the first of which has the number `from`.
INLINED void panel(
    const int queries, int from, const float* restrict q, const float* restrict k, const float* restrict v,
    BIAS_PARAMETER float* restrict out) {
  Scratch* with = &scratch;
  // GCC 12 would recompute the thread-local address in the innermost loop.
  __asm__("" : "+r"(with));
  const int end = CAUSAL ? LARGER(0, SMALLER(KEYS, from + queries + MORE_KEYS)) : KEYS;
  for (int i = 0; i < (end ? 0 : queries); ++i) memset(out + (size_t)i * OUT_ROW, 0, SIZE * sizeof *out);
  pack_queries(with->queries, q, queries);
  for (int x = 0; x < WIDTH; ++x) with->top[x] = -__FLT_MAX__, with->total[x] = 0.0f;
  for (int first = 0; first < end; first += PART) {
    const int count = SMALLER(PART, end - first);
    memcpy(with->factor, with->top, sizeof with->top);
#if BIASED
    pack_bias(with->bias, bias + first, queries, count);
#endif
    score(
        VECTORS_OF(queries) * LANES, count, k + (size_t)first * KEY_ROW, with->queries[0], BIAS_OF(with),
        with->scores[0], with->top, first - from - MORE_KEYS);
    for (int x = 0; x < WIDTH; x += LANES) {
      vec *const factor = (vec*)(with->factor + x), *const total = (vec*)(with->total + x);
      *factor = power(*factor - *(vec*)(with->top + x));
      *total *= *factor;
    }
    raise(VECTORS_OF(queries) * LANES, count, with->scores[0], with->top, with->total);
    weigh(queries, count, with, v + (size_t)first * KEY_ROW, first == 0, first + PART >= end, out);
  }
}

#if BIASED
#define GIVE_BIAS bias,
#define BIAS_AT(b, h, i) bias + (size_t)(b) * BIAS_BATCH + (size_t)(h) * BIAS_HEAD + (size_t)(i) * BIAS_ROW,
#else
#define GIVE_BIAS
#define BIAS_AT(b, h, i)
#endif

static void whole_panel(int from, const float* q, const float* k, const float* v, BIAS_PARAMETER float* out) {
  panel(WIDTH, from, q, k, v, GIVE_BIAS out);
}

static void last_panel(int from, const float* q, const float* k, const float* v, BIAS_PARAMETER float* out) {
  panel(LAST, from, q, k, v, GIVE_BIAS out);
}

void attention(
    const float* restrict q, const float* restrict k, const float* restrict v, BIAS_PARAMETER float* restrict out) {
#pragma omp parallel for collapse(3) schedule(dynamic) if ((size_t)BATCH * HEADS * QUERIES * KEYS * SIZE > 100000)
  for (int b = 0; b < BATCH; ++b)
    for (int h = 0; h < HEADS; ++h)
      for (int i = 0; i < QUERIES; i += WIDTH) {
        const size_t keys = (size_t)b * KEY_BATCH + (size_t)(h / GROUP) * KEY_HEAD;
        (LAST < WIDTH && i + WIDTH > QUERIES ? last_panel : whole_panel)(
            i, q + (size_t)b * QUERY_BATCH + (size_t)h * QUERY_HEAD + (size_t)i * QUERY_ROW, k + KEYS_FROM + keys,
            v + VALUES_FROM + keys, BIAS_AT(b, h, i) out + (size_t)b * OUT_BATCH + (size_t)h * OUT_HEAD + (size_t)i * OUT_ROW);
      }
}
