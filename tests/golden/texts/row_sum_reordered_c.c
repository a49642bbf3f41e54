void row_sum_reordered_c(const float* restrict X, float* restrict S) {
  for (int i_init = 0; i_init < 16; ++i_init) {
    S[i_init] = 0.0f;
  }
  for (int k = 0; k < 256; ++k) {
    for (int i = 0; i < 16; ++i) {
      S[i] += X[i * 256 + k];
    }
  }
}
