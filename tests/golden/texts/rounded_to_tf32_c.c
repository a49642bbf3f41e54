// helper round_to_tf32

void rounded_to_tf32_c(const float* restrict X, float* restrict Y) {
  for (int i = 0; i < 64; ++i) {
    Y[i] = round_to_tf32(X[i]) + round_to_tf32(X[i] * 3.0f);
  }
}
