void add_plain_c(const float* restrict A, const float* restrict B, float* restrict C) {
  for (int i = 0; i < 1024; ++i) {
    C[i] = A[i] + B[i];
  }
}
