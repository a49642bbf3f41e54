// helper VECTOR_BYTES

// helper float_v64

void add_parallel_simd_c(const float* restrict A, const float* restrict B, float* restrict C) {
  #pragma omp parallel for
  for (int i_outer = 0; i_outer < 64; ++i_outer) {
    #pragma GCC unroll 4
    for (int i_inner = 0; i_inner < 16; i_inner += LANES(float_v64)) {
      *(float_v64*)&C[i_outer * 16 + i_inner] = *(const float_v64*)&A[i_outer * 16 + i_inner] + *(const float_v64*)&B[i_outer * 16 + i_inner];
    }
  }
}
