void gemv_reset(float* sums, int rows) {
  for (int i = 0; i < rows; ++i) sums[i] = 0;
}
void gemv_update(float* sums, float* vector, float* matrix, int rows, int steps, int stride) {
  for (int i = 0; i < rows; ++i)
    for (int j = 0; j < steps; ++j) sums[i] += vector[j] * matrix[i * stride + j];
}

void tensorized_gemv_c(float* restrict A, float* restrict B, float* restrict C) {
  for (int i = 0; i < 64; ++i) {
    for (int j_outer = 0; j_outer < 4; ++j_outer) {
      gemv_reset(C + i * 64 + j_outer * 16, 16);
      for (int k_outer = 0; k_outer < 2; ++k_outer) {
        gemv_update(C + i * 64 + j_outer * 16, A + i * 32 + k_outer * 16, B + j_outer * 512 + k_outer * 16, 16, 16, 32);
      }
    }
  }
}
