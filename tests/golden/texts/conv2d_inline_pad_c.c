void conv2d_inline_pad_c(
    const float* restrict data,
    const float* restrict kernel,
    float* restrict compute) {
  #pragma omp parallel for
  for (int f = 0; f < 8; ++f) {
    compute[f * 196] = 0.0f;
    for (int rc = 0; rc < 4; ++rc) {
      compute[f * 196] += 0.0f * kernel[f * 36 + rc * 9];
      compute[f * 196] += 0.0f * kernel[f * 36 + rc * 9 + 1];
      compute[f * 196] += 0.0f * kernel[f * 36 + rc * 9 + 2];
      for (int ry = 0; ry < 2; ++ry) {
        compute[f * 196] += 0.0f * kernel[f * 36 + rc * 9 + ry * 3 + 3];
        compute[f * 196] += data[rc * 196 + ry * 14] * kernel[f * 36 + rc * 9 + ry * 3 + 4];
        compute[f * 196] += data[rc * 196 + ry * 14 + 1] * kernel[f * 36 + rc * 9 + ry * 3 + 5];
      }
    }
    for (int v = 0; v < 12; ++v) {
      compute[f * 196 + v + 1] = 0.0f;
      for (int rc = 0; rc < 4; ++rc) {
        compute[f * 196 + v + 1] += 0.0f * kernel[f * 36 + rc * 9];
        compute[f * 196 + v + 1] += 0.0f * kernel[f * 36 + rc * 9 + 1];
        compute[f * 196 + v + 1] += 0.0f * kernel[f * 36 + rc * 9 + 2];
        for (int ry = 0; ry < 2; ++ry) {
          compute[f * 196 + v + 1] += data[rc * 196 + ry * 14 + v] * kernel[f * 36 + rc * 9 + ry * 3 + 3];
          compute[f * 196 + v + 1] += data[rc * 196 + ry * 14 + v + 1] * kernel[f * 36 + rc * 9 + ry * 3 + 4];
          compute[f * 196 + v + 1] += data[rc * 196 + ry * 14 + v + 2] * kernel[f * 36 + rc * 9 + ry * 3 + 5];
        }
      }
    }
    compute[f * 196 + 13] = 0.0f;
    for (int rc = 0; rc < 4; ++rc) {
      compute[f * 196 + 13] += 0.0f * kernel[f * 36 + rc * 9];
      compute[f * 196 + 13] += 0.0f * kernel[f * 36 + rc * 9 + 1];
      compute[f * 196 + 13] += 0.0f * kernel[f * 36 + rc * 9 + 2];
      for (int ry = 0; ry < 2; ++ry) {
        compute[f * 196 + 13] += data[rc * 196 + ry * 14 + 12] * kernel[f * 36 + rc * 9 + ry * 3 + 3];
        compute[f * 196 + 13] += data[rc * 196 + ry * 14 + 13] * kernel[f * 36 + rc * 9 + ry * 3 + 4];
        compute[f * 196 + 13] += 0.0f * kernel[f * 36 + rc * 9 + ry * 3 + 5];
      }
    }
    for (int h = 0; h < 12; ++h) {
      compute[f * 196 + h * 14 + 14] = 0.0f;
      for (int rc = 0; rc < 4; ++rc) {
        for (int ry = 0; ry < 3; ++ry) {
          compute[f * 196 + h * 14 + 14] += 0.0f * kernel[f * 36 + rc * 9 + ry * 3];
          compute[f * 196 + h * 14 + 14] += data[rc * 196 + ry * 14 + h * 14] * kernel[f * 36 + rc * 9 + ry * 3 + 1];
          compute[f * 196 + h * 14 + 14] += data[rc * 196 + ry * 14 + h * 14 + 1] * kernel[f * 36 + rc * 9 + ry * 3 + 2];
        }
      }
      for (int v = 0; v < 12; ++v) {
        compute[f * 196 + h * 14 + v + 15] = 0.0f;
        for (int rc = 0; rc < 4; ++rc) {
          for (int ry = 0; ry < 3; ++ry) {
            compute[f * 196 + h * 14 + v + 15] += data[rc * 196 + ry * 14 + h * 14 + v] * kernel[f * 36 + rc * 9 + ry * 3];
            compute[f * 196 + h * 14 + v + 15] += data[rc * 196 + ry * 14 + h * 14 + v + 1] * kernel[f * 36 + rc * 9 + ry * 3 + 1];
            compute[f * 196 + h * 14 + v + 15] += data[rc * 196 + ry * 14 + h * 14 + v + 2] * kernel[f * 36 + rc * 9 + ry * 3 + 2];
          }
        }
      }
      compute[f * 196 + h * 14 + 27] = 0.0f;
      for (int rc = 0; rc < 4; ++rc) {
        for (int ry = 0; ry < 3; ++ry) {
          compute[f * 196 + h * 14 + 27] += data[rc * 196 + ry * 14 + h * 14 + 12] * kernel[f * 36 + rc * 9 + ry * 3];
          compute[f * 196 + h * 14 + 27] += data[rc * 196 + ry * 14 + h * 14 + 13] * kernel[f * 36 + rc * 9 + ry * 3 + 1];
          compute[f * 196 + h * 14 + 27] += 0.0f * kernel[f * 36 + rc * 9 + ry * 3 + 2];
        }
      }
    }
    compute[f * 196 + 182] = 0.0f;
    for (int rc = 0; rc < 4; ++rc) {
      for (int ry = 0; ry < 2; ++ry) {
        compute[f * 196 + 182] += 0.0f * kernel[f * 36 + rc * 9 + ry * 3];
        compute[f * 196 + 182] += data[rc * 196 + ry * 14 + 168] * kernel[f * 36 + rc * 9 + ry * 3 + 1];
        compute[f * 196 + 182] += data[rc * 196 + ry * 14 + 169] * kernel[f * 36 + rc * 9 + ry * 3 + 2];
      }
      compute[f * 196 + 182] += 0.0f * kernel[f * 36 + rc * 9 + 6];
      compute[f * 196 + 182] += 0.0f * kernel[f * 36 + rc * 9 + 7];
      compute[f * 196 + 182] += 0.0f * kernel[f * 36 + rc * 9 + 8];
    }
    for (int v = 0; v < 12; ++v) {
      compute[f * 196 + v + 183] = 0.0f;
      for (int rc = 0; rc < 4; ++rc) {
        for (int ry = 0; ry < 2; ++ry) {
          compute[f * 196 + v + 183] += data[rc * 196 + ry * 14 + v + 168] * kernel[f * 36 + rc * 9 + ry * 3];
          compute[f * 196 + v + 183] += data[rc * 196 + ry * 14 + v + 169] * kernel[f * 36 + rc * 9 + ry * 3 + 1];
          compute[f * 196 + v + 183] += data[rc * 196 + ry * 14 + v + 170] * kernel[f * 36 + rc * 9 + ry * 3 + 2];
        }
        compute[f * 196 + v + 183] += 0.0f * kernel[f * 36 + rc * 9 + 6];
        compute[f * 196 + v + 183] += 0.0f * kernel[f * 36 + rc * 9 + 7];
        compute[f * 196 + v + 183] += 0.0f * kernel[f * 36 + rc * 9 + 8];
      }
    }
    compute[f * 196 + 195] = 0.0f;
    for (int rc = 0; rc < 4; ++rc) {
      for (int ry = 0; ry < 2; ++ry) {
        compute[f * 196 + 195] += data[rc * 196 + ry * 14 + 180] * kernel[f * 36 + rc * 9 + ry * 3];
        compute[f * 196 + 195] += data[rc * 196 + ry * 14 + 181] * kernel[f * 36 + rc * 9 + ry * 3 + 1];
        compute[f * 196 + 195] += 0.0f * kernel[f * 36 + rc * 9 + ry * 3 + 2];
      }
      compute[f * 196 + 195] += 0.0f * kernel[f * 36 + rc * 9 + 6];
      compute[f * 196 + 195] += 0.0f * kernel[f * 36 + rc * 9 + 7];
      compute[f * 196 + 195] += 0.0f * kernel[f * 36 + rc * 9 + 8];
    }
  }
}
