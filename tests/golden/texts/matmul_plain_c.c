void matmul_plain_c(const float* restrict A, const float* restrict B, float* restrict C) {
  for (int i = 0; i < 64; ++i) {
    for (int j = 0; j < 64; ++j) {
      C[i * 64 + j] = 0.0f;
      for (int k = 0; k < 64; ++k) {
        C[i * 64 + j] += A[i * 64 + k] * B[k * 64 + j];
      }
    }
  }
}
