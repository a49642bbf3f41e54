void matmul_packed_c(const float* restrict A, const float* restrict B, float* restrict C) {
  float B_global[1024] __attribute__((aligned(64)));
  for (int i_outer = 0; i_outer < 8; ++i_outer) {
    for (int j_outer = 0; j_outer < 4; ++j_outer) {
      for (int ax0 = 0; ax0 < 64; ++ax0) {
        for (int ax1 = 0; ax1 < 16; ++ax1) {
          B_global[ax0 * 16 + ax1] = B[ax0 * 64 + j_outer * 16 + ax1];
        }
      }
      for (int i_inner = 0; i_inner < 8; ++i_inner) {
        for (int j_inner = 0; j_inner < 16; ++j_inner) {
          C[i_outer * 512 + i_inner * 64 + j_outer * 16 + j_inner] = 0.0f;
          for (int k = 0; k < 64; ++k) {
            C[i_outer * 512 + i_inner * 64 + j_outer * 16 + j_inner] += A[i_outer * 512 + i_inner * 64 + k] * B_global[k * 16 + j_inner];
          }
        }
      }
    }
  }
}
