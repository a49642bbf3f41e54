#include <stdbool.h>

void conv2d_inline_pad_c(
    const float* restrict data,
    const float* restrict kernel,
    float* restrict compute) {
  #pragma omp parallel for
  for (int f = 0; f < 8; ++f) {
    for (int h = 0; h < 14; ++h) {
      for (int v = 0; v < 14; ++v) {
        compute[f * 196 + h * 14 + v] = 0.0f;
        for (int rc = 0; rc < 4; ++rc) {
          for (int ry = 0; ry < 3; ++ry) {
            compute[f * 196 + h * 14 + v] += ((h + ry >= 1 && h + ry < 15 && v >= 1) ? data[rc * 196 + h * 14 + ry * 14 + v - 15] : 0.0f) * kernel[f * 36 + rc * 9 + ry * 3];
            compute[f * 196 + h * 14 + v] += ((h + ry >= 1 && h + ry < 15) ? data[rc * 196 + h * 14 + ry * 14 + v - 14] : 0.0f) * kernel[f * 36 + rc * 9 + ry * 3 + 1];
            compute[f * 196 + h * 14 + v] += ((h + ry >= 1 && h + ry < 15 && v < 13) ? data[rc * 196 + h * 14 + ry * 14 + v - 13] : 0.0f) * kernel[f * 36 + rc * 9 + ry * 3 + 2];
          }
        }
      }
    }
  }
}
