#include <math.h>

static inline __attribute__((always_inline)) float max_float(float a, float b) {
  return a > b ? a : b;
}

void chain_root_c(const float* restrict X, float* restrict c, float* restrict a, float* restrict b) {
  for (int i = 0; i < 1000; ++i) {
    a[i] = X[i] * 2.0f + 1.0f;
  }
  for (int i = 0; i < 1000; ++i) {
    b[i] = tanhf(a[i]);
  }
  for (int i = 0; i < 1000; ++i) {
    c[i] = max_float(b[i], a[i]);
  }
}
