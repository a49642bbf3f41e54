// Shared by the CPU kernels of depthwise convolution (OPERATION 0), max (1) and average pooling (2) of
// NCHW images, float32: vectors of neighbouring outputs, and the epilogue.
#include <math.h>
#include <string.h>

#define SMALLER(a, b) ((a) < (b) ? (a) : (b))
#define LARGER(a, b) ((a) > (b) ? (a) : (b))
#define REACH_Y ((KH - 1) * DY)
#define REACH_X ((KW - 1) * DX)
#define VECTORS ((OW + LANES - 1) / LANES)
#define IDENTITY (OPERATION == 1 ? -INFINITY : 0.0f)
#define INLINED static inline __attribute__((always_inline))

#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__)
#pragma GCC target("tune=generic")
#endif

typedef float vec __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef int bits __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

// The larger of two, and the second beside a NaN. Of the general text GCC 12 makes a comparison and a choice.
static inline vec larger_of(vec a, vec b) {
#if (defined(__AVX512VL__) && LANES <= 16) || (defined(__AVX__) && LANES <= 8)
  vec larger;
  __asm__("vmaxps %2, %1, %0" : "=v"(larger) : "v"(a), "v"(b));
  return larger;
#else
  const bits first = a > b;
  return (vec)((first & (bits)a) | (~first & (bits)b));
#endif
}

// Collects where one of two vectors is NaN, which a maximum must be: the larger of one and of a number is the number.
// `Found` has a bit or a lane for each. A comparison of the general text takes two instructions and more.
#if defined(__AVX512VL__) && LANES == 16
typedef unsigned short Found;
static inline Found find_nan(Found found, vec a, vec b) {
  Found here;
  __asm__("vcmpunordps %2, %1, %0" : "=Yk"(here) : "v"(a), "v"(b));
  return found | here;
}
static inline int is_any(Found found) { return found != 0; }
#elif defined(__AVX__) && LANES <= 8
typedef bits Found;
static inline Found find_nan(Found found, vec a, vec b) {
  bits here;
  __asm__("vcmpunordps %2, %1, %0" : "=x"(here) : "x"(a), "x"(b));
  return found | here;
}
static inline int is_any(Found found) {
  int any;
  __asm__("vptest %1, %1" : "=@ccnz"(any) : "x"(found));
  return any;
}
#else
typedef bits Found;
static inline Found find_nan(Found found, vec a, vec b) { return found | (bits)(a != a) | (bits)(b != b); }
static inline int is_any(Found found) {
  int any = 0;
  for (int x = 0; x < LANES; ++x) any |= found[x];
  return any;
}
#endif

// Number of elements of a window from `first` on that are inside an image of `extent`.
static inline int inside(int first, int taps, int step, int extent) {
  int count = 0;
  for (int i = 0; i < taps; ++i) count += first + i * step >= 0 && first + i * step < extent;
  return LARGER(count, 1);
}

static inline vec apply_epilogue(vec sum, float bias, float scale, float shift, vec residual) {
  if (BIAS) sum += bias;
  if (RESIDUAL) sum += residual;
  if (AFFINE) sum = sum * scale + shift;
  if (ACTIVATION) sum = (vec)((bits)sum & ~(sum < 0.0f));
  if (ACTIVATION == 2) sum = -larger_of((vec){0} - 6.0f, -sum);  // NaN where the sum is
  return sum;
}

// Writes the last vector of a row, of LAST elements, in overlapping parts from registers: a reload of
// another size would fail store forwarding.
#define LAST (OW - (VECTORS - 1) * LANES)
#define FOUR_FROM(at) at, (at) + 1, (at) + 2, (at) + 3
typedef float two __attribute__((vector_size(8), aligned(4), may_alias));
typedef float four __attribute__((vector_size(16), aligned(4), may_alias));
typedef float eight __attribute__((vector_size(32), aligned(4), may_alias));

INLINED void store_last(float* to, const vec from) {
#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ < 12
  memcpy(to, &from, LAST * sizeof *to);
#elif LAST == LANES
  *(vec*)to = from;
#elif LAST >= 8
  *(eight*)to = SHUFFLE(from, from, FOUR_FROM(0), FOUR_FROM(4));
  if (LAST > 8) *(eight*)(to + LAST - 8) = SHUFFLE(from, from, FOUR_FROM(LAST - 8), FOUR_FROM(LAST - 4));
#elif LAST >= 4
  *(four*)to = SHUFFLE(from, from, FOUR_FROM(0));
  if (LAST > 4) *(four*)(to + LAST - 4) = SHUFFLE(from, from, FOUR_FROM(LAST - 4));
#elif LAST >= 2
  *(two*)to = SHUFFLE(from, from, 0, 1);
  if (LAST > 2) to[2] = from[2];
#else
  to[0] = from[0];
#endif
}

// Applies the epilogue to the outputs from `at` on of row `y`, and writes them. The columns of inner
// windows are inside the image.
INLINED void store_outputs(
    float* restrict out, const float* restrict residual, vec sum, int y, int at, const int is_inner,
    float bias, float scale, float shift) {
  const int count = SMALLER(LANES, OW - at);
  vec other = {0};
  if (RESIDUAL) memcpy(&other, residual + at, count * sizeof(float));
  if (OPERATION == 2) {
    const int tall = COUNT_PADDING ? KH : inside(y * SY - PY, KH, DY, IH);
    vec counts = {0};
    for (int x = 0; x < LANES; ++x)
      counts[x] = tall * (COUNT_PADDING || is_inner ? KW : inside((at + x) * SX - PX, KW, DX, IW));
    sum /= counts;
  }
  sum = apply_epilogue(sum, bias, scale, shift, other);
  if (count == LANES) *(vec*)(out + at) = sum;
  else store_last(out + at, sum);
}

#if OPERATION == 1
// Writes NaN to those outputs of `lines` rows, from row `y` on, whose windows have one; `from` is row `top` of the image.
static __attribute__((noinline)) void write_nans(const float* from, int top, int y, int lines, float* restrict out) {
  for (int l = 0; l < lines; ++l, ++y, out += OW)
    for (int i = y * SY - PY, end = i + REACH_Y; i <= end; i += DY) {
      if (i < 0 || i >= IH) continue;
      const float* row = from + (i - top) * IW;
      for (int x = 0; x < OW; ++x)
        for (int j = x * SX - PX, last = j + REACH_X; j <= last; j += DX)
          if (j >= 0 && j < IW && row[j] != row[j]) out[x] = row[j];
    }
}
#endif
