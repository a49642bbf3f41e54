// Convolution, NCHW, float32, vectorised over output channels. A task owns BLOCK_M filters and LINES
// rows of one image; a step broadcasts one element for each of ROWS neighbouring pixels, and
// multiplies it by WIDTH filters. No im2col is needed, and products with the padding are skipped:
// filter rows at the first and the last image rows, filter columns at both ends of a row. Filters are
// transposed instead, once AHEAD of all tasks or CHANNELS at a time for each task, and sums once.
#define TAPS (KH * KW)
// Rows and columns that a filter spans.
#define REACH_Y ((KH - 1) * DY + 1)
#define REACH_X ((KW - 1) * DX + 1)
#define PIXELS (OH * OW)
#define DEPTH (CI * TAPS)
// Channels of the parts of a sum, which are of one size but the last.
#define PARTS ((CI + CHANNELS - 1) / CHANNELS)
#define CHUNK ((CI + PARTS - 1) / PARTS)
// Blocks of WIDTH filters of a task, and vectors of the last one of all.
#define BLOCKS ((SMALLER(BLOCK_M, CO) + WIDTH - 1) / WIDTH)
#define LAST_VECTORS (((CO - 1) % WIDTH) / LANES + 1)
// Image rows are copied, CHUNK channels at a time, with the padding around them, if there is any, unless they are read
// IN_PLACE: products with the padding are skipped. If each pixel depends on one, or a stride skips lines, the same pixels
// of the next line are prefetched with each channel.
#define PADDED (PY || PX || (OH - 1) * SY + REACH_Y > IH || (OW - 1) * SX + REACH_X > IW)
#define COPIES (!IN_PLACE && ((LANES <= 8 && TAPS > 1) || PADDED))
#if COPIES
#define HELD_LINES ((LINES - 1) * SY + REACH_Y)
#define COLUMNS ((OW - 1) * SX + REACH_X)
#define PLANE (HELD_LINES * COLUMNS)
#define COPIED (CHUNK * PLANE)
#else
#define COLUMNS IW
#define PLANE (IH * IW)
#define COPIED 1
#endif
#define NEXT (SY * COLUMNS)
#define NEXT_FLOATS (ROWS * SX)
// Floats of a cache line.
#define LINE 16

typedef float two __attribute__((vector_size(8), aligned(4), may_alias));
typedef float four __attribute__((vector_size(16), aligned(4), may_alias));
typedef float eight __attribute__((vector_size(32), aligned(4), may_alias));

typedef struct {
  float filters[AHEAD ? 1 : CHUNK * TAPS][WIDTH];
  float sums[CHUNK < CI ? BLOCKS * LINES * OW : 1][WIDTH];
  float planes[COPIED];
} Scratch;

// Per thread, and kept between calls: the pages of new memory would be mapped again.
static _Thread_local Scratch scratch __attribute__((aligned(64)));

// Transposes LANES elements of LANES filters, of which `depth` and `height` exist.
INLINED void transpose_block(
    float* restrict to, const float* restrict from, const int height, const int depth) {
  vec block[LANES];
#pragma GCC unroll 16
  for (int i = 0; i < LANES; ++i) {
    block[i] = (vec){0};
    if (i >= height) continue;
    if (depth == LANES) block[i] = *(const vec*)(from + (size_t)i * DEPTH);
    else memcpy(&block[i], from + (size_t)i * DEPTH, depth * sizeof *from);
  }
  transpose_vectors(block);
#pragma GCC unroll 16
  for (int i = 0; i < LANES; ++i)
    if (i < depth) *(vec*)(to + i * WIDTH) = block[i];
}

// Transposes `depth` elements of `count` filters, padded with zeros to whole vectors.
static void pack(float* restrict to, const float* restrict weight, int depth, int count) {
  for (int v = 0; v < SMALLER(WIDTH, count); v += LANES) {
    const float* from = weight + (size_t)v * DEPTH;
    float* part = to + v;
    int k = 0;
    if (v + LANES <= count)
      for (; k + LANES <= depth; k += LANES)
        transpose_block(part + (size_t)k * WIDTH, from + k, LANES, LANES);
    for (; k < depth; k += LANES)
      transpose_block(
          part + (size_t)k * WIDTH, from + k, SMALLER(LANES, count - v), SMALLER(LANES, depth - k));
  }
}

#if COPIES
// Copies the input of `lines` output rows from `line` on, of some channels.
static void fill(float* restrict to, const float* restrict image, int channels, int line, int lines) {
  const int left = SMALLER(PX, COLUMNS), columns = SMALLER(COLUMNS - left, IW);
  for (int c = 0; c < channels; ++c, image += IH * IW, to += PLANE)
    for (int r = 0; r < (lines - 1) * SY + REACH_Y; ++r) {
      const int y = line * SY + r - PY;
      float* row = to + r * COLUMNS;
      // Rows of the padding are never read, nor are those that the stride skips.
      if (y < 0 || y >= IH || r % SY >= REACH_Y) continue;
      for (int x = 0; x < left; ++x) row[x] = 0.0f;
      copy_floats(row + left, image + (size_t)y * IW, columns);
      for (int x = left + columns; x < COLUMNS; ++x) row[x] = 0.0f;
    }
}
#endif

// Writes the first `count` elements of a vector in parts, from registers: a reload of another size
// would fail store forwarding.
INLINED void store_partial(float* to, vec from, const int count) {
#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ < 12
  memcpy(to, &from, count * sizeof *to);
#else
  if (count == LANES) {
    *(vec*)to = from;
    return;
  }
#if LANES > 8
  if (count & 8) {
    *(eight*)to = SHUFFLE(from, from, 0, 1, 2, 3, 4, 5, 6, 7);
    from = SHUFFLE(from, from, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7), to += 8;
  }
#endif
#if LANES > 4
  if (count & 4) {
    *(four*)to = SHUFFLE(from, from, 0, 1, 2, 3);
    const four last = SHUFFLE(from, from, 4, 5, 6, 7);
    if (count & 2) *(two*)(to + 4) = SHUFFLE(last, last, 0, 1);
    if (count & 1) to[4 + (count & 2)] = last[count & 2];
    return;
  }
#endif
  if (count & 2) *(two*)to = SHUFFLE(from, from, 0, 1);
  if (count & 1) to[count & 2] = from[count & 2];
#endif
}

// Applies the epilogue to the sums of some pixels of a row, of `filters` filters, and writes them.
INLINED void write_transposed(
    vec sum[ROWS][VECTORS], const int vectors, const int pixels, int filters, const EpilogueArgs epilogue,
    float* restrict out) {
#pragma GCC unroll 4
  for (int x = 0; x < pixels; x += LANES)
#pragma GCC unroll 8
    for (int v = 0; v < vectors; ++v) {
      const int some = SMALLER(LANES, pixels - x);
      vec block[LANES];
#pragma GCC unroll 16
      for (int i = 0; i < LANES; ++i) block[i] = i < some ? sum[x + i][v] : (vec){0};
      transpose_vectors(block);
#pragma GCC unroll 16
      for (int i = 0; i < LANES; ++i) {
        const int filter = v * LANES + i;
        const size_t at = (size_t)filter * LDC + x;
        if (filter >= filters) break;
        vec other = {0}, before;
        if (RESIDUAL) memcpy(&other, epilogue.residual + at, some * sizeof *out);
        finish(&block[i], epilogue, filter, &other, &before);
        if (KEPT) store_partial(epilogue.kept + at, before, some);
        store_partial(out + at, block[i], some);
      }
    }
}

// Prefetches the output of some pixels of all filters while their sums are computed.
INLINED void prefetch_output(const int pixels, int filters, const float* out) {
#pragma GCC unroll 1
  for (int i = 0; i < filters; ++i, out += LDC)
    __builtin_prefetch(out, 1), __builtin_prefetch(out + pixels - 1, 1);
}

// First and last pixel of a tile whose tap j is inside the image.
INLINED int first_inside(const int j, const int is_left) {
  return is_left && j * DX < PX ? (PX - j * DX + SX - 1) / SX : 0;
}

INLINED int end_inside(const int pixels, const int j, const int is_right) {
  const int all = (IW - 1 + PX - j * DX + SX) / SX;
  return is_right && all < OW ? pixels - (OW - all) : pixels;
}

// A part of the sums of an output row: filter rows inside the image, number of channels, whether they are the first or
// the last, and the filters that are transposed next.
typedef struct {
  int top, bottom, channels, first, last;
  const float* next;
} Part;
// Filters that are prefetched during each row.
#define SHARE ((WIDTH + LINES - 1) / LINES)

INLINED void tile(
    const int vectors, const int pixels, const int is_left, const int is_right, int filters, const Part part,
    const float* restrict from, const float* restrict filter, float* restrict sums, const EpilogueArgs epilogue,
    float* restrict out) {
  vec sum[ROWS][VECTORS];
  if (part.last) prefetch_output(pixels, filters, out);
#pragma GCC unroll 16
  for (int i = 0; i < pixels; ++i)
#pragma GCC unroll 8
    for (int v = 0; v < vectors; ++v)
      sum[i][v] = part.first ? (vec){0} : *(const vec*)(sums + i * WIDTH + v * LANES);
  for (int c = 0; c < part.channels; ++c, from += PLANE, filter += TAPS * WIDTH) {
    if (!COPIES && (TAPS == 1 || REACH_Y < SY))
#pragma GCC unroll 4
      for (int x = 0; x < NEXT_FLOATS; x += LINE) __builtin_prefetch(from + NEXT + x, 0, 2);
    if (!AHEAD && CHUNK < CI && is_left)
#pragma GCC unroll 4
      for (int i = 0; i < SHARE; ++i)
#pragma GCC unroll 4
        for (int k = 0; k < TAPS; k += 16)
          __builtin_prefetch(part.next + (size_t)i * DEPTH + c * TAPS + k, 0, 2);
#pragma GCC unroll 1
    for (int i = part.top; i < part.bottom; ++i)
#pragma GCC unroll 16
      for (int j = 0; j < KW; ++j)
        narrow_step(
            sum, vectors * LANES, first_inside(j, is_left), end_inside(pixels, j, is_right),
            from + i * DY * COLUMNS + j * DX, filter + (i * KW + j) * WIDTH, NULL);
  }
  if (part.last) {
    write_transposed(sum, vectors, pixels, filters, epilogue, out);
    return;
  }
#pragma GCC unroll 16
  for (int i = 0; i < pixels; ++i)
#pragma GCC unroll 8
    for (int v = 0; v < vectors; ++v) *(vec*)(sums + i * WIDTH + v * LANES) = sum[i][v];
}

// Computes a row: whole tiles, then the remainder.
INLINED void strip(
    const int vectors, int filters, const Part part, const float* from, const float* filter, float* sums,
    const EpilogueArgs epilogue, float* restrict out) {
#define TILE(count, is_left, is_right)                                                       \
  tile(vectors, count, is_left, is_right, filters, part, from + x * SX, filter, sums + x * WIDTH,     \
       epilogue_at(epilogue, 0, x), out + x)
  int x = 0;
  if (ROWS <= OW) TILE(ROWS, 1, ROWS == OW);
  for (x = ROWS; x + ROWS + !ROWS_LEFT <= OW; x += ROWS) TILE(ROWS, 0, 0);
  if (!ROWS_LEFT && OW > ROWS) TILE(ROWS, 0, 1);
  if (ROWS_LEFT) x = OW - ROWS_LEFT, TILE(ROWS_LEFT, OW < ROWS, 1);
#undef TILE
}

static void whole_strip(
    int filters, const Part part, const float* from, const float* filter, float* sums,
    const EpilogueArgs epilogue, float* restrict out) {
  strip(VECTORS, filters, part, from, filter, sums, epilogue, out);
}

static void last_strip(
    int filters, const Part part, const float* from, const float* filter, float* sums,
    const EpilogueArgs epilogue, float* restrict out) {
  strip(LAST_VECTORS, filters, part, from, filter, sums, epilogue, out);
}

static void task(
    int m0, int line, const float* restrict image, const float* restrict weight,
    const float* restrict ahead, const EpilogueArgs epilogue, float* restrict out) {
  const int lines = SMALLER(LINES, OH - line), end = SMALLER(m0 + BLOCK_M, CO);
  Scratch* with = &scratch;
  // GCC 12 would recompute the thread-local address in the innermost loop.
  __asm__("" : "+r"(with));
  for (int c = 0; c < CI; c += CHUNK) {
    const int channels = SMALLER(CHUNK, CI - c);
#if COPIES
    fill(with->planes, image + (size_t)c * IH * IW, channels, line, lines);
    const float* from = with->planes;
#else
    const float* from = image + (line * SY - PY) * IW - PX + (size_t)c * PLANE;
#endif
    for (int m = m0; m < end; m += WIDTH) {
      const int filters = SMALLER(WIDTH, end - m);
      const float* these = weight + (size_t)m * DEPTH + c * TAPS;
      const float* next = these + (c + CHUNK < CI ? 0 : (size_t)(WIDTH - 1) * DEPTH) + channels * TAPS;
      const float* packed = ahead + (size_t)m * DEPTH + c * TAPS * WIDTH;
      if (!AHEAD) pack(with->filters[0], these, channels * TAPS, filters), packed = with->filters[0];
      for (int y = 0; y < lines; ++y) {
        const int above = PY - (line + y) * SY;
        const Part part = {(LARGER(0, above) + DY - 1) / DY, SMALLER(KH, (IH + above + DY - 1) / DY), channels, c == 0,
                           c + CHUNK >= CI,
                           next + (size_t)y * SHARE * DEPTH};
        (LAST_VECTORS < VECTORS && m + WIDTH > CO ? last_strip : whole_strip)(
            filters, part, from + y * SY * COLUMNS, packed,
            with->sums[CHUNK < CI ? ((m - m0) / WIDTH * LINES + y) * OW : 0],
            epilogue_at(epilogue, m, (line + y) * OW), out + (size_t)m * PIXELS + (line + y) * OW);
      }
    }
  }
  follow_rows(out + (size_t)m0 * PIXELS + line * OW, end - m0, PIXELS, lines * OW);
}

// The transposed filters of the group of an image, which are padded to whole blocks.
#define AHEAD_OF(n) (AHEAD ? (size_t)GROUP_OF(n) * ((CO + WIDTH - 1) / WIDTH * WIDTH) * DEPTH : 0)
#if AHEAD
#define AHEAD_PARAMETER , float* restrict ahead
#else
#define AHEAD_PARAMETER
#endif

// Epilogue operands that the kernel does not have are never read.
void conv2d_nchw(
    const float* restrict data, const float* restrict weight, const float* restrict bias,
    const float* restrict residual, const float* restrict scale, const float* restrict shift,
    KEPT_PARAMETER float* restrict out AHEAD_PARAMETER) {
#pragma omp parallel
  {
#if AHEAD
#pragma omp for collapse(2)
    for (int g = 0; g < GROUPS; ++g)
      for (int m = 0; m < CO; m += WIDTH)
        pack(ahead + AHEAD_OF(g) + (size_t)m * DEPTH, weight + WEIGHT_OF(g) + (size_t)m * DEPTH, DEPTH,
             SMALLER(WIDTH, CO - m));
#else
    const float* const ahead = weight;
#endif
#pragma omp for collapse(3) schedule(dynamic)
    for (int n = 0; n < BATCH; ++n)
      for (int m = 0; m < CO; m += BLOCK_M)
        for (int y = 0; y < OH; y += LINES) {
          const EpilogueArgs epilogue = epilogue_of((EpilogueArgs){bias, residual, scale, shift, KEPT_OR_NULL}, n, CO);
          task(m, y, data + (size_t)n * CI * IH * IW, weight + WEIGHT_OF(n), ahead + AHEAD_OF(n), epilogue,
               out + (size_t)n * CO * PIXELS);
        }
  }
}
