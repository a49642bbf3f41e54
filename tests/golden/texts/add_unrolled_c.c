void add_unrolled_c(const float* restrict A, const float* restrict B, float* restrict C) {
  for (int i_outer = 0; i_outer < 16; ++i_outer) {
    C[i_outer * 4] = A[i_outer * 4] + B[i_outer * 4];
    C[i_outer * 4 + 1] = A[i_outer * 4 + 1] + B[i_outer * 4 + 1];
    C[i_outer * 4 + 2] = A[i_outer * 4 + 2] + B[i_outer * 4 + 2];
    C[i_outer * 4 + 3] = A[i_outer * 4 + 3] + B[i_outer * 4 + 3];
  }
}
