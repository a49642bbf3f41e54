#include <math.h>

static inline __attribute__((always_inline)) float max_float(float a, float b) {
  return a > b ? a : b;
}

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

void softmax_plain_c(
    const float* restrict X,
    float* restrict T_div,
    float* restrict T_max,
    float* restrict T_exp,
    float* restrict T_sum) {
  for (int i = 0; i < 8; ++i) {
    T_max[i] = -INFINITY;
    for (int k = 0; k < 100; ++k) {
      T_max[i] = max_float(X[i * 100 + k], T_max[i]);
    }
  }
  for (int i = 0; i < 8; ++i) {
    for (int j = 0; j < 100; ++j) {
      T_exp[i * 100 + j] = exp_f32(X[i * 100 + j] - T_max[i]);
    }
  }
  for (int i = 0; i < 8; ++i) {
    T_sum[i] = 0.0f;
    for (int r = 0; r < 100; ++r) {
      T_sum[i] += T_exp[i * 100 + r];
    }
  }
  for (int i = 0; i < 8; ++i) {
    for (int j = 0; j < 100; ++j) {
      T_div[i * 100 + j] = T_exp[i * 100 + j] / T_sum[i];
    }
  }
}
