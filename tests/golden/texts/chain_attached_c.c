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

static inline __attribute__((always_inline)) float tanh_f32(float x) {
  const float size = fabsf(x), square = x * x, fourth = square * square;
  const float p = (fourth * 2.058349492e-5f + 0.1337971836f) * square +
      ((fourth * 1.331909072e-8f + 3.494035453e-3f) * fourth + 1.0f);
  const float q = (fourth * 3.283094265e-4f + 0.4671303332f) * square +
      ((fourth * 7.762027394e-7f + 2.587107569e-2f) * fourth + 1.0f);
  return copysignf(select_f32(size > 9.02f, 1.0f, size * p / q), x);
}

void chain_attached_c(const float* restrict X, float* restrict c) {
  float a[16] __attribute__((aligned(64)));
  float b[1];
  for (int i_outer = 0; i_outer < 62; ++i_outer) {
    for (int i = 0; i < 16; ++i) {
      a[i] = X[i_outer * 16 + i] * 2.0f + 1.0f;
    }
    for (int i_inner = 0; i_inner < 16; ++i_inner) {
      b[0] = tanh_f32(a[i_inner]);
      c[i_outer * 16 + i_inner] = max_float(b[0], a[i_inner]);
    }
  }
  for (int i = 0; i < 8; ++i) {
    a[i] = X[i + 992] * 2.0f + 1.0f;
  }
  for (int i_inner = 0; i_inner < 8; ++i_inner) {
    b[0] = tanh_f32(a[i_inner]);
    c[i_inner + 992] = max_float(b[0], a[i_inner]);
  }
}
