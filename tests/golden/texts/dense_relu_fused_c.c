// helper max_float

void dense_relu_fused_c(
    const float* restrict data,
    const float* restrict weight,
    const float* restrict bias,
    float* restrict T_relu) {
  float dense[1];
  for (int i = 0; i < 32; ++i) {
    for (int j = 0; j < 48; ++j) {
      dense[0] = 0.0f;
      for (int k = 0; k < 64; ++k) {
        dense[0] += data[i * 64 + k] * weight[j * 64 + k];
      }
      T_relu[i * 48 + j] = max_float(0.0f, dense[0] + bias[j]);
    }
  }
}
