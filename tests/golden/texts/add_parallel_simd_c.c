void add_parallel_simd_c(const float* restrict A, const float* restrict B, float* restrict C) {
  #pragma omp parallel for
  for (int i_outer = 0; i_outer < 64; ++i_outer) {
    #pragma omp simd
    for (int i_inner = 0; i_inner < 16; ++i_inner) {
      C[i_outer * 16 + i_inner] = A[i_outer * 16 + i_inner] + B[i_outer * 16 + i_inner];
    }
  }
}
