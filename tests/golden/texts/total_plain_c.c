void total_plain_c(const float* restrict X, float* restrict total) {
  total[0] = 0.0f;
  for (int k = 0; k < 1000; ++k) {
    total[0] += X[k];
  }
}
