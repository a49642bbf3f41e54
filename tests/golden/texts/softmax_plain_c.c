#include <math.h>

// helper max_or_nan_float

// helper select_f32

// helper exp_f32

void softmax_plain_c(
    const float* restrict X,
    float* restrict T_div,
    float* restrict T_max,
    float* restrict T_exp,
    float* restrict T_sum) {
  for (int i = 0; i < 8; ++i) {
    T_max[i] = -INFINITY;
    for (int k = 0; k < 100; ++k) {
      T_max[i] = max_or_nan_float(X[i * 100 + k], T_max[i]);
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
