// helper VECTOR_BYTES

// helper float_v64

void matmul_cached_c(const float* restrict A, const float* restrict B, float* restrict C) {
  float C_global[128] __attribute__((aligned(64)));
  for (int i_outer = 0; i_outer < 8; ++i_outer) {
    for (int j_outer = 0; j_outer < 4; ++j_outer) {
      for (int i_c = 0; i_c < 8; ++i_c) {
        for (int j_c = 0; j_c < 16; ++j_c) {
          C_global[i_c * 16 + j_c] = 0.0f;
          for (int k = 0; k < 64; ++k) {
            C_global[i_c * 16 + j_c] += A[i_outer * 512 + i_c * 64 + k] * B[k * 64 + j_outer * 16 + j_c];
          }
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
