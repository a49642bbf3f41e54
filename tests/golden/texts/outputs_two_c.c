// helper select_f32

// helper exp_f32

void outputs_two_c(const float* restrict X, float* restrict both_v0, float* restrict both_v1) {
  for (int i = 0; i < 8; ++i) {
    for (int j = 0; j < 32; ++j) {
      both_v0[i * 32 + j] = X[i * 32 + j] * 2.0f;
      both_v1[i * 32 + j] = exp_f32(X[i * 32 + j]);
    }
  }
}
