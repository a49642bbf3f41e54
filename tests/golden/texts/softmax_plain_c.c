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

// exp(x) of numbers from -104 to 104, and of NaNs.
static inline __attribute__((always_inline)) float exp_bounded_f32(float x) {
  const float shifted = x * 0.721347511f + 12583039.0f, h = shifted - 12583039.0f;
  const float r = (x - h * 1.38671875f) + h * 4.24388883e-4f;
  float p = r * 1.960673981e-4f + 1.410841593e-3f;
  p = p * r + 8.336212486e-3f;
  p = p * r + 4.166107252e-2f;
  p = p * r + 0.1666661054f;
  p = p * r + 0.5000003576f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  const float power = bits_to_float(float_to_bits(shifted) << 23);
  return p * power * power;
}
static inline __attribute__((always_inline)) float exp_f32(float x) {
  const float above = select_f32(x < -104.0f, -104.0f, x);
  return exp_bounded_f32(select_f32(above > 104.0f, 104.0f, above));
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
