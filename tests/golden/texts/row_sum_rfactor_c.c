void row_sum_rfactor_c(const float* restrict X, float* restrict S) {
  float S_rf[8] __attribute__((aligned(32)));
  for (int i = 0; i < 16; ++i) {
    for (int k_inner = 0; k_inner < 8; ++k_inner) {
      S_rf[k_inner] = 0.0f;
      for (int k_outer = 0; k_outer < 32; ++k_outer) {
        S_rf[k_inner] += X[i * 256 + k_outer * 8 + k_inner];
      }
    }
    S[i] = 0.0f;
    for (int k_inner_v = 0; k_inner_v < 8; ++k_inner_v) {
      S[i] += S_rf[k_inner_v];
    }
  }
}
