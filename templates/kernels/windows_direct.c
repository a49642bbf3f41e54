// Windows over planes that are read where they lie. The sums of LINES neighbouring lines are made
// together in registers, so that what several of them meet is loaded once. Elements of the padding
// are what a vector finds beyond a line, and are replaced by nothing; lines of it are a line of nothing.
#define GROUP SMALLER(LINES, OH)
#define LEFT_OVER (OH % GROUP)
// How far vectors reach over the beginning and the end of a line.
#define BEFORE PX
#define REACHED ((VECTORS * LANES - 1) * SX + REACH_X - PX + (SX - 1) * LANES + 1)
#define AFTER LARGER(0, REACHED - IW)
#define PIXELS (IH * IW)
#define TOTAL ((size_t)BATCH * CHANNELS * PIXELS)

// Of each thread: a copy of a plane at the beginning or the end of the images, beyond which lies nothing
// that may be read.
static _Thread_local float margins[BEFORE + PIXELS + AFTER] __attribute__((aligned(64)));

typedef struct {
  const float *image, *taps, *nothing;
  float bias, scale, shift;
} Plane;

#if SX == 2
#if LANES == 16
#define EVENS 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30
#elif LANES == 8
#define EVENS 0, 2, 4, 6, 8, 10, 12, 14
#else
#define EVENS 0, 2, 4, 6
#endif
#endif

// What element `j` of a row of the window meets of a line, for the outputs from `at` on.
INLINED vec met_by(
    const int j, const float* line, const int at, const int is_left, const int is_right) {
  const int first = at * SX + j * DX - PX;
  vec met;
#if SX == 1
  met = *(const vec*)(line + first);
#elif SX == 2
  met = WOVEN(*(const vec*)(line + first), *(const vec*)(line + first + LANES), EVENS);
#else
#pragma GCC unroll 16
  for (int x = 0; x < LANES; ++x) met[x] = line[first + x * SX];
#endif
  const int low = (is_left ? 0 : LANES) * SX + j * DX - PX;
  const int high = is_right ? ((VECTORS - 1) * LANES + LANES - 1) * SX + j * DX - PX : 0;
  if (low >= 0 && high < IW) return met;
  bits exists;
#pragma GCC unroll 16
  for (int x = 0; x < LANES; ++x) {
    const int left = (is_left ? x : LANES) * SX + j * DX - PX;
    const int right = is_right ? ((VECTORS - 1) * LANES + x) * SX + j * DX - PX : 0;
    exists[x] = -(left >= 0 && right < IW);
  }
  const vec nothing = (vec){0} + NOTHING;
  return (vec)(((bits)met & exists) | ((bits)nothing & ~exists));
}

// Writes vectors of outputs, the first of line `y`, of neighbouring lines.
INLINED void vectors_of(
    const int lines, const Plane* plane, int y, const int at, const int is_left, const int is_right,
    const float* restrict residual, float* restrict out) {
  vec sum[LINES];
#pragma GCC unroll 16
  for (int l = 0; l < lines; ++l) sum[l] = (vec){0} + NOTHING;
#pragma GCC unroll 64
  for (int r = 0; r < (lines - 1) * SY + REACH_Y + 1; ++r) {
    const int from = y * SY - PY + r;
    const float* line = from >= 0 && from < IH ? plane->image + from * IW : plane->nothing;
#pragma GCC unroll 16
    for (int j = 0; j < KW; ++j) {
      const vec met = met_by(j, line, at, is_left, is_right);
#pragma GCC unroll 16
      for (int i = 0; i < KH; ++i) {
        const int l = (r - i * DY) / SY;
        if (r < i * DY || (r - i * DY) % SY || l >= lines) continue;
        if (OPERATION == 0) sum[l] += met * plane->taps[i * KW + j];
        if (OPERATION == 1) sum[l] = larger(sum[l], met);
        if (OPERATION == 2) sum[l] += met;
      }
    }
  }
#pragma GCC unroll 16
  for (int l = 0; l < lines; ++l)
    put(out + l * OW, residual + RESIDUAL * l * OW, sum[l], y + l, at, plane->bias, plane->scale,
        plane->shift);
}

// Writes neighbouring lines of outputs.
INLINED void lines_of(
    const int lines, const Plane* plane, int y, const float* restrict residual,
    float* restrict out) {
  const int last = (VECTORS - 1) * LANES;
  vectors_of(lines, plane, y, 0, 1, VECTORS == 1, residual, out);
#pragma GCC unroll 1
  for (int at = LANES; at < last; at += LANES)
    vectors_of(lines, plane, y, at, 0, 0, residual, out);
  if (VECTORS > 1) vectors_of(lines, plane, y, last, 0, 1, residual, out);
}

// Of what follows the sum, and of filters, parameters of what there is none are never read.
void windows(
    const float* restrict data, const float* restrict weight, const float* restrict bias,
    const float* restrict residual, const float* restrict scale, const float* restrict shift,
    float* restrict out) {
  float none[BEFORE + IW + AFTER];
  for (int x = 0; x < BEFORE + IW + AFTER; ++x) none[x] = NOTHING;
#pragma omp parallel for collapse(2) schedule(static)
  for (int c = 0; c < BATCH * CHANNELS; ++c)
    for (int y = 0; y < OH; y += GROUP) {
      const size_t begin = (size_t)c * PIXELS;
      const float* image = data + begin;
      if (begin < BEFORE || begin + PIXELS + AFTER > TOTAL)
        image = memcpy(margins + BEFORE, image, PIXELS * sizeof *image);
      for (int m = 0; m < MULTIPLIER; ++m) {
        const int filter = c % CHANNELS * MULTIPLIER + m;
        const Plane plane = {
            image, weight + (OPERATION ? 0 : filter * KH * KW), none + BEFORE,
            BIAS ? bias[filter] : 0.0f, AFFINE ? scale[filter] : 1.0f, AFFINE ? shift[filter] : 0.0f};
        const size_t to = (((size_t)c * MULTIPLIER + m) * OH + y) * OW;
        const float* other = residual + RESIDUAL * to;
        if (LEFT_OVER && y + GROUP > OH) lines_of(LEFT_OVER, &plane, y, other, out + to);
        else lines_of(GROUP, &plane, y, other, out + to);
      }
    }
}
