// Convolutions NCHW of 8-bit integers: implicit GEMM with pixels along the lanes of vectors, four terms of a sum in a word.
// A task multiplies BLOCK filters by a panel of PIXELS pixels, in which the bytes that a filter reads stand in its order:
// [K / 4][PIXELS][4]. So weights are read as they are, a word for all pixels. Images are padded first, in a copy.
#define K (CI * KH * KW)
#define STEPS ((K + 3) / 4)
#define PIXELS (VECTORS * LANES)
#define OUT_PIXELS (OH * OW)
#define PADDED (PAD_TOP || PAD_LEFT || IN_H != H || IN_W != W)
// The offset of what is added to the data so that 0 stands for nothing.
#define SHIFTED (DATA_ZERO + (DATA_SIGNED ? 128 : 0))

// Copies images with the padding around them.
static void pad(const data_t* restrict from, data_t* restrict to) {
#pragma omp parallel for if ((size_t)N * GROUPS * CI * IN_H * IN_W > 65536)
  for (int plane = 0; plane < N * GROUPS * CI; ++plane) {
    data_t* rows = to + (size_t)plane * IN_H * IN_W;
    memset(rows, DATA_ZERO, (size_t)IN_H * IN_W);
    for (int y = 0; y < SMALLER(H, IN_H - PAD_TOP); ++y)
      memcpy(rows + (y + PAD_TOP) * IN_W + PAD_LEFT, from + ((size_t)plane * H + y) * W, SMALLER(W, IN_W - PAD_LEFT));
  }
}

// Copies what one element of a filter reads for `count` pixels from the one at (y, x) on.
INLINED void gather(const data_t* restrict from, int y, int x, int count, uint8_t* restrict to) {
  for (int at = 0; at < count;) {
    const int run = SMALLER(OW - x, count - at);
    const data_t* row = from + (size_t)y * STRIDE_H * IN_W + x * STRIDE_W;
    for (int i = 0; i < run; ++i) to[at + i] = (uint8_t)row[i * STRIDE_W];
    at += run, x = 0, ++y;
  }
}

// Fills a panel with what filters of a group read for `count` pixels from the first one on.
static void pack(const data_t* restrict image, int first, int count, words* restrict panel) {
  uint8_t rows[4][PIXELS] __attribute__((aligned(64)));
  memset(rows, 0, sizeof rows);
  const int y = first / OW, x = first % OW;
  int c = 0, ky = 0, kx = 0;
  for (int step = 0; step < STEPS; ++step, panel += VECTORS) {
    for (int i = 0; i < 4 && 4 * step + i < K; ++i) {
      const data_t* from = image + ((size_t)c * IN_H + ky * HOLE_H) * IN_W + kx * HOLE_W;
      gather(from, y, x, count, rows[i]);
      if (++kx == KW) {
        kx = 0;
        if (++ky == KH) ky = 0, ++c;
      }
    }
    uint32_t* to = (uint32_t*)panel;
    for (int p = 0; p < PIXELS; ++p)
      to[p] = (rows[0][p] | (uint32_t)rows[1][p] << 8 | (uint32_t)rows[2][p] << 16 | (uint32_t)rows[3][p] << 24) ^
              (uint32_t)FLIPPED;
  }
}

// Multiplies `height` filters by a panel, of which `count` pixels exist.
INLINED void tile(
    const int height, const int vectors, const int8_t* restrict weight, const words* restrict panel,
    const int32_t* restrict sums, const float* restrict scale, const float* restrict shift, out_t* restrict out, int count) {
  words sum[ROWS][VECTORS];
#pragma GCC unroll 16
  for (int r = 0; r < height; ++r)
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) sum[r][v] = every(-SHIFTED * sums[r]);
  for (int step = 0; step < K / 4; ++step) {
    words left[VECTORS];
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) left[v] = panel[step * VECTORS + v];
#pragma GCC unroll 16
    for (int r = 0; r < height; ++r) {
      const words right = every(*(const word*)(weight + (size_t)r * K + 4 * step));
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v) sum[r][v] = dot(sum[r][v], left[v], right);
    }
  }
  if (K % 4)
#pragma GCC unroll 16
    for (int r = 0; r < height; ++r) {
      int32_t last = 0;
      memcpy(&last, weight + (size_t)r * K + K / 4 * 4, K % 4);
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v) sum[r][v] = dot(sum[r][v], panel[K / 4 * VECTORS + v], every(last));
    }
#pragma GCC unroll 16
  for (int r = 0; r < height; ++r) {
    int32_t whole[PIXELS] __attribute__((aligned(64)));
    out_t made[PIXELS] __attribute__((aligned(64)));
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) *(words*)(whole + v * LANES) = sum[r][v];
    for (int p = 0; p < vectors * LANES; ++p) made[p] = finished(whole[p], scale[r], shift[r]);
    memcpy(out + (size_t)r * OUT_PIXELS, made, count * sizeof(out_t));
  }
}

INLINED void rows_of(
    const int vectors, int begin, int end, const int8_t* restrict weight, const words* restrict panel,
    const int32_t* restrict sums, const float* restrict scale, const float* restrict shift, out_t* restrict out, int count) {
  int f = begin;
#define TILE(height) \
  tile(height, vectors, weight + (size_t)f * K, panel, sums + f, scale + f, shift + f, out + (size_t)f * OUT_PIXELS, count)
  for (; f + ROWS <= end; f += ROWS) TILE(ROWS);
  for (; f < end; ++f) TILE(1);
#undef TILE
}

void conv2d_int8(
    const data_t* restrict data, const int8_t* restrict weight, const int32_t* restrict sums, const float* restrict scale,
    const float* restrict shift, data_t* restrict padded, out_t* restrict out) {
  if (PADDED) pad(data, padded);
  const data_t* images = PADDED ? padded : data;
#pragma omp parallel if ((size_t)N * GROUPS * CO * OUT_PIXELS * K > 1000000)
  {
    words* panel = aligned_alloc(64, (size_t)STEPS * VECTORS * 64);
#pragma omp for collapse(3) schedule(dynamic)
    for (int image = 0; image < N * GROUPS; ++image)
      for (int first = 0; first < OUT_PIXELS; first += PIXELS)
        for (int block = 0; block < CO; block += BLOCK) {
          const int count = SMALLER(PIXELS, OUT_PIXELS - first), own = image % GROUPS * CO;
          pack(images + (size_t)image * CI * IN_H * IN_W, first, count, panel);
          const int8_t* filters = weight + (size_t)own * K;
          out_t* to = out + (size_t)image * CO * OUT_PIXELS + first;
          const int end = SMALLER(block + BLOCK, CO);
#define ROWS_OF(vectors) \
  rows_of(vectors, block, end, filters, panel, sums + own, scale + own, shift + own, to, count)
          if (VECTORS > 1 && count <= LANES) ROWS_OF(1);
          else ROWS_OF(VECTORS);
        }
    free(panel);
  }
}
