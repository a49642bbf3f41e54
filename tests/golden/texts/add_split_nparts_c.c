void add_split_nparts_c(const float* restrict A, const float* restrict B, float* restrict C) {
  for (int i_outer = 0; i_outer < 6; ++i_outer) {
    for (int i_inner = 0; i_inner < 143; ++i_inner) {
      C[i_outer * 143 + i_inner] = A[i_outer * 143 + i_inner] + B[i_outer * 143 + i_inner];
    }
  }
  for (int i_inner = 0; i_inner < 142; ++i_inner) {
    C[i_inner + 858] = A[i_inner + 858] + B[i_inner + 858];
  }
}
