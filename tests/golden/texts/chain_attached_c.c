#include <math.h>
#include <stdbool.h>

static inline __attribute__((always_inline)) float max_float(float a, float b) {
  return a > b ? a : b;
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
        b[0] = tanhf(a[i_inner]);
      }
      if (i_outer * 16 + i_inner < 1000) {
        c[i_outer * 16 + i_inner] = max_float(b[0], a[i_inner]);
      }
    }
  }
}
