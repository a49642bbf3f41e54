// Convolution, NCHW, float32, with neighbouring filters in the lanes of a vector. A task owns BLOCK_M
// filters and LINES lines of one image; a step adds to the sums of ROWS neighbours of a line what an
// element of each gives, times WIDTH filters. Elements are read one by one, wherever they lie: so
// nothing is unfolded. What is turned instead are filters, for each task, and sums, once.
#define TAPS (KH * KW)
#define PIXELS (OH * OW)
#define DEPTH (CI * TAPS)
// Lines of the image are copied with the padding around them, where there is any, and else read where
// they lie: then what the next tile but one meets is fetched with each channel. Short vectors come
// with tiles of few pixels, which would fetch the same again and again.
#define COPIES (LANES <= 8 || PY || PX || (OH - 1) * SY + KH > IH || (OW - 1) * SX + KW > IW)
#if COPIES
#define HELD_LINES ((LINES - 1) * SY + KH)
#define COLUMNS ((OW - 1) * SX + KW)
#define PLANE (HELD_LINES * COLUMNS)
#define COPIED (CI * PLANE)
#else
#define COLUMNS IW
#define PLANE (IH * IW)
#define COPIED 1
#endif
#define NEXT ((KH - 1) * COLUMNS + 2 * ROWS * SX)

typedef float two __attribute__((vector_size(8), aligned(4), may_alias));
typedef float four __attribute__((vector_size(16), aligned(4), may_alias));
typedef float eight __attribute__((vector_size(32), aligned(4), may_alias));

typedef struct {
  float filters[DEPTH][WIDTH];
  float planes[COPIED];
} Scratch;

// Of each thread, and kept from call to call: fresh memory would be mapped anew page by page.
static _Thread_local Scratch scratch __attribute__((aligned(64)));

// Turns `count` filters, so that they lie side by side; zeros stand for those that are missing.
static void pack(Scratch* to, const float* restrict weight, int count) {
  for (int v = 0; v < WIDTH; v += LANES)
    for (int k = 0; k < DEPTH; k += LANES) {
      const int some = SMALLER(LANES, DEPTH - k);
      vec block[LANES];
      for (int i = 0; i < LANES; ++i) {
        const float* from = weight + (size_t)(v + i) * DEPTH + k;
        block[i] = (vec){0};
        if (v + i >= count) continue;
        if (some == LANES) block[i] = *(const vec*)from;
        else memcpy(&block[i], from, some * sizeof *from);
      }
      turn(block);
      for (int i = 0; i < some; ++i) *(vec*)(to->filters[k + i] + v) = block[i];
    }
}

#if COPIES
// Copies what `lines` output lines from `line` on meet.
static void fill(float* restrict to, const float* restrict image, int line, int lines) {
  const int left = SMALLER(PX, COLUMNS), columns = SMALLER(COLUMNS - left, IW);
  for (int c = 0; c < CI; ++c, image += IH * IW, to += PLANE)
    for (int r = 0; r < (lines - 1) * SY + KH; ++r) {
      const int y = line * SY + r - PY;
      float* row = to + r * COLUMNS;
      if (r % SY >= KH) continue;  // between lines of filters that lie far apart
      if (y < 0 || y >= IH) {
        memset(row, 0, COLUMNS * sizeof *row);
        continue;
      }
      for (int x = 0; x < left; ++x) row[x] = 0.0f;
      memcpy(row + left, image + (size_t)y * IW, columns * sizeof *row);
      for (int x = left + columns; x < COLUMNS; ++x) row[x] = 0.0f;
    }
}
#endif

// Writes the first `count` elements of a vector, parts of which are stored from registers: what goes
// through memory in one size and back in others is waited for.
INLINED void put_some(float* to, vec from, const int count) {
#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ < 12
  memcpy(to, &from, count * sizeof *to);
#else
  if (count == LANES) {
    *(vec*)to = from;
    return;
  }
#if LANES > 8
  if (count & 8) {
    *(eight*)to = WOVEN(from, from, 0, 1, 2, 3, 4, 5, 6, 7);
    from = WOVEN(from, from, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7), to += 8;
  }
#endif
#if LANES > 4
  if (count & 4) {
    *(four*)to = WOVEN(from, from, 0, 1, 2, 3);
    const four rest = WOVEN(from, from, 4, 5, 6, 7);
    if (count & 2) *(two*)(to + 4) = WOVEN(rest, rest, 0, 1);
    if (count & 1) to[4 + (count & 2)] = rest[count & 2];
    return;
  }
#endif
  if (count & 2) *(two*)to = WOVEN(from, from, 0, 1);
  if (count & 1) to[count & 2] = from[count & 2];
#endif
}

// Finishes the sums of some pixels of a line, of `filters` filters, and writes them.
INLINED void write_turned(
    vec sum[ROWS][VECTORS], const int pixels, int filters, const Rest rest, float* restrict out) {
#pragma GCC unroll 4
  for (int x = 0; x < pixels; x += LANES)
#pragma GCC unroll 8
    for (int v = 0; v < VECTORS; ++v) {
      const int some = SMALLER(LANES, pixels - x);
      vec block[LANES];
#pragma GCC unroll 16
      for (int i = 0; i < LANES; ++i) block[i] = i < some ? sum[x + i][v] : (vec){0};
      turn(block);
#pragma GCC unroll 16
      for (int i = 0; i < LANES; ++i) {
        const int filter = v * LANES + i;
        const size_t at = (size_t)filter * LDC + x;
        if (filter >= filters) break;
        vec other = {0}, before;
        if (RESIDUAL) memcpy(&other, rest.residual + at, some * sizeof *out);
        finish(&block[i], rest, filter, &other, &before);
        if (KEPT) put_some(rest.kept + at, before, some);
        put_some(out + at, block[i], some);
      }
    }
}

// Fetches what some pixels of all filters will be written over, while their sums are made.
INLINED void fetch_written(const int pixels, const float* out) {
#pragma GCC unroll 1
  for (int i = 0; i < WIDTH; ++i, out += LDC)
    __builtin_prefetch(out, 1), __builtin_prefetch(out + pixels - 1, 1);
}

// Steps of many sums are not written out: GCC would move these from register to register between them.
#if LANES > 8
#define WRITTEN_OUT _Pragma("GCC unroll 1")
#else
#define WRITTEN_OUT _Pragma("GCC unroll 8")
#endif

INLINED void tile(
    const int pixels, int filters, const float* restrict from, const float* restrict filter,
    const Rest rest, float* restrict out) {
  vec sum[ROWS][VECTORS];
  fetch_written(pixels, out);
#pragma GCC unroll 16
  for (int i = 0; i < pixels; ++i)
#pragma GCC unroll 8
    for (int v = 0; v < VECTORS; ++v) sum[i][v] = (vec){0};
  for (int c = 0; c < CI; ++c, from += PLANE) {
    if (!COPIES) __builtin_prefetch(from + NEXT, 0, 2);
    WRITTEN_OUT
    for (int i = 0; i < KH; ++i)
      WRITTEN_OUT
      for (int j = 0; j < KW; ++j, filter += WIDTH)
        step(sum, pixels, from + i * COLUMNS + j, filter);
  }
  write_turned(sum, pixels, filters, rest, out);
}

// Computes a line: whole tiles first, then what is left in ever smaller ones.
static void strip(
    int filters, const float* from, const float* filter, const Rest rest, float* restrict out) {
  int x = 0;
#define TILES(count)                                          \
  for (; count <= ROWS && x + count <= OW; x += count) \
    tile(count, filters, from + x * SX, filter, rest_at(rest, 0, x), out + x)
  TILES(ROWS);
  TILES(8);
  TILES(4);
  TILES(2);
  TILES(1);
#undef TILES
}

static void task(
    int m0, int line, const float* restrict image, const float* restrict weight, const Rest rest,
    float* restrict out) {
  const int lines = SMALLER(LINES, OH - line), end = SMALLER(m0 + BLOCK_M, CO);
  Scratch* with = &scratch;
  // GCC 12 would look up the address of what is a thread's own anew in the innermost loop.
  __asm__("" : "+r"(with));
#if COPIES
  fill(with->planes, image, line, lines);
  const float* from = with->planes;
#else
  const float* from = image + line * SY * IW;
#endif
  for (int m = m0; m < end; m += WIDTH) {
    const int filters = SMALLER(WIDTH, end - m);
    pack(with, weight + (size_t)m * DEPTH, filters);
    for (int y = 0; y < lines; ++y)
      strip(
          filters, from + y * SY * COLUMNS, with->filters[0],
          rest_at(rest, m, (line + y) * OW), out + (size_t)m * PIXELS + (line + y) * OW);
  }
}

// Of what follows the sum, parameters of what there is none are never read.
void conv2d_nchw(
    const float* restrict data, const float* restrict weight, const float* restrict bias,
    const float* restrict residual, const float* restrict scale, const float* restrict shift,
    KEPT_PARAMETER float* restrict out) {
#pragma omp parallel for collapse(3) schedule(dynamic)
  for (int n = 0; n < BATCH; ++n)
    for (int m = 0; m < CO; m += BLOCK_M)
      for (int y = 0; y < OH; y += LINES) {
        const Rest rest = {bias, residual + RESIDUAL * (size_t)n * CO * PIXELS, scale, shift,
                           KEPT_AT((size_t)n * CO * PIXELS)};
        task(m, y, data + (size_t)n * CI * IH * IW, weight, rest, out + (size_t)n * CO * PIXELS);
      }
}
