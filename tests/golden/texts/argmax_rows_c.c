#include <stdbool.h>

// helper guarded_loads

void argmax_rows_c(const float* restrict X, int* restrict best_v0, float* restrict best_v1) {
  for (int i = 0; i < 8; ++i) {
    best_v0[i] = -1;
    best_v1[i] = -3.4028235e+38f;
    for (int k = 0; k < 64; ++k) {
      const int best_new0 = (best_v1[i] >= X[i * 64 + k]) ? best_v0[i] : k;
      const float best_new1 = (best_v1[i] >= X[i * 64 + k]) ? best_v1[i] : X[i * 64 + k];
      best_v0[i] = best_new0;
      best_v1[i] = best_new1;
    }
  }
}
