// Convolution, NCHW, float32, as a matrix product of the filters with the unfolded input. A task
// owns BLOCK_M output channels and PANELS panels of WIDTH output pixels of one image; it unfolds
// CHANNELS input channels of its panels at a time, which then stay in cache for all its filters.
#define TAPS (KH * KW)
#define PIXELS (OH * OW)
#define DEPTH (CHANNELS * TAPS)

// Unfolds one panel: row c * TAPS + tap holds what filter tap `tap` of channel c meets.
static void unfold(float* restrict to, const float* restrict image, int channels, int p0) {
  for (int tap = 0; tap < TAPS; ++tap) {
    int from[WIDTH];
    for (int j = 0; j < WIDTH; ++j) {
      const int p = p0 + j, y = p / OW * SY - PY + tap / KW, x = p % OW * SX - PX + tap % KW;
      from[j] = p < PIXELS && y >= 0 && y < IH && x >= 0 && x < IW ? y * IW + x : -1;
    }
    for (int c = 0; c < channels; ++c) {
      const float* restrict plane = image + (size_t)c * IH * IW;
      float* restrict row = to + (c * TAPS + tap) * WIDTH;
#pragma omp simd
      for (int j = 0; j < WIDTH; ++j) row[j] = from[j] < 0 ? 0.0f : plane[from[j]];
    }
  }
}

static void task(
    int m0, int first_pixel, float* restrict packed, const float* restrict image,
    const float* restrict weight, const float* restrict bias, float* restrict out) {
  const int rows = SMALLER(BLOCK_M, CO - m0);
  const int end = SMALLER(first_pixel + PANELS * WIDTH, PIXELS);
  for (int c0 = 0; c0 < CI; c0 += CHANNELS) {
    const int channels = SMALLER(CHANNELS, CI - c0);
    float* panel = packed;
    for (int p = first_pixel; p < end; p += WIDTH, panel += DEPTH * WIDTH)
      unfold(panel, image + (size_t)c0 * IH * IW, channels, p);
    for (int m = 0; m < rows; m += ROWS) {
      const float* filters = weight + (size_t)(m0 + m) * LDA + c0 * TAPS;
      panel = packed;
      for (int p = first_pixel; p < end; p += WIDTH, panel += DEPTH * WIDTH)
        strip(
            SMALLER(ROWS, rows - m), channels * TAPS, filters, panel,
            out + (size_t)(m0 + m) * PIXELS + p, SMALLER(WIDTH, PIXELS - p), c0 == 0,
            c0 + CHANNELS >= CI, bias + m0 + m);
    }
  }
}

void conv2d_nchw(
    const float* restrict data, const float* restrict weight, const float* restrict bias,
    float* restrict out) {
#pragma omp parallel
  {
    float* packed = aligned_alloc(64, (sizeof(float) * PANELS * DEPTH * WIDTH + 63) / 64 * 64);
#pragma omp for collapse(3) schedule(dynamic)
    for (int n = 0; n < BATCH; ++n)
      for (int m = 0; m < CO; m += BLOCK_M)
        for (int p = 0; p < PIXELS; p += PANELS * WIDTH)
          task(m, p, packed, data + (size_t)n * CI * IH * IW, weight, bias,
               out + (size_t)n * CO * PIXELS);
    free(packed);
  }
}
