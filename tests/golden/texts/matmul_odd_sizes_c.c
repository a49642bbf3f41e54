void matmul_odd_sizes_c(const float* restrict A, const float* restrict B, float* restrict C) {
  for (int i_outer = 0; i_outer < 2; ++i_outer) {
    for (int j_outer = 0; j_outer < 2; ++j_outer) {
      for (int i_inner = 0; i_inner < 8; ++i_inner) {
        for (int j_inner = 0; j_inner < 8; ++j_inner) {
          C[i_outer * 184 + i_inner * 23 + j_outer * 8 + j_inner] = 0.0f;
          for (int k_outer = 0; k_outer < 4; ++k_outer) {
            for (int k_inner = 0; k_inner < 4; ++k_inner) {
              C[i_outer * 184 + i_inner * 23 + j_outer * 8 + j_inner] += A[i_outer * 136 + i_inner * 17 + k_outer * 4 + k_inner] * B[k_outer * 92 + k_inner * 23 + j_outer * 8 + j_inner];
            }
          }
          C[i_outer * 184 + i_inner * 23 + j_outer * 8 + j_inner] += A[i_outer * 136 + i_inner * 17 + 16] * B[j_outer * 8 + j_inner + 368];
        }
      }
    }
    for (int i_inner = 0; i_inner < 8; ++i_inner) {
      for (int j_inner = 0; j_inner < 7; ++j_inner) {
        C[i_outer * 184 + i_inner * 23 + j_inner + 16] = 0.0f;
        for (int k_outer = 0; k_outer < 4; ++k_outer) {
          for (int k_inner = 0; k_inner < 4; ++k_inner) {
            C[i_outer * 184 + i_inner * 23 + j_inner + 16] += A[i_outer * 136 + i_inner * 17 + k_outer * 4 + k_inner] * B[k_outer * 92 + k_inner * 23 + j_inner + 16];
          }
        }
        C[i_outer * 184 + i_inner * 23 + j_inner + 16] += A[i_outer * 136 + i_inner * 17 + 16] * B[j_inner + 384];
      }
    }
  }
  for (int j_outer = 0; j_outer < 2; ++j_outer) {
    for (int i_inner = 0; i_inner < 3; ++i_inner) {
      for (int j_inner = 0; j_inner < 8; ++j_inner) {
        C[i_inner * 23 + j_outer * 8 + j_inner + 368] = 0.0f;
        for (int k_outer = 0; k_outer < 4; ++k_outer) {
          for (int k_inner = 0; k_inner < 4; ++k_inner) {
            C[i_inner * 23 + j_outer * 8 + j_inner + 368] += A[i_inner * 17 + k_outer * 4 + k_inner + 272] * B[k_outer * 92 + k_inner * 23 + j_outer * 8 + j_inner];
          }
        }
        C[i_inner * 23 + j_outer * 8 + j_inner + 368] += A[i_inner * 17 + 288] * B[j_outer * 8 + j_inner + 368];
      }
    }
  }
  for (int i_inner = 0; i_inner < 3; ++i_inner) {
    for (int j_inner = 0; j_inner < 7; ++j_inner) {
      C[i_inner * 23 + j_inner + 384] = 0.0f;
      for (int k_outer = 0; k_outer < 4; ++k_outer) {
        for (int k_inner = 0; k_inner < 4; ++k_inner) {
          C[i_inner * 23 + j_inner + 384] += A[i_inner * 17 + k_outer * 4 + k_inner + 272] * B[k_outer * 92 + k_inner * 23 + j_inner + 16];
        }
      }
      C[i_inner * 23 + j_inner + 384] += A[i_inner * 17 + 288] * B[j_inner + 384];
    }
  }
}
