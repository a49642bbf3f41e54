#include <math.h>

static inline __attribute__((always_inline)) unsigned float_to_bits(float value) {
  unsigned bits;
  __builtin_memcpy(&bits, &value, sizeof bits);
  return bits;
}
static inline __attribute__((always_inline)) float bits_to_float(unsigned bits) {
  float value;
  __builtin_memcpy(&value, &bits, sizeof value);
  return value;
}
// Selects without a branch, under which compilers would compute an operand and not vectorise it.
static inline __attribute__((always_inline)) float select_f32(int condition, float a, float b) {
  const unsigned mask = -(unsigned)condition;
  return bits_to_float((mask & float_to_bits(a)) | (~mask & float_to_bits(b)));
}

static inline __attribute__((always_inline)) float exp_f32(float x) {
  const float above = x < -104.0f ? -104.0f : x, y = above > 89.0f ? 89.0f : above;
  const float shifted = y * 1.44269504f + 12582912.0f, n = shifted - 12582912.0f;
  const float r = (y - n * 0.693359375f) + n * 2.12194440e-4f;
  float p = r * 1.98412698e-4f + 1.38888889e-3f;
  p = p * r + 8.33333333e-3f;
  p = p * r + 4.16666667e-2f;
  p = p * r + 1.66666667e-1f;
  p = p * r + 0.5f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  const unsigned power = float_to_bits(shifted) - 0x4b400000u, half = (unsigned)((int)power >> 1);
  return p * bits_to_float((half + 127u) << 23) * bits_to_float((power - half + 127u) << 23);
}

static inline __attribute__((always_inline)) float erf_f32(float x) {
  const float size = fabsf(x), square = x * x;
  float p = (-1.72853470e-5f * size + 3.83197126e-4f) * square;
  p = p + (-3.88396438e-3f * size + 2.42546219e-2f);
  p = p * size - 1.06777877e-1f;
  p = p * size - 6.34846687e-1f;
  p = p * size - 1.28717512e-1f;
  p = p * size - size;
  const float large = 1.0f - exp_f32(p);
  float q = square * -5.96761703e-4f + 4.99119423e-3f;
  q = q * square - 2.67681349e-2f;
  q = q * square + 1.12819925e-1f;
  q = q * square - 3.76125336e-1f;
  q = q * square + 1.28379166e-1f;
  return copysignf(select_f32(size > 0.927734375f, large, q * size + size), x);
}

static inline __attribute__((always_inline)) float sigmoid_f32(float x) {
  return 1.0f / (1.0f + exp_f32(-x));
}

void function_table_half_c(const _Float16* restrict X, _Float16* restrict Y) {
  for (int i = 0; i < 64; ++i) {
    Y[i] = (_Float16)(sigmoid_f32((float)X[i]) + (1.0f / sqrtf(fabsf((float)X[i]))) * erf_f32((float)X[i]) - floorf((float)X[i]));
  }
}
