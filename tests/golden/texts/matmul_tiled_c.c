// helper VECTOR_BYTES

// helper float_v64

void matmul_tiled_c(const float* restrict A, const float* restrict B, float* restrict C) {
  #pragma omp parallel for
  for (int i_outer = 0; i_outer < 8; ++i_outer) {
    for (int j_outer = 0; j_outer < 4; ++j_outer) {
      for (int i_inner_init = 0; i_inner_init < 8; ++i_inner_init) {
        #pragma GCC unroll 4
        for (int j_inner_init = 0; j_inner_init < 16; j_inner_init += LANES(float_v64)) {
          *(float_v64*)&C[i_outer * 512 + i_inner_init * 64 + j_outer * 16 + j_inner_init] = (float_v64){0};
        }
      }
      for (int k_outer = 0; k_outer < 16; ++k_outer) {
        for (int i_inner = 0; i_inner < 8; ++i_inner) {
          for (int k_inner = 0; k_inner < 4; ++k_inner) {
            #pragma GCC unroll 4
            for (int j_inner = 0; j_inner < 16; j_inner += LANES(float_v64)) {
              *(float_v64*)&C[i_outer * 512 + i_inner * 64 + j_outer * 16 + j_inner] += A[i_outer * 512 + i_inner * 64 + k_outer * 4 + k_inner] * *(const float_v64*)&B[k_outer * 256 + k_inner * 64 + j_outer * 16 + j_inner];
            }
          }
        }
      }
    }
  }
}
