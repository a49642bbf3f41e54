// Convolution by 1x1 filters of every second pixel, NCHW, float32, for few filters: loading the lines of the image takes
// about as long as the arithmetic. A task owns all filters and LINES lines of the output of one image. While it multiplies
// a line of CHUNK channels, it packs that of the next channels into the other of two buffers, in the order of memory, which
// the hardware prefetcher follows, and prefetches the line of a channel some channels later, as many cache lines ahead as
// a core can wait for.
#define PIXELS (OH * OW)
#define PLANE (IH * IW)
// Channels of the parts of a sum, which are of one size but the last.
#define PARTS ((CI + CHANNELS - 1) / CHANNELS)
#define CHUNK ((CI + PARTS - 1) / PARTS)
// Vectors of a packed line, its pitch, the panels of a line, and the columns of the last one.
#define LINE_VECTORS ((OW + LANES - 1) / LANES)
#define PITCH (LINE_VECTORS * LANES)
#define LINE_PANELS ((OW + WIDTH - 1) / WIDTH)
#define LAST LAST_OF(OW)
// Tiles of a line; the vectors that a step of a tile packs, or else the steps in which it packs one.
#define TILES (LINE_PANELS * ((CO + ROWS - 1) / ROWS))
#define EACH ((LINE_VECTORS + TILES - 1) / TILES)
#define STEPS LARGER(1, TILES / LINE_VECTORS)
// Line fill buffers of a core, most of which may wait for what is prefetched; channels that this is ahead.
#define WAITING 14
#define DISTANCE SMALLER(CI, (WAITING * LINE_FLOATS + SX * OW - 1) / (SX * OW))

// Per thread, and kept between calls: the pages of new memory would be mapped again.
static _Thread_local float packed[2][CHUNK * PITCH] __attribute__((aligned(64)));

// What is packed next: a vector of the line of a channel.
typedef struct {
  const float *line, *later;
  float* to;
  int vector, channel;
} Cursor;

// Returns the line that is met DISTANCE channels after that of a channel.
INLINED const float* later(const float* line, const int channel) {
  return line + (ptrdiff_t)DISTANCE * PLANE + (channel + DISTANCE < CI ? 0 : SY * IW - (ptrdiff_t)CI * PLANE);
}

INLINED Cursor cursor_at(const float* image, const int line, const int part, float* to) {
  const float* from = image + (size_t)part * CHUNK * PLANE + (size_t)line * SY * IW;
  return (Cursor){from, later(from, part * CHUNK), to, 0, part * CHUNK};
}

INLINED void pack_one(Cursor* at) {
  const int x = LARGER(0, SMALLER(at->vector * LANES, OW - LANES));
  for (int j = 0; j < SX * LANES; j += LINE_FLOATS) __builtin_prefetch(at->later + SX * x + j);
  *(vec*)(at->to + x) = load_every_second(at->line + SX * x, SMALLER(OW, LANES));
  if (++at->vector < LINE_VECTORS) return;
  at->vector = 0, at->line += PLANE, at->to += PITCH;
  at->later = later(at->line, ++at->channel);
}

// Multiplies `rows` filters by a panel of `depth` channels; packs `count` vectors meanwhile.
INLINED void tile(
    const int wide, const int rows, int depth, int count, const float* restrict a, const float* restrict b,
    float* restrict c, const int first, const int last, const EpilogueArgs epilogue, Cursor* next) {
  vec sum[ROWS][VECTORS];
  const Columns columns = first_columns(wide);
  const int read = VECTORS_OF(wide) * LANES;
  Cursor at = *next;
#pragma GCC unroll 16
  for (int i = 0; i < rows; ++i)
#pragma GCC unroll 8
    for (int v = 0; v < VECTORS_OF(wide); ++v) sum[i][v] = (vec){0};
  HIDE(depth);
  int k = 0;
  for (; k + STEPS <= depth && count >= EACH; count -= EACH) {
#pragma GCC unroll 8
    for (int i = 0; i < EACH; ++i) pack_one(&at);
#pragma GCC unroll 8
    for (int i = 0; i < STEPS; ++i, ++k) narrow_step(sum, read, 0, rows, a + k, b + k * PITCH, NULL);
  }
  for (; count > 0; --count) pack_one(&at);
  *next = at;
  for (; k < depth; ++k) narrow_step(sum, read, 0, rows, a + k, b + k * PITCH, NULL);
  store_tile(sum, wide, rows, c, &columns, first, last, epilogue);
}

// Multiplies all filters by a line of some channels; packs `count` vectors meanwhile, a share of them with each tile.
static void line_of(
    int part, int count, const float* restrict weight, const float* restrict b, float* restrict out,
    const EpilogueArgs epilogue, Cursor* next) {
  const int channels = SMALLER(CHUNK, CI - part * CHUNK);
  for (int m = 0, t = 0; m < CO; m += ROWS)
    for (int x = 0; x < OW; x += WIDTH, ++t) {
      const int share = count * (t + 1) / TILES - count * t / TILES;
#define TILE_OF(wide, height)                                                                          \
  tile(                                                                                                \
      wide, height, channels, share, weight + (size_t)m * LDA + part * CHUNK, b + x,                   \
      out + (size_t)m * LDC + x, part == 0, part + 1 == PARTS, epilogue_at(epilogue, m, x), next)
      const int is_last = LAST < WIDTH && x + WIDTH > OW;
      if (ROWS_LEFT && m + ROWS > CO) {
        if (is_last) TILE_OF(LAST, ROWS_LEFT);
        else TILE_OF(WIDTH, ROWS_LEFT);
      } else {
        if (is_last) TILE_OF(LAST, ROWS);
        else TILE_OF(WIDTH, ROWS);
      }
#undef TILE_OF
    }
}

static void task(
    int line, const float* restrict image, const float* restrict weight, const EpilogueArgs epilogue,
    float* restrict out) {
  const int chunks = SMALLER(LINES, OH - line) * PARTS;
  float(*const buffers)[CHUNK * PITCH] = packed;
  Cursor next = cursor_at(image, line, 0, buffers[0]);
  for (int n = SMALLER(CHUNK, CI) * LINE_VECTORS; n > 0; --n) pack_one(&next);
  for (int i = 0; i < chunks; ++i) {
    const int y = line + i / PARTS, below = (i + 1) % PARTS;
    const int count = i + 1 < chunks ? SMALLER(CHUNK, CI - below * CHUNK) * LINE_VECTORS : 0;
    next = cursor_at(image, line + (i + 1) / PARTS, below, buffers[(i + 1) % 2]);
    line_of(i % PARTS, count, weight, buffers[i % 2], out + y * OW, epilogue_at(epilogue, 0, y * OW), &next);
    if (i % PARTS == PARTS - 1) follow_rows(out + y * OW, CO, LDC, OW);
  }
}

// Epilogue operands that the kernel does not have are never read.
void conv2d_nchw(
    const float* restrict data, const float* restrict weight, const float* restrict bias,
    const float* restrict residual, const float* restrict scale, const float* restrict shift,
    KEPT_PARAMETER float* restrict out) {
#pragma omp parallel for collapse(2) schedule(dynamic)
  for (int n = 0; n < BATCH; ++n)
    for (int y = 0; y < OH; y += LINES) {
      const EpilogueArgs epilogue = epilogue_of((EpilogueArgs){bias, residual, scale, shift, KEPT_OR_NULL}, n, CO);
      task(y, data + (size_t)n * CI * PLANE, weight + WEIGHT_OF(n), epilogue, out + (size_t)n * CO * PIXELS);
    }
}
