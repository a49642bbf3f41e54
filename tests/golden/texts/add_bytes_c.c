#include <stdint.h>

void add_bytes_c(const int8_t* restrict A, const int8_t* restrict B, int8_t* restrict C) {
  for (int i = 0; i < 1024; ++i) {
    C[i] = (int8_t)(A[i] + B[i]);
  }
}
