// helper VECTOR_BYTES

// helper float_v32

void scan_columns_c(const float* restrict X, float* restrict Y) {
  for (int i = 0; i < 80; ++i) {
    Y[i] = X[i];
  }
  for (int Y_idx_outer = 0; Y_idx_outer < 3; ++Y_idx_outer) {
    for (int i_outer = 0; i_outer < 10; ++i_outer) {
      #pragma GCC unroll 2
      for (int i_inner = 0; i_inner < 8; i_inner += LANES(float_v32)) {
        *(float_v32*)&Y[Y_idx_outer * 160 + i_outer * 8 + i_inner + 80] = *(const float_v32*)&Y[Y_idx_outer * 160 + i_outer * 8 + i_inner] * 0.5f + *(const float_v32*)&X[Y_idx_outer * 160 + i_outer * 8 + i_inner + 80];
      }
    }
    for (int i_outer = 0; i_outer < 10; ++i_outer) {
      #pragma GCC unroll 2
      for (int i_inner = 0; i_inner < 8; i_inner += LANES(float_v32)) {
        *(float_v32*)&Y[Y_idx_outer * 160 + i_outer * 8 + i_inner + 160] = *(const float_v32*)&Y[Y_idx_outer * 160 + i_outer * 8 + i_inner + 80] * 0.5f + *(const float_v32*)&X[Y_idx_outer * 160 + i_outer * 8 + i_inner + 160];
      }
    }
  }
  for (int i_outer = 0; i_outer < 10; ++i_outer) {
    #pragma GCC unroll 2
    for (int i_inner = 0; i_inner < 8; i_inner += LANES(float_v32)) {
      *(float_v32*)&Y[i_outer * 8 + i_inner + 560] = *(const float_v32*)&Y[i_outer * 8 + i_inner + 480] * 0.5f + *(const float_v32*)&X[i_outer * 8 + i_inner + 560];
    }
  }
}
