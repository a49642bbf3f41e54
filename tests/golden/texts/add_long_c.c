#include <stdint.h>

void add_long_c(const int64_t* restrict A, const int64_t* restrict B, int64_t* restrict C) {
  for (int i = 0; i < 1024; ++i) {
    C[i] = A[i] + B[i];
  }
}
