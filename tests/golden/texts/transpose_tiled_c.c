void transpose_tiled_c(const float* restrict X, float* restrict T) {
  for (int i_outer = 0; i_outer < 6; ++i_outer) {
    for (int j_outer = 0; j_outer < 8; ++j_outer) {
      for (int i_inner = 0; i_inner < 8; ++i_inner) {
        for (int j_inner = 0; j_inner < 8; ++j_inner) {
          T[i_outer * 512 + i_inner * 64 + j_outer * 8 + j_inner] = X[j_outer * 384 + j_inner * 48 + i_outer * 8 + i_inner];
        }
      }
    }
  }
}
