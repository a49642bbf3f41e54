#include <math.h>

// helper max_or_nan_float

// helper select_f32

// helper tanh_f32

void chain_root_c(const float* restrict X, float* restrict c, float* restrict a, float* restrict b) {
  for (int i = 0; i < 1000; ++i) {
    a[i] = X[i] * 2.0f + 1.0f;
  }
  for (int i = 0; i < 1000; ++i) {
    b[i] = tanh_f32(a[i]);
  }
  for (int i = 0; i < 1000; ++i) {
    c[i] = max_or_nan_float(b[i], a[i]);
  }
}
