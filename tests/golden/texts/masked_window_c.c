#include <stdbool.h>

// helper min_int

// helper max_int

void masked_window_c(const float* restrict X, const float* restrict W, float* restrict S) {
  for (int i = 0; i < 64; ++i) {
    S[i] = 0.0f;
    for (int k = 0; k < min_int(20, i + 1); ++k) {
      S[i] += (k + max_int(0, i - 19) < i + 1 && i < k + max_int(0, i - 19) + 20) ? X[i * 64 + k + max_int(0, i - 19)] * W[k + max_int(0, i - 19)] : 0.0f;
    }
  }
}
