void row_sum_plain_c(const float* restrict X, float* restrict S) {
  for (int i = 0; i < 16; ++i) {
    S[i] = 0.0f;
    for (int k = 0; k < 256; ++k) {
      S[i] += X[i * 256 + k];
    }
  }
}
