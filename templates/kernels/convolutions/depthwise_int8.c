// Depthwise convolutions NCHW of 8-bit integers: a word has four neighbours of a row, which one word of a filter meets. A
// task copies the plane of a channel with its padding, and shuffles what it reads into words.
#define LARGER(a, b) ((a) > (b) ? (a) : (b))
#define QUARTERS ((KW + 3) / 4)
// Bytes from the first one of four words to the last one, and the bytes of a row of a padded plane.
#define REACH (3 * STRIDE_W + 3 * HOLE_W + 1)
#define LINE (((IN_W + 63) / 64 + 2) * 64 + LANES * STRIDE_W)

// The words of 16 pixels, STRIDE_W apart: HOLE_W apart are their bytes.
INLINED words words_at(const uint8_t* from) {
#define AT(x, i) ((x)*STRIDE_W + (i)*HOLE_W)
#define WORD(x) AT(x, 0), AT(x, 1), AT(x, 2), AT(x, 3)
#if REACH <= 16 && defined(__AVX512VBMI__) && !defined(__clang__)
  typedef char full __attribute__((vector_size(64)));
  const full order = {WORD(0), WORD(1), WORD(2), WORD(3), WORD(4), WORD(5), WORD(6), WORD(7),
                      WORD(8), WORD(9), WORD(10), WORD(11), WORD(12), WORD(13), WORD(14), WORD(15)};
  return (words)__builtin_ia32_permvarqi512_mask((full)*(const words*)from, order, order, -1ll);
#elif REACH <= 16
  words made;
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    const bytes16 four = *(const bytes16*)(from + 4 * i * STRIDE_W);
    ((bytes16*)&made)[i] = SHUFFLE_BYTES(four, four, WORD(0), WORD(1), WORD(2), WORD(3));
  }
  return made;
#else
  words made;
  for (int x = 0; x < LANES; ++x) {
    uint32_t word = 0;
    for (int i = 0; i < 4; ++i) word |= (uint32_t)from[AT(x, i)] << 8 * i;
    made[x] = (int32_t)word;
  }
  return made;
#endif
}

// Copies the plane of a channel with padding around, as bytes without a sign.
static void copy_plane(const data_t* restrict from, uint8_t* restrict plane) {
  memset(plane, (uint8_t)(DATA_ZERO ^ (FLIPPED & 255)), (size_t)IN_H * LINE);
  for (int y = 0; y < SMALLER(H, IN_H - PAD_TOP); ++y) {
    uint8_t* to = plane + (size_t)(y + PAD_TOP) * LINE + PAD_LEFT;
    for (int x = 0; x < SMALLER(W, IN_W - PAD_LEFT); ++x) to[x] = (uint8_t)(from[(size_t)y * W + x] ^ (FLIPPED & 255));
  }
}

static void filter_plane(
    const uint8_t* restrict plane, const int8_t* restrict weight, int32_t sums, float scale, float shift, out_t* restrict out) {
  words filter[KH][QUARTERS];
  for (int ky = 0; ky < KH; ++ky)
    for (int q = 0; q < QUARTERS; ++q) {
      int32_t word = 0;
      memcpy(&word, weight + ky * KW + 4 * q, SMALLER(4, KW - 4 * q));
      filter[ky][q] = every(word);
    }
  const words begin = every(-SHIFTED * sums);
  for (int y = 0; y < OH; ++y)
    for (int x = 0; x < OW; x += LANES) {
      const uint8_t* from = plane + (size_t)y * STRIDE_H * LINE + x * STRIDE_W;
      words sum = begin;
#pragma GCC unroll 8
      for (int ky = 0; ky < KH; ++ky)
#pragma GCC unroll 2
        for (int q = 0; q < QUARTERS; ++q)
          sum = dot(sum, words_at(from + (size_t)ky * HOLE_H * LINE + 4 * q * HOLE_W), filter[ky][q]);
      const words made = ended(sum, scale, shift, sum);
      const Piece whole = {0, SMALLER(LANES, OW - x), y * OW + x};
      store_results(out, &made, 1, &whole, 1);
    }
}

void conv2d_int8(
    const data_t* restrict data, const int8_t* restrict weight, const int32_t* restrict sums, const float* restrict scale,
    const float* restrict shift, out_t* restrict out) {
  // Small planes take longer to copy than to filter.
#pragma omp parallel if ((size_t)N * GROUPS * (IN_H * LINE + CO * OH * OW * KH * KW) > 500000)
  {
    uint8_t* plane = aligned_alloc(64, ((size_t)IN_H * LINE + 63) / 64 * 64 + 64 * STRIDE_W + 192 * HOLE_W + 64);
#pragma omp for schedule(static)
    for (int channel = 0; channel < N * GROUPS; ++channel) {
      copy_plane(data + (size_t)channel * H * W, plane);
      for (int r = 0; r < CO; ++r) {
        const int f = channel % GROUPS * CO + r;
        out_t* to = out + ((size_t)channel * CO + r) * OH * OW;
        filter_plane(plane, weight + (size_t)f * KH * KW, sums[f], scale[f], shift[f], to);
      }
    }
    free(plane);
  }
}
