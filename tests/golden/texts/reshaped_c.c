void reshaped_c(const int* restrict X, int* restrict Y) {
  for (int i = 0; i < 10; ++i) {
    for (int j = 0; j < 12; ++j) {
      Y[i * 12 + j] = X[i * 12 + j];
    }
  }
}
