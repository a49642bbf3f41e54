// helper VECTOR_BYTES

// helper float_v32

// helper max_float_v32

void weights_copied_to_tiles_c(
    const float* restrict x,
    const float* restrict w,
    float* restrict compute,
    float* restrict auto_scheduler_layout_transform) {
  float T_matmul_NT[32] __attribute__((aligned(64)));
  #pragma omp parallel for
  for (int i0_i1_fused = 0; i0_i1_fused < 64; ++i0_i1_fused) {
    for (int i2 = 0; i2 < 8; ++i2) {
      auto_scheduler_layout_transform[i0_i1_fused * 8 + i2] = w[(i0_i1_fused >> 4) * 128 + i2 * 16 + (i0_i1_fused & 15)];
    }
  }
  for (int i0_outer = 0; i0_outer < 2; ++i0_outer) {
    for (int i1_outer = 0; i1_outer < 4; ++i1_outer) {
      for (int i_init = 0; i_init < 4; ++i_init) {
        #pragma GCC unroll 2
        for (int j_init = 0; j_init < 8; j_init += LANES(float_v32)) {
          *(float_v32*)&T_matmul_NT[i_init * 8 + j_init] = (float_v32){0};
        }
      }
      for (int k = 0; k < 16; ++k) {
        for (int i = 0; i < 4; ++i) {
          #pragma GCC unroll 2
          for (int j = 0; j < 8; j += LANES(float_v32)) {
            *(float_v32*)&T_matmul_NT[i * 8 + j] += x[i0_outer * 64 + i * 16 + k] * *(const float_v32*)&auto_scheduler_layout_transform[i1_outer * 128 + k * 8 + j];
          }
        }
      }
      for (int i0_inner = 0; i0_inner < 4; ++i0_inner) {
        #pragma GCC unroll 2
        for (int i1_inner = 0; i1_inner < 8; i1_inner += LANES(float_v32)) {
          *(float_v32*)&compute[i0_outer * 128 + i0_inner * 32 + i1_outer * 8 + i1_inner] = max_float_v32((float_v32){0}, *(const float_v32*)&T_matmul_NT[i0_inner * 8 + i1_inner]);
        }
      }
    }
  }
}
