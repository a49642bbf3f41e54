// Depthwise convolution and pooling over planes that are read in place. LINES neighbouring output rows are computed
// together in registers, so that shared input is loaded once. Elements that a vector loads beyond a row are masked; all
// rows of the padding are one row of identities (0, or -infinity for max pooling). SX is 1 or 2.
#define GROUP SMALLER(LINES, OH)
#define REMAINDER (OH % GROUP)
// Elements that vectors load before and after a row. Those of the row of identities must be initialised too: they are
// added up, though not written, and denormals there would make it ten times as slow.
#define BEFORE PX
#define AFTER LARGER(0, VECTORS * LANES * SX + REACH_X - PX - IW)
#define PIXELS (IH * IW)
#define TOTAL ((size_t)BATCH * CHANNELS * PIXELS)
// Image rows that a group of output rows reads.
#define INPUT_ROWS ((GROUP - 1) * SY + REACH_Y + 1)
_Static_assert(
    PX <= LANES * SX && (VECTORS == 1 || ((VECTORS - 1) * LANES - 1) * SX + REACH_X - PX <= IW),
    "only the first vector of a line meets the padding at its left, and only the last that at its right");

// Per thread: copies of the first and the last rows of the images, where loads would be out of bounds.
static _Thread_local float margins[BEFORE + INPUT_ROWS * IW + AFTER] __attribute__((aligned(64)));

// A plane from row `top` on, its filter and its epilogue arguments.
typedef struct {
  const float *lines, *taps, *identity;
  int top;
  float bias, scale, shift;
} Plane;

#if SX == 2
#if LANES == 16
#define EVENS 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30
#define ODDS 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31
#elif LANES == 8
#define EVENS 0, 2, 4, 6, 8, 10, 12, 14
#define ODDS 1, 3, 5, 7, 9, 11, 13, 15
#else
#define EVENS 0, 2, 4, 6
#define ODDS 1, 3, 5, 7
#endif
#endif

// The input of tap `j` of a filter row in an image row, for the outputs from `at` on.
INLINED vec load_input(
    const int j, const float* line, const int at, const int is_left, const int is_right) {
  // Two taps of a maximum share what they load of every second element.
  const int odd = OPERATION == 1 && j * DX % SX, first = at * SX + j * DX - PX - odd;
  vec input = *(const vec*)(line + first);
#if SX == 2
  const vec high = *(const vec*)(line + first + LANES);
  input = odd ? SHUFFLE(input, high, ODDS) : SHUFFLE(input, high, EVENS);
#endif
  // Outputs beyond the line are not written.
  bits exists;
  int all = 1;
#pragma GCC unroll 16
  for (int x = 0; x < LANES; ++x) {
    const int from = x * SX + j * DX - PX, end = from + (VECTORS - 1) * LANES * SX;
    const int is_inside = (!is_left || from >= 0) && (!is_right || end < IW || x >= LAST);
    exists[x] = -is_inside, all &= is_inside;
  }
  if (all) return input;
  const vec identity = (vec){0} + IDENTITY;
  return (vec)(((bits)input & exists) | ((bits)identity & ~exists));
}

// Whether windows of the last outputs of a line reach beyond what the first taps of whole vectors of outputs load.
#define HAS_TAIL (SMALLER(IW + PX, (OW - 1) * SX + REACH_X + 1) > VECTORS * LANES * SX)

// The largest of each window of an image row; adds to `found` where elements of the row are NaN. The first taps of all
// vectors load all elements but those that only the last windows reach.
INLINED vec row_maxima(const float* line, const int at, const int is_left, const int is_right, Found* found) {
  const float* first = line + at * SX - PX;
  *found = find_nan(*found, *(const vec*)first, *(const vec*)(first + (SX - 1) * LANES));
  vec largest = load_input(0, line, at, is_left, is_right);
#pragma GCC unroll 16
  for (int j = 1; j < KW; ++j) {
    const vec input = load_input(j, line, at, is_left, is_right);
    if (HAS_TAIL && j * DX >= SX && (is_right || REACH_X > LANES * SX)) *found = find_nan(*found, input, input);
    largest = larger_of(input, largest);
  }
  return largest;
}

// Computes a vector of outputs of each of some neighbouring rows, the first of which is `y`. Windows of several rows have
// the maxima of an image row in common.
INLINED void compute_vectors(
    const int lines, const Plane* plane, int y, const int at, const int is_left, const int is_right,
    const float* restrict residual, float* restrict out, Found* found) {
  vec sum[LINES];
#pragma GCC unroll 16
  for (int l = 0; l < lines; ++l) sum[l] = (vec){0} + IDENTITY;
#pragma GCC unroll 64
  for (int r = 0; r < (lines - 1) * SY + REACH_Y + 1; ++r) {
    const int from = y * SY - PY + r;
    const float* line =
        from >= 0 && from < IH ? plane->lines + (from - plane->top) * IW : plane->identity;
    vec largest;
    if (OPERATION == 1) largest = row_maxima(line, at, is_left, is_right, found);
#pragma GCC unroll 16
    for (int j = 0; j < (OPERATION == 1 ? 1 : KW); ++j) {
      const vec input = OPERATION == 1 ? largest : load_input(j, line, at, is_left, is_right);
#pragma GCC unroll 16
      for (int i = 0; i < KH; ++i) {
        const int l = (r - i * DY) / SY;
        if (r < i * DY || (r - i * DY) % SY || l >= lines) continue;
        if (OPERATION == 0) sum[l] += input * plane->taps[i * KW + j];
        if (OPERATION == 1) sum[l] = i ? larger_of(input, sum[l]) : input;
        if (OPERATION == 2) sum[l] += input;
      }
    }
  }
#pragma GCC unroll 16
  for (int l = 0; l < lines; ++l)
    store_outputs(out + l * OW, residual + RESIDUAL * l * OW, sum[l], y + l, at, !is_left && !is_right,
        plane->bias, plane->scale, plane->shift);
}

// Computes neighbouring rows of outputs.
INLINED void compute_rows(
    const int lines, const Plane* plane, int y, const float* restrict residual,
    float* restrict out, Found* found) {
  const int last = (VECTORS - 1) * LANES;
  compute_vectors(lines, plane, y, 0, 1, VECTORS == 1, residual, out, found);
#pragma GCC unroll 1
  for (int at = LANES; at < last; at += LANES)
    compute_vectors(lines, plane, y, at, 0, 0, residual, out, found);
  if (VECTORS > 1) compute_vectors(lines, plane, y, last, 0, 1, residual, out, found);
}

// Filters and epilogue operands that the kernel does not have are never read.
void windows(
    const float* restrict data, const float* restrict weight, const float* restrict bias,
    const float* restrict residual, const float* restrict scale, const float* restrict shift,
    float* restrict out) {
  float identities[BEFORE + IW + AFTER];
  for (int x = 0; x < BEFORE + IW + AFTER; ++x) identities[x] = IDENTITY;
#pragma omp parallel for collapse(2) schedule(static)
  for (int c = 0; c < BATCH * CHANNELS; ++c)
    for (int y = 0; y < OH; y += GROUP) {
      const int top = LARGER(0, y * SY - PY), end = SMALLER(IH, y * SY - PY + INPUT_ROWS);
      const size_t begin = (size_t)c * PIXELS + top * IW, pixels = LARGER(0, end - top) * IW;
      const float* lines = data + begin;
      if (begin < BEFORE || begin + pixels + AFTER > TOTAL)
        lines = memcpy(margins + BEFORE, lines, pixels * sizeof *lines);
      for (int m = 0; m < MULTIPLIER; ++m) {
        const int filter = c % CHANNELS * MULTIPLIER + m;
        const Plane plane = {
            lines, weight + (OPERATION ? 0 : filter * KH * KW), identities + BEFORE, top,
            BIAS ? bias[filter] : 0.0f, AFFINE ? scale[filter] : 1.0f, AFFINE ? shift[filter] : 0.0f};
        const size_t to = (((size_t)c * MULTIPLIER + m) * OH + y) * OW;
        const float* other = residual + RESIDUAL * to;
        const int count = SMALLER(GROUP, OH - y);
        Found found = {0};
        if (REMAINDER && count < GROUP) compute_rows(REMAINDER, &plane, y, other, out + to, &found);
        else compute_rows(GROUP, &plane, y, other, out + to, &found);
#if OPERATION == 1
        if (is_any(found)) write_nans(lines, top, y, count, out + to);
#endif
        follow_rows(out + to, 1, 0, (long)count * OW);
      }
    }
}
