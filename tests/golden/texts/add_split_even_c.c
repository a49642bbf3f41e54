void add_split_even_c(const float* restrict A, const float* restrict B, float* restrict C) {
  for (int i_outer = 0; i_outer < 32; ++i_outer) {
    for (int i_inner = 0; i_inner < 32; ++i_inner) {
      C[i_outer * 32 + i_inner] = A[i_outer * 32 + i_inner] + B[i_outer * 32 + i_inner];
    }
  }
}
