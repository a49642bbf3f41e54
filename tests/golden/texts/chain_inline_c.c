#include <math.h>

// helper max_or_nan_float

// helper select_f32

// helper tanh_f32

void chain_inline_c(const float* restrict X, float* restrict c) {
  for (int i = 0; i < 1000; ++i) {
    c[i] = max_or_nan_float(tanh_f32(X[i] * 2.0f + 1.0f), X[i] * 2.0f + 1.0f);
  }
}
