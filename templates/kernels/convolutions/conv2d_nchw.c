// Convolution, NCHW, float32, as a matrix product of the filters and the im2col matrix of the input. A task owns BLOCK
// output channels and PANELS panels of WIDTH output pixels of one image. It packs the im2col matrix of CHANNELS input
// channels of its panels at a time, which then stays in cache for all its filters, and prefetches the image rows that
// are packed next meanwhile. A remainder of TAIL pixels is too small for a panel: each is a dot product for each
// filter. Where the im2col matrix is the image, or every SX-th pixel of its lines (1x1 filters, no padding), panels may
// be read IN_PLACE; this pays for few filters. With strides no panel extends beyond its line, and the first tile of filters
// packs it for the others.
#ifdef _OPENMP
int omp_get_num_threads(void);
#define THREADS omp_get_num_threads()
#else
#define THREADS 1
#endif
#define TAPS (KH * KW)
// Rows and columns that a filter spans.
#define REACH_Y ((KH - 1) * DY + 1)
#define REACH_X ((KW - 1) * DX + 1)
#define PIXELS (OH * OW)
#define DEPTH (CHANNELS * TAPS)
#define PANEL_PIXELS (PIXELS - TAIL)
// Filters that are multiplied by a panel before the next panel.
#define TOGETHER (IN_PLACE ? BLOCK : ROWS)
// Whether an output pixel depends on one input pixel, and whether neighbours depend on neighbours.
#define IS_PLAIN (TAPS == 1 && !PY && !PX && (OH - 1) * SY < IH && (OW - 1) * SX < IW)
#define IS_WHOLE (IS_PLAIN && SY == 1 && SX == 1)
// Pixels in a row that panels divide, how many panels these are, and the columns of the last one.
#define ROW_PIXELS (IN_PLACE && !IS_WHOLE ? OW : PANEL_PIXELS)
#define ROW_PANELS ((ROW_PIXELS + WIDTH - 1) / WIDTH)
#define LAST LAST_OF(ROW_PIXELS)
#define ALL_PANELS (PANEL_PIXELS / ROW_PIXELS * ROW_PANELS)
// The first pixel of a panel.
#define PIXEL_OF(panel) ((panel) / ROW_PANELS * ROW_PIXELS + (panel) % ROW_PANELS * WIDTH)
// Upper bounds for a task: rows of output pixels, the input patch that they depend on, and their pixels.
#define MOST_ROWS SMALLER(OH, (PANELS * WIDTH + TAIL - 2 + OW) / OW + 1)
#define PATCH_ROWS ((MOST_ROWS - 1) * SY + REACH_Y)
#define PATCH_COLUMNS ((OW - 1) * SX + REACH_X)
#define LINE (MOST_ROWS * OW + WIDTH)

typedef struct {
  float panels[(IN_PLACE ? COPIED : PANELS) * DEPTH * WIDTH + IN_PLACE] __attribute__((aligned(64)));
  float tail[TAIL * DEPTH + 1];
  float patch[PATCH_ROWS * PATCH_COLUMNS];
  float lines[KW][LINE];
} Scratch;

// Per thread, and kept between calls: the pages of new memory would be mapped again.
static _Thread_local Scratch scratch __attribute__((aligned(64)));

// The pixels of a task: those of `panels` panels from panel `panel` on, the first pixel of which is `first` and the last
// of which may be partial, then `tail` more.
typedef struct {
  int panel, first, panels, tail;
} Span;

// The bounding rectangle of the output pixels of a span, whole rows where there are several.
typedef struct {
  int y, x, rows, columns;
} Box;

static Box box_of(Span span, int end) {
  const int y = span.first / OW, rows = (end - 1) / OW - y + 1, x = rows > 1 ? 0 : span.first % OW;
  return (Box){y, x, rows, rows > 1 ? OW : end - span.first};
}

// Copies the input patch of a box, of one channel; the padding was set to zero before.
static void copy_patch(float* restrict patch, const float* restrict plane, Box box) {
  const int width = (box.columns - 1) * SX + REACH_X, height = (box.rows - 1) * SY + REACH_Y;
  const int y0 = box.y * SY - PY, x0 = box.x * SX - PX, left = LARGER(0, -x0);
  const int columns = SMALLER(width, IW - x0) - left;
  for (int y = LARGER(0, -y0); y < SMALLER(height, IH - y0); ++y)
    for (int x = 0; x < columns; ++x)
      patch[y * width + left + x] = plane[(y0 + y) * IW + x0 + left + x];
}

// Writes the im2col rows of the taps of one filter row, for the pixels of a box in order.
static inline __attribute__((always_inline)) void im2col_rows(
    float (*restrict lines)[LINE], const float* restrict patch, const int rows, const int columns) {
  const int width = (columns - 1) * SX + REACH_X;
  for (int j = 0; j < KW; ++j)
    for (int y = 0; y < rows; ++y)
      for (int x = 0; x < columns; ++x)
        lines[j][y * columns + x] = patch[y * SY * width + x * SX + j * DX];
}

// Copies an im2col row to the panels, the last of which may be partial, and to the tail.
static inline void scatter_row(
    Scratch* restrict to, const float* restrict line, int k, Span span, int pixels) {
  float* row = to->panels + (size_t)k * WIDTH;
  int x = 0;
  for (; x + WIDTH <= pixels; x += WIDTH, row += DEPTH * WIDTH)
    copy_floats(row, line + x, WIDTH);
  if (x < pixels) copy_floats(row, line + x, pixels - x);
  for (int t = 0; t < span.tail; ++t) to->tail[t * DEPTH + k] = line[pixels + t];
}

// im2col of a span: row c * TAPS + tap of a panel has the input of filter tap `tap` of channel c.
static void im2col(
    Scratch* restrict to, const float* restrict image, int channels, Span span) {
  const int pixels = SMALLER(span.panels * WIDTH, PANEL_PIXELS - span.first);
#if IS_WHOLE
  for (int c = 0; c < channels; ++c)
    scatter_row(to, image + (size_t)c * PIXELS + span.first, c, span, pixels);
#else
  const Box box = box_of(span, span.first + pixels + span.tail);
  const int width = (box.columns - 1) * SX + REACH_X, start = span.first - box.y * OW - box.x;
  if (!IS_PLAIN) memset(to->patch, 0, sizeof to->patch);
  for (int c = 0; c < channels; ++c) {
    const float* plane = image + (size_t)c * IH * IW;
    if (IS_PLAIN) {
      for (int y = 0; y < box.rows; ++y) {
        const float* line = plane + (box.y + y) * SY * IW + box.x * SX;
        if (box.columns == OW) gather(to->lines[0] + y * OW, line, OW);
        else gather(to->lines[0] + y * box.columns, line, box.columns);
      }
      scatter_row(to, to->lines[0] + start, c, span, pixels);
      continue;
    }
    copy_patch(to->patch, plane, box);
    for (int i = 0; i < KH; ++i) {
      if (box.columns == OW)
        im2col_rows(to->lines, to->patch + i * DY * width, box.rows, OW);
      else
        im2col_rows(to->lines, to->patch + i * DY * width, box.rows, box.columns);
      for (int j = 0; j < KW; ++j)
        scatter_row(to, to->lines[j] + start, c * TAPS + i * KW + j, span, pixels);
    }
  }
#endif
}

// Returns the image row that a tile prefetches, or NULL: of the next channels of a span, or of the first channels of
// this thread's next span, if all threads are equally fast.
static const float* next_of(int tile, int c0, Span span, const float* image) {
  int channel = c0 + CHANNELS, pixel = span.first, end = CI;
  if (channel >= CI) channel = 0, pixel += THREADS * PANELS * WIDTH, end = SMALLER(CHANNELS, CI);
  const int some = (SMALLER(DEPTH, CI * TAPS) + LINE_FLOATS - 1) / LINE_FLOATS * FETCHED, line = tile % FETCH_LINES;
  channel += tile / FETCH_LINES * some;
  if (channel + some > end || pixel >= PIXELS) return NULL;
  const float* plane = image + (size_t)channel * IH * IW;
  if (IS_WHOLE) return plane + pixel + line * WIDTH;
  const int y = pixel / OW * SY - PY + line * (REACH_Y < SY ? SY : 1);
  return y < 0 || y >= IH ? NULL : plane + (size_t)y * IW;
}

// Dot products of the pixels of the tail and `rows` filters; adds or writes them as `tile` does.
static void dots(
    int rows, int depth, const float* restrict a, const float* restrict b, float* restrict c,
    int first, int last, const EpilogueArgs epilogue) {
  for (int t = 0; t < TAIL; ++t)
    for (int i = 0; i < rows; ++i) {
      const float* filter = a + (size_t)i * LDA;
      float* to = c + (size_t)i * LDC + t;
      vec sums[4] = {{0}};
      int k = 0;
      for (; k + 4 * LANES <= depth; k += 4 * LANES)
#pragma GCC unroll 4
        for (int v = 0; v < 4; ++v)
          sums[v] += *(const vec*)(filter + k + v * LANES) *
                     *(const vec*)(b + t * DEPTH + k + v * LANES);
      for (; k + LANES <= depth; k += LANES)
        sums[0] += *(const vec*)(filter + k) * *(const vec*)(b + t * DEPTH + k);
      const vec all = (sums[0] + sums[1]) + (sums[2] + sums[3]);
      vec sum = {first ? 0.0f : *to};
      for (int v = 0; v < LANES; ++v) sum[0] += all[v];
      for (; k < depth; ++k) sum[0] += filter[k] * b[t * DEPTH + k];
      if (last) {
        const vec other = {RESIDUAL ? epilogue.residual[(size_t)i * LDC + t] : 0.0f};
        vec before;
        finish(&sum, epilogue, i, &other, &before);
        if (KEPT) epilogue.kept[(size_t)i * LDC + t] = before[0];
      }
      *to = sum[0];
    }
}

static void task(
    int m0, Span span, const float* restrict image, const float* restrict weight,
    const EpilogueArgs epilogue, float* restrict out) {
  Scratch* const packed = &scratch;
  const int rows = SMALLER(BLOCK, CO - m0);
  for (int c0 = 0; c0 < CI; c0 += CHANNELS) {
    const int channels = SMALLER(CHANNELS, CI - c0), last = c0 + CHANNELS >= CI;
    if (!IN_PLACE) im2col(packed, image + (size_t)c0 * IH * IW, channels, span);
    for (int m = 0; m < rows; m += TOGETHER) {
      const float* filters = weight + (size_t)(m0 + m) * LDA + c0 * TAPS;
      const int some = SMALLER(TOGETHER, rows - m);
      float* to = out + (size_t)(m0 + m) * PIXELS;
      for (int p = 0; p < span.panels; ++p) {
        const int pixel = PIXEL_OF(span.panel + p);
        const float* panel = IN_PLACE ? image + (size_t)c0 * IH * IW + (pixel / OW * IW * SY + pixel % OW * SX)
                                      : packed->panels + (size_t)p * DEPTH * WIDTH;
        const int tile = m / ROWS * span.panels + p;
        const float* next = FETCHED ? next_of(tile, c0, span, image) : NULL;
#define STRIP(wide)                                                                       \
  const Columns columns = first_columns(wide);                                            \
  strip(                                                                                  \
      wide, IN_PLACE ? IH * IW : WIDTH, some, channels * TAPS, filters, panel, to + pixel, \
      &columns, c0 == 0, last, epilogue_at(epilogue, m0 + m, pixel),                              \
      IN_PLACE || p + 1 == span.panels, next, COPIED ? packed->panels : NULL)
        if (LAST < WIDTH && (span.panel + p) % ROW_PANELS == ROW_PANELS - 1) {
          STRIP(LAST);
        } else {
          STRIP(WIDTH);
        }
#undef STRIP
      }
      if (span.tail)
        dots(some, channels * TAPS, filters, packed->tail, to + PANEL_PIXELS, c0 == 0, last,
             epilogue_at(epilogue, m0 + m, PANEL_PIXELS));
    }
  }
  const int after = span.panel + span.panels, end = after == ALL_PANELS ? PIXELS : PIXEL_OF(after);
  follow_rows(out + (size_t)m0 * PIXELS + span.first, rows, PIXELS, end - span.first);
  (void)end;
}

// Epilogue operands that the kernel does not have are never read.
void conv2d_nchw(
    const float* restrict data, const float* restrict weight, const float* restrict bias,
    const float* restrict residual, const float* restrict scale, const float* restrict shift,
    KEPT_PARAMETER float* restrict out) {
#pragma omp parallel for collapse(3) schedule(dynamic)
  for (int n = 0; n < BATCH; ++n)
    for (int m = 0; m < CO; m += BLOCK)
      for (int p = 0; p < ALL_PANELS; p += PANELS) {
        const int left = ALL_PANELS - p;
        const Span span = {p, PIXEL_OF(p), SMALLER(PANELS, left), left <= PANELS ? TAIL : 0};
        const EpilogueArgs epilogue = epilogue_of((EpilogueArgs){bias, residual, scale, shift, KEPT_OR_NULL}, n, CO);
        task(m, span, data + (size_t)n * CI * IH * IW, weight + WEIGHT_OF(n), epilogue, out + (size_t)n * CO * PIXELS);
      }
}
