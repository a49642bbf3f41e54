// Winograd's convolution, NCHW, float32, stride 1, by filters that were transformed ahead of time:
// [POINTS, CO, CI]. A tile is TILE x TILE outputs and what they meet, ALPHA x ALPHA elements of each
// input channel. A task owns BLOCK output channels and PANELS panels of WIDTH tiles of one image. It
// transforms what CHANNELS input channels have at its tiles, multiplies for each point of the
// transform by itself, and transforms the sums back once all channels are in.
#define ALPHA (TILE + KERNEL - 1)
#define POINTS (ALPHA * ALPHA)
#define ACROSS ((OW + TILE - 1) / TILE)
#define TILES (ACROSS * ((OH + TILE - 1) / TILE))
#define GROUP (PANELS * WIDTH)
// A line of neighbouring tiles, as long as a whole one.
#define LINE (SMALLER(ACROSS, GROUP) * TILE + KERNEL - 1 + LANES)

static const float input_matrix[ALPHA][ALPHA] = INPUT_MATRIX;    // B transposed
static const float output_matrix[TILE][ALPHA] = OUTPUT_MATRIX;  // A transposed

typedef struct {
  float panels[POINTS][PANELS][CHANNELS][WIDTH] __attribute__((aligned(64)));
  float sums[POINTS][BLOCK][GROUP];
  // Of one channel: element j of row i of each tile.
  float met[ALPHA][ALPHA][GROUP];
  float results[TILE][TILE][GROUP];
  float lines[ALPHA][LINE];
} Scratch;

// Of each thread, and kept from call to call: fresh memory would be mapped anew page by page.
static _Thread_local Scratch scratch __attribute__((aligned(64)));

// Neighbouring tiles of one row of tiles: the place of the first among those of a task, how many,
// and where the first output pixel is.
typedef struct {
  int at, count, y, x;
} Stretch;

static inline Stretch stretch_at(int at, int first, int count) {
  const int row = (first + at) / ACROSS, column = (first + at) % ACROSS;
  return (Stretch){at, SMALLER(ACROSS - column, count - at), row * TILE, column * TILE};
}

// One row of a matrix, times numbers; what is multiplied by 0 is left out.
INLINED vec combine(const float row[ALPHA], const vec numbers[ALPHA]) {
  vec sum = {0};
#pragma GCC unroll 16
  for (int i = 0; i < ALPHA; ++i)
    if (row[i] != 0.0f) sum += row[i] * numbers[i];
  return sum;
}

// Copies the line of a channel that row i of some tiles meets, with the padding.
static inline void cut(float* restrict to, const float* restrict plane, Stretch s, int i) {
  const int y = s.y + i - PY, x = s.x - PX, width = s.count * TILE + KERNEL - 1;
  const int is_inside = y >= 0 && y < IH;
  const int first = is_inside ? SMALLER(width, LARGER(0, -x)) : width;
  const int end = is_inside ? LARGER(first, SMALLER(width, IW - x)) : width;
  memset(to, 0, first * sizeof(float));
  if (first < end)
    memcpy(to + first, plane + (size_t)y * IW + x + first, (end - first) * sizeof(float));
  memset(to + end, 0, (width - end) * sizeof(float));
}

// Transforms the rows of neighbouring tiles, and parts the tiles.
static inline void enter(Scratch* restrict to, const float* restrict plane, Stretch s) {
  for (int i = 0; i < ALPHA; ++i) cut(to->lines[i], plane, s, i);
  for (int x = 0; x < s.count * TILE + KERNEL - 1; x += LANES) {
    vec column[ALPHA];
#pragma GCC unroll 16
    for (int i = 0; i < ALPHA; ++i) column[i] = *(const vec*)(to->lines[i] + x);
#pragma GCC unroll 16
    for (int i = 0; i < ALPHA; ++i)
      *(vec*)(to->lines[i] + x) = combine(input_matrix[i], column);
  }
  for (int i = 0; i < ALPHA; ++i)
    for (int t = 0; t < s.count; ++t)
#pragma GCC unroll 16
      for (int j = 0; j < ALPHA; ++j) to->met[i][j][s.at + t] = to->lines[i][t * TILE + j];
}

// Transforms what `count` tiles from `first` on meet of some channels.
static void transform(
    Scratch* restrict to, const float* restrict image, int channels, int first, int count) {
  for (int c = 0; c < channels; ++c, image += (size_t)IH * IW) {
    for (int at = 0; at < count;) {
      const Stretch s = stretch_at(at, first, count);
      enter(to, image, s);
      at += s.count;
    }
    for (int t = 0; t < count; t += LANES)
      for (int i = 0; i < ALPHA; ++i) {
        vec row[ALPHA];
#pragma GCC unroll 16
        for (int j = 0; j < ALPHA; ++j) row[j] = *(const vec*)(to->met[i][j] + t);
#pragma GCC unroll 16
        for (int j = 0; j < ALPHA; ++j)
          *(vec*)(to->panels[i * ALPHA + j][t / WIDTH][c] + t % WIDTH) =
              combine(input_matrix[j], row);
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
      for (int p = 0; p * WIDTH < count; ++p)
        strip(
            SMALLER(ROWS, rows - m), channels, weight + (size_t)m * LDA, with->panels[e][p][0],
            with->sums[e][m] + p * WIDTH, &columns, first, 0, (Rest){0}, (p + 1) * WIDTH >= count);
}

// Writes a line of outputs after what follows the sums; `at` is its place in a channel.
static inline void put_line(
    float* restrict out, const float* restrict line, int count, int channel, size_t at,
    const Rest rest) {
  const float bias = BIAS ? rest.bias[channel] : 0.0f;
  const float scale = AFFINE ? rest.scale[channel] : 1.0f;
  const float shift = AFFINE ? rest.shift[channel] : 0.0f;
  const float* residual = rest.residual + RESIDUAL * at;
  for (int x = 0; x < count; ++x) {
    float sum = line[x] + bias;
    if (RESIDUAL) sum += residual[x];
    if (AFFINE) sum = sum * scale + shift;
    out[at + x] = RELU && sum < 0.0f ? 0.0f : sum;
  }
}

// Transforms the sums of one output channel back, for all tiles of a task.
static inline void restore(Scratch* restrict of, int row, int count) {
  for (int t = 0; t < count; t += LANES) {
    vec half[TILE][ALPHA];
#pragma GCC unroll 16
    for (int i = 0; i < ALPHA; ++i) {
      vec points[ALPHA];
#pragma GCC unroll 16
      for (int j = 0; j < ALPHA; ++j)
        points[j] = *(const vec*)(of->sums[i * ALPHA + j][row] + t);
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

static void give_back(
    Scratch* restrict of, float* restrict out, int m0, int rows, int first, int count,
    const Rest rest) {
  for (int m = 0; m < rows; ++m) {
    restore(of, m, count);
    for (int at = 0; at < count;) {
      const Stretch s = stretch_at(at, first, count);
      for (int y = 0; y < SMALLER(TILE, OH - s.y); ++y) {
        float* line = of->lines[0];
        for (int t = 0; t < s.count; ++t)
#pragma GCC unroll 16
          for (int x = 0; x < TILE; ++x) line[t * TILE + x] = of->results[y][x][at + t];
        const size_t place = (size_t)(m0 + m) * OH * OW + (size_t)(s.y + y) * OW + s.x;
        put_line(out, line, SMALLER(s.count * TILE, OW - s.x), m0 + m, place, rest);
      }
      at += s.count;
    }
  }
}

// Of what follows the sum, parameters of what there is none are never read.
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
        const Rest rest = {bias, residual + RESIDUAL * whole, scale, shift};
        give_back(&scratch, out + whole, m, rows, first, count, rest);
      }
}
