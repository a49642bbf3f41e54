#include <stdbool.h>

void matmul_odd_sizes_c(const float* restrict A, const float* restrict B, float* restrict C) {
  for (int i_outer = 0; i_outer < 3; ++i_outer) {
    for (int j_outer = 0; j_outer < 3; ++j_outer) {
      for (int i_inner = 0; i_inner < 8; ++i_inner) {
        if (i_outer * 8 + i_inner < 19) {
          for (int j_inner = 0; j_inner < 8; ++j_inner) {
            if (j_outer * 8 + j_inner < 23) {
              C[i_outer * 184 + i_inner * 23 + j_outer * 8 + j_inner] = 0.0f;
              for (int k_outer = 0; k_outer < 5; ++k_outer) {
                for (int k_inner = 0; k_inner < 4; ++k_inner) {
                  if (k_outer * 4 + k_inner < 17) {
                    C[i_outer * 184 + i_inner * 23 + j_outer * 8 + j_inner] += A[i_outer * 136 + i_inner * 17 + k_outer * 4 + k_inner] * B[k_outer * 92 + k_inner * 23 + j_outer * 8 + j_inner];
                  }
                }
              }
            }
          }
        }
      }
    }
  }
}
