#include <stdbool.h>

void masked_sum_c(const float* restrict X, const float* restrict W, float* restrict S) {
  for (int i = 0; i < 64; ++i) {
    S[i] = 0.0f;
    for (int k = 0; k < i + 1; ++k) {
      S[i] += (k < i + 1) ? X[i * 64 + k] * W[k] : 0.0f;
    }
  }
}
