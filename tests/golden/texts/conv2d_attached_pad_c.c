void conv2d_attached_pad_c(
    const float* restrict data,
    const float* restrict kernel,
    float* restrict compute) {
  float pad_temp[180] __attribute__((aligned(16)));
  for (int f = 0; f < 8; ++f) {
    for (int c = 0; c < 4; ++c) {
      pad_temp[c * 45] = 0.0f;
      for (int v = 0; v < 14; ++v) {
        pad_temp[c * 45 + v + 1] = 0.0f;
      }
      for (int h = 0; h < 2; ++h) {
        pad_temp[c * 45 + h * 15 + 15] = 0.0f;
        for (int v = 0; v < 14; ++v) {
          pad_temp[c * 45 + h * 15 + v + 16] = data[c * 196 + h * 14 + v];
        }
      }
    }
    for (int v = 0; v < 7; ++v) {
      compute[f * 49 + v] = 0.0f;
      for (int rc = 0; rc < 4; ++rc) {
        for (int ry = 0; ry < 3; ++ry) {
          for (int rx = 0; rx < 3; ++rx) {
            compute[f * 49 + v] += pad_temp[rc * 45 + ry * 15 + v * 2 + rx] * kernel[f * 36 + rc * 9 + ry * 3 + rx];
          }
        }
      }
    }
    for (int h = 0; h < 6; ++h) {
      for (int c = 0; c < 4; ++c) {
        for (int h_1 = 0; h_1 < 3; ++h_1) {
          pad_temp[c * 45 + h_1 * 15] = 0.0f;
          for (int v = 0; v < 14; ++v) {
            pad_temp[c * 45 + h_1 * 15 + v + 1] = data[c * 196 + h * 28 + h_1 * 14 + v + 14];
          }
        }
      }
      for (int v = 0; v < 7; ++v) {
        compute[f * 49 + h * 7 + v + 7] = 0.0f;
        for (int rc = 0; rc < 4; ++rc) {
          for (int ry = 0; ry < 3; ++ry) {
            for (int rx = 0; rx < 3; ++rx) {
              compute[f * 49 + h * 7 + v + 7] += pad_temp[rc * 45 + ry * 15 + v * 2 + rx] * kernel[f * 36 + rc * 9 + ry * 3 + rx];
            }
          }
        }
      }
    }
  }
}
