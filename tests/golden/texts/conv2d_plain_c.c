void conv2d_plain_c(
    const float* restrict data,
    const float* restrict kernel,
    float* restrict compute,
    float* restrict pad_temp) {
  for (int c = 0; c < 4; ++c) {
    for (int v = 0; v < 16; ++v) {
      pad_temp[c * 256 + v] = 0.0f;
    }
    for (int h = 0; h < 14; ++h) {
      pad_temp[c * 256 + h * 16 + 16] = 0.0f;
      for (int v = 0; v < 14; ++v) {
        pad_temp[c * 256 + h * 16 + v + 17] = data[c * 196 + h * 14 + v];
      }
      pad_temp[c * 256 + h * 16 + 31] = 0.0f;
    }
    for (int v = 0; v < 16; ++v) {
      pad_temp[c * 256 + v + 240] = 0.0f;
    }
  }
  for (int f = 0; f < 8; ++f) {
    for (int h = 0; h < 14; ++h) {
      for (int v = 0; v < 14; ++v) {
        compute[f * 196 + h * 14 + v] = 0.0f;
        for (int rc = 0; rc < 4; ++rc) {
          for (int ry = 0; ry < 3; ++ry) {
            for (int rx = 0; rx < 3; ++rx) {
              compute[f * 196 + h * 14 + v] += pad_temp[rc * 256 + h * 16 + ry * 16 + v + rx] * kernel[f * 36 + rc * 9 + ry * 3 + rx];
            }
          }
        }
      }
    }
  }
}
