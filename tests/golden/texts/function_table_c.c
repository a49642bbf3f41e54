#include <math.h>

void function_table_c(const float* restrict X, float* restrict Y) {
  for (int i = 0; i < 64; ++i) {
    Y[i] = (1.0f / (1.0f + expf(-(X[i])))) + (1.0f / sqrtf(fabsf(X[i]))) * erff(X[i]) - floorf(X[i]);
  }
}
