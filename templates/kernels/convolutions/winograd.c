// Winograd convolution (Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks", 2016), NCHW, float32,
// stride 1, by filters that were transformed ahead of time: [POINTS, CO, CI]. A tile is TILE x TILE outputs and their
// input, ALPHA x ALPHA elements of each input channel. A task owns BLOCK output channels and a GROUP of tiles of one
// image. It transforms the input tiles of CHANNELS channels, multiplies for each point of the transform, and applies
// the output transform after all channels.
#define ALPHA (TILE + KERNEL - 1)
#define POINTS (ALPHA * ALPHA)
#define TILES_X ((OW + TILE - 1) / TILE)
#define TILES_Y ((OH + TILE - 1) / TILE)
#define TILES (TILES_X * TILES_Y)
// Every TILE-th element of a row, of all tiles and one beyond, and the padding that vectors may read.
#define PHASE_TILES ((TILES_X + 4) / 4 * 4)
#define PHASE (PHASE_TILES + LANES)
// Elements of an input row that are copied.
#define HELD LARGER(0, SMALLER(IW, PHASE_TILES * TILE - PX))
// Most input rows of the tiles of a task.
#define LINES (SMALLER(TILES_Y, (GROUP + TILES_X - 2) / TILES_X + 1) * TILE + KERNEL - 1)

static const float input_matrix[ALPHA][ALPHA] = INPUT_MATRIX;    // B transposed
static const float output_matrix[TILE][ALPHA] = OUTPUT_MATRIX;  // A transposed

typedef struct {
  // Padded by a cache line for each point, so that points do not all map to the same set of the cache.
  float panels[POINTS][CHANNELS * PITCH + 16] __attribute__((aligned(64)));
  float sums[POINTS][BLOCK * GROUP + 16];
  float phases[LINES][TILE][PHASE];
  float lines[LINES][PHASE_TILES * TILE];  // their padding stays 0
  float results[TILE][TILE][GROUP];
  float pixels[GROUP * TILE];
} Scratch;

// Per thread, and kept between calls: the pages of new memory would be mapped again.
static _Thread_local Scratch scratch __attribute__((aligned(64)));

// Neighbouring tiles of one row of tiles: the index of the first among those of a task, their number, and the row and
// column of the first in the image.
typedef struct {
  int at, count, row, column;
} TileRun;

static inline TileRun tile_run_at(int at, int first, int count) {
  const int row = (first + at) / TILES_X, column = (first + at) % TILES_X;
  return (TileRun){at, SMALLER(TILES_X - column, count - at), row, column};
}

// Dot product with a row of a matrix; zeros are skipped.
INLINED vec combine(const float row[ALPHA], const vec numbers[ALPHA]) {
  vec sum = {0};
#pragma GCC unroll 16
  for (int i = 0; i < ALPHA; ++i)
    if (row[i] != 0.0f) sum += row[i] * numbers[i];
  return sum;
}

// Deinterleaving of a row into TILE phases, and interleaving of them: for tiles of 4 these are 4 x 4 transposes.
typedef float quad __attribute__((vector_size(16), aligned(4), may_alias));
#ifdef __clang__
#define SHUFFLE_QUADS(a, b, i, j, k, l) __builtin_shufflevector(a, b, i, j, k, l)
#else
typedef int indices __attribute__((vector_size(16)));
#define SHUFFLE_QUADS(a, b, i, j, k, l) __builtin_shuffle(a, b, (indices){i, j, k, l})
#endif

INLINED void transpose(quad to[4], const quad from[4]) {
  const quad low = SHUFFLE_QUADS(from[0], from[1], 0, 4, 1, 5), high = SHUFFLE_QUADS(from[0], from[1], 2, 6, 3, 7);
  const quad low2 = SHUFFLE_QUADS(from[2], from[3], 0, 4, 1, 5), high2 = SHUFFLE_QUADS(from[2], from[3], 2, 6, 3, 7);
  to[0] = SHUFFLE_QUADS(low, low2, 0, 1, 4, 5), to[1] = SHUFFLE_QUADS(low, low2, 2, 3, 6, 7);
  to[2] = SHUFFLE_QUADS(high, high2, 0, 1, 4, 5), to[3] = SHUFFLE_QUADS(high, high2, 2, 3, 6, 7);
}

static inline void deinterleave(float (*restrict to)[PHASE], const float* restrict line) {
  for (int t = 0; t < PHASE_TILES; t += 4) {
    quad from[TILE], made[TILE];
    for (int i = 0; i < TILE; ++i) from[i] = *(const quad*)(line + t * TILE + 4 * i);
#if TILE == 4
    transpose(made, from);
#else
    made[0] = SHUFFLE_QUADS(from[0], from[1], 0, 2, 4, 6), made[1] = SHUFFLE_QUADS(from[0], from[1], 1, 3, 5, 7);
#endif
    for (int i = 0; i < TILE; ++i) *(quad*)(to[i] + t) = made[i];
  }
}

static inline void interleave(float* restrict line, const float (*restrict from)[GROUP]) {
  for (int t = 0; t < GROUP; t += 4) {
    quad given[TILE], made[TILE];
    for (int i = 0; i < TILE; ++i) given[i] = *(const quad*)(from[i] + t);
#if TILE == 4
    transpose(made, given);
#else
    made[0] = SHUFFLE_QUADS(given[0], given[1], 0, 4, 1, 5), made[1] = SHUFFLE_QUADS(given[0], given[1], 2, 6, 3, 7);
#endif
    for (int i = 0; i < TILE; ++i) *(quad*)(line + t * TILE + 4 * i) = made[i];
  }
}

// Deinterleaves `count` input rows of a channel from tile row `row` on, with the padding. All are
// copied first, since unaligned loads soon after the stores would fail store forwarding.
static inline void fill(Scratch* restrict to, const float* restrict plane, int row, int count) {
  const int above = SMALLER(count, LARGER(0, PY - row * TILE));
  const int end = LARGER(above, SMALLER(count, IH + PY - row * TILE));
  for (int r = above; r < end; ++r) {
    const float* from = plane + (size_t)(row * TILE + r - PY) * IW;
    int x = 0;
    for (; x + LANES <= HELD; x += LANES) *(vec*)(to->lines[r] + PX + x) = *(const vec*)(from + x);
    for (; x < HELD; ++x) to->lines[r][PX + x] = from[x];
  }
  for (int r = above; r < end; ++r) deinterleave(to->phases[r], to->lines[r]);
  for (int r = 0; r < count; ++r)
    if (r < above || r >= end)
      memset(to->phases[r], 0, sizeof to->phases[r]);
}

// Input transform of neighbouring tiles of channel `c`; `row` is the first tile row of the phases.
static inline void transform_input(Scratch* restrict to, int c, TileRun s, int row) {
  const float (*lines)[TILE][PHASE] = to->phases + (s.row - row) * TILE;
  for (int t = 0; t < s.count; t += LANES) {
    vec half[ALPHA][ALPHA];
#pragma GCC unroll 16
    for (int j = 0; j < ALPHA; ++j) {
      vec input[ALPHA];
#pragma GCC unroll 16
      for (int i = 0; i < ALPHA; ++i)
        input[i] = *(const vec*)(lines[i][j % TILE] + s.column + t + j / TILE);
#pragma GCC unroll 16
      for (int i = 0; i < ALPHA; ++i) half[i][j] = combine(input_matrix[i], input);
    }
#pragma GCC unroll 16
    for (int i = 0; i < ALPHA; ++i)
#pragma GCC unroll 16
      for (int j = 0; j < ALPHA; ++j)
        *(vec*)(to->panels[i * ALPHA + j] + c * PITCH + s.at + t) = combine(input_matrix[j], half[i]);
  }
}

// Input transform of `count` tiles from `first` on, of some channels.
static void transform(
    Scratch* restrict to, const float* restrict image, int channels, int first, int count) {
  const int row = first / TILES_X, lines = ((first + count - 1) / TILES_X - row) * TILE + ALPHA;
  for (int c = 0; c < channels; ++c, image += (size_t)IH * IW) {
    fill(to, image, row, lines);
    for (int at = 0; at < count;) {
      const TileRun s = tile_run_at(at, first, count);
      transform_input(to, c, s, row);
      at += s.count;
    }
  }
}

// Adds the products of some channels to the sums of all points, or writes them.
static void multiply(
    Scratch* restrict with, const float* restrict weight, int rows, int channels, int count,
    int first) {
  const Columns columns = first_columns(WIDTH);
  for (int e = 0; e < POINTS; ++e, weight += (size_t)CO * CI)
    for (int m = 0; m < rows; m += ROWS)
      for (int t = 0; t < count; t += WIDTH)
        strip(
            WIDTH, PITCH, SMALLER(ROWS, rows - m), channels, weight + (size_t)m * LDA,
            with->panels[e] + t, with->sums[e] + m * GROUP + t, &columns, first, 0, (EpilogueArgs){0},
            t + WIDTH >= count, NULL, NULL);
}

// Output transform of a channel.
static inline void transform_output(Scratch* restrict of, int channel, int count) {
  for (int t = 0; t < count; t += LANES) {
    vec half[TILE][ALPHA];
#pragma GCC unroll 16
    for (int i = 0; i < ALPHA; ++i) {
      vec points[ALPHA];
#pragma GCC unroll 16
      for (int j = 0; j < ALPHA; ++j)
        points[j] = *(const vec*)(of->sums[i * ALPHA + j] + channel * GROUP + t);
#pragma GCC unroll 16
      for (int x = 0; x < TILE; ++x) half[x][i] = combine(output_matrix[x], points);
    }
#pragma GCC unroll 16
    for (int x = 0; x < TILE; ++x)
#pragma GCC unroll 16
      for (int y = 0; y < TILE; ++y)
        *(vec*)(of->results[y][x] + t) = combine(output_matrix[y], half[x]);
  }
}

// Applies the epilogue to neighbouring outputs of a channel, and writes them.
static inline void write_row(
    float* restrict out, const float* restrict line, int count, const EpilogueArgs epilogue) {
  for (int x = 0; x < count; ++x) {
    float sum = line[x];
    if (BIAS) sum += epilogue.bias[0];
    if (RESIDUAL) sum += epilogue.residual[x];
    if (AFFINE) sum = sum * epilogue.scale[0] + epilogue.shift[0];
    out[x] = RELU && sum < 0.0f ? 0.0f : sum;
  }
}

// Returns the epilogue arguments of an output channel, from a pixel on.
static inline EpilogueArgs epilogue_at_pixel(EpilogueArgs all, size_t channel, size_t pixel) {
  if (BIAS) all.bias += channel;
  if (RESIDUAL) all.residual += channel * OH * OW + pixel;
  if (AFFINE) all.scale += channel, all.shift += channel;
  return all;
}

static void write_outputs(
    Scratch* restrict of, float* restrict out, int m0, int rows, int first, int count,
    const EpilogueArgs epilogue) {
  for (int m = 0; m < rows; ++m) {
    transform_output(of, m, count);
    for (int y = 0; y < TILE; ++y) {
      interleave(of->pixels, of->results[y]);
      for (int at = 0; at < count;) {
        const TileRun s = tile_run_at(at, first, count);
        at += s.count;
        if (s.row * TILE + y >= OH) continue;
        const int x = s.column * TILE, pixel = (s.row * TILE + y) * OW + x;
        write_row(
            out + (size_t)(m0 + m) * OH * OW + pixel, of->pixels + s.at * TILE,
            SMALLER(s.count * TILE, OW - x), epilogue_at_pixel(epilogue, m0 + m, pixel));
      }
    }
  }
}

// Epilogue operands that the kernel does not have are never read.
void winograd_conv2d(
    const float* restrict data, const float* restrict weight, const float* restrict bias,
    const float* restrict residual, const float* restrict scale, const float* restrict shift,
    float* restrict out) {
#pragma omp parallel for collapse(3) schedule(dynamic)
  for (int n = 0; n < BATCH; ++n)
    for (int m = 0; m < CO; m += BLOCK)
      for (int first = 0; first < TILES; first += GROUP) {
        const int rows = SMALLER(BLOCK, CO - m), count = SMALLER(GROUP, TILES - first);
        const float* image = data + (size_t)n * CI * IH * IW;
        for (int c = 0; c < CI; c += CHANNELS) {
          const int channels = SMALLER(CHANNELS, CI - c);
          transform(&scratch, image + (size_t)c * IH * IW, channels, first, count);
          multiply(&scratch, weight + (size_t)m * LDA + c, rows, channels, count, c == 0);
        }
        const size_t whole = (size_t)n * CO * OH * OW;
        const EpilogueArgs epilogue = {bias, residual + RESIDUAL * whole, scale, shift};
        write_outputs(&scratch, out + whole, m, rows, first, count, epilogue);
      }
}
