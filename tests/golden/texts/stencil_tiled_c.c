void stencil_tiled_c(const float* restrict X, float* restrict Y) {
  #pragma omp parallel for
  for (int i = 0; i < 8; ++i) {
    for (int j_outer = 0; j_outer < 2; ++j_outer) {
      for (int k_outer = 0; k_outer < 2; ++k_outer) {
        for (int j_inner = 0; j_inner < 5; ++j_inner) {
          for (int k_inner = 0; k_inner < 7; ++k_inner) {
            Y[i * 140 + j_outer * 70 + j_inner * 14 + k_outer * 7 + k_inner] = X[i * 192 + j_outer * 80 + j_inner * 16 + k_outer * 7 + k_inner + 209] * 0.5f + X[i * 192 + j_outer * 80 + j_inner * 16 + k_outer * 7 + k_inner + 17] + X[i * 192 + j_outer * 80 + j_inner * 16 + k_outer * 7 + k_inner + 401];
          }
        }
      }
    }
  }
}
