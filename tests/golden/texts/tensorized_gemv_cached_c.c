// helper VECTOR_BYTES

// helper float_v64

void gemv_reset(float* sums, int rows) {
  for (int i = 0; i < rows; ++i) sums[i] = 0;
}
void gemv_update(float* sums, float* vector, float* matrix, int rows, int steps, int stride) {
  for (int i = 0; i < rows; ++i)
    for (int j = 0; j < steps; ++j) sums[i] += vector[j] * matrix[i * stride + j];
}

void tensorized_gemv_cached_c(float* restrict A, const float* restrict B, float* restrict C) {
  float C_global[128] __attribute__((aligned(64)));
  float B_permuted[256] __attribute__((aligned(64)));
  for (int i_outer = 0; i_outer < 8; ++i_outer) {
    for (int j_outer = 0; j_outer < 4; ++j_outer) {
      for (int i_c_init = 0; i_c_init < 8; ++i_c_init) {
        gemv_reset(C_global + i_c_init * 16, 16);
      }
      for (int k_outer = 0; k_outer < 4; ++k_outer) {
        for (int ax0 = 0; ax0 < 16; ++ax0) {
          for (int ax1 = 0; ax1 < 16; ++ax1) {
            B_permuted[ax0 * 16 + ax1] = B[k_outer * 1024 + ax1 * 64 + j_outer * 16 + ax0];
          }
        }
        for (int i_c = 0; i_c < 8; ++i_c) {
          gemv_update(C_global + i_c * 16, A + i_outer * 512 + i_c * 64 + k_outer * 16, B_permuted, 16, 16, 16);
        }
      }
      for (int i_inner = 0; i_inner < 8; ++i_inner) {
        #pragma GCC unroll 4
        for (int j_inner = 0; j_inner < 16; j_inner += LANES(float_v64)) {
          *(float_v64*)&C[i_outer * 512 + i_inner * 64 + j_outer * 16 + j_inner] = *(const float_v64*)&C_global[i_inner * 16 + j_inner];
        }
      }
    }
  }
}
