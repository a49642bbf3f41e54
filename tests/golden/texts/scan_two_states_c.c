void scan_two_states_c(const float* restrict X, float* restrict Y_v0, float* restrict Y_v1) {
  for (int i = 0; i < 24; ++i) {
    Y_v0[i] = X[i];
  }
  for (int i = 0; i < 24; ++i) {
    Y_v1[i] = 0.0f;
  }
  for (int Y_idx = 0; Y_idx < 4; ++Y_idx) {
    for (int i = 0; i < 24; ++i) {
      Y_v0[Y_idx * 24 + i + 24] = Y_v0[Y_idx * 24 + i] + X[Y_idx * 24 + i + 24];
    }
    for (int i = 0; i < 24; ++i) {
      Y_v1[Y_idx * 24 + i + 24] = Y_v1[Y_idx * 24 + i] + Y_v0[Y_idx * 24 + i + 24] * Y_v0[Y_idx * 24 - i + 23];
    }
  }
}
