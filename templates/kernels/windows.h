// Windows over the planes of NCHW images, float32: a filter for each channel (OPERATION 0), the
// maximum (1) or the average (2). What all kernels of them share: vectors of neighbouring outputs, and
// what follows their sums.
#include <math.h>
#include <string.h>

#define SMALLER(a, b) ((a) < (b) ? (a) : (b))
#define LARGER(a, b) ((a) > (b) ? (a) : (b))
#define REACH_Y ((KH - 1) * DY)
#define REACH_X ((KW - 1) * DX)
#define VECTORS ((OW + LANES - 1) / LANES)
#define NOTHING (OPERATION == 1 ? -INFINITY : 0.0f)
#define INLINED static inline __attribute__((always_inline))

#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__)
#pragma GCC target("tune=generic")
#endif

typedef float vec __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef int bits __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

static inline vec larger(vec a, vec b) {
  const bits first = a > b;
  return (vec)((first & (bits)a) | (~first & (bits)b));
}

// How many elements of a window that begins at `first` lie in an image of `extent`.
static inline int inside(int first, int taps, int step, int extent) {
  int count = 0;
  for (int i = 0; i < taps; ++i) count += first + i * step >= 0 && first + i * step < extent;
  return LARGER(count, 1);
}

static inline vec finished(vec sum, float bias, float scale, float shift, vec residual) {
  if (BIAS) sum += bias;
  if (RESIDUAL) sum += residual;
  if (AFFINE) sum = sum * scale + shift;
  if (ACTIVATION) sum = (vec)((bits)sum & ~(sum < 0.0f));
  if (ACTIVATION == 2) sum = -larger(-sum, (vec){0} - 6.0f);
  return sum;
}

// Writes the outputs from `at` on of line `y`, after what follows their sums.
INLINED void put(
    float* restrict out, const float* restrict residual, vec sum, int y, int at, float bias,
    float scale, float shift) {
  const int count = SMALLER(LANES, OW - at);
  vec other = {0};
  if (RESIDUAL) memcpy(&other, residual + at, count * sizeof(float));
  if (OPERATION == 2) {
    const int tall = COUNT_PADDING ? KH : inside(y * SY - PY, KH, DY, IH);
    vec counts = {0};
    for (int x = 0; x < LANES; ++x)
      counts[x] = tall * (COUNT_PADDING ? KW : inside((at + x) * SX - PX, KW, DX, IW));
    sum /= counts;
  }
  sum = finished(sum, bias, scale, shift, other);
  if (count == LANES) *(vec*)(out + at) = sum;
  else memcpy(out + at, &sum, count * sizeof(float));
}
