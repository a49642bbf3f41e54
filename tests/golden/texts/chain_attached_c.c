#include <math.h>
#include <stdbool.h>

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

static inline __attribute__((always_inline)) float tanh_f32(float x) {
  const float size = fabsf(x), square = x * x;
  float p = square * -5.70498872745e-3f + 2.06390887954e-2f;
  p = p * square - 5.37397155531e-2f;
  p = p * square + 1.33314422036e-1f;
  p = p * square - 3.33332819422e-1f;
  const float large = 1.0f - 2.0f / (exp_f32(size + size) + 1.0f);
  return copysignf(select_f32(size < 0.625f, p * square * size + size, large), x);
}

void chain_attached_c(const float* restrict X, float* restrict c) {
  float a[16] __attribute__((aligned(64)));
  float b[1];
  for (int i_outer = 0; i_outer < 63; ++i_outer) {
    for (int i = 0; i < 16; ++i) {
      if (i_outer * 16 + i < 1000) {
        a[i] = X[i_outer * 16 + i] * 2.0f + 1.0f;
      }
    }
    for (int i_inner = 0; i_inner < 16; ++i_inner) {
      if (i_outer * 16 + i_inner < 1000) {
        b[0] = tanh_f32(a[i_inner]);
      }
      if (i_outer * 16 + i_inner < 1000) {
        c[i_outer * 16 + i_inner] = max_float(b[0], a[i_inner]);
      }
    }
  }
}
