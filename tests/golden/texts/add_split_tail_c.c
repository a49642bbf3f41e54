void add_split_tail_c(const float* restrict A, const float* restrict B, float* restrict C) {
  for (int i_outer = 0; i_outer < 20; ++i_outer) {
    for (int i_inner = 0; i_inner < 48; ++i_inner) {
      C[i_outer * 48 + i_inner] = A[i_outer * 48 + i_inner] + B[i_outer * 48 + i_inner];
    }
  }
  for (int i_inner = 0; i_inner < 40; ++i_inner) {
    C[i_inner + 960] = A[i_inner + 960] + B[i_inner + 960];
  }
}
