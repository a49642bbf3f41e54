// Convolutions NCHW of 8-bit integers. Images are arranged in words first (int8_words.h), so that filters read vectors of
// pixels in place: im2col is not needed. Those are numbered along padded rows, whose ends are computed and not stored.
// Filters are in blocks of 16, [blocks][PARTS][TAPS][16][WORDS][4]: each step multiplies WORDS words of each.
// What of the `count` pixels of a panel are neighbours of the result.
INLINED int pieces_of(int line, int first, int count, Piece* piece) {
  if (BY_COLUMNS || PITCH == OW) {
    piece[0] = (Piece){0, count, line * OW + first};
    return 1;
  }
  int pieces = 0;
  for (int at = 0, row = first / PITCH, x = first % PITCH; at < count; x = 0, ++row) {
    const int run = SMALLER(count - at, PITCH - x), stored = SMALLER(run, OW - x);
    if (stored > 0) piece[pieces++] = (Piece){at, stored, row * OW + x};
    at += run;
  }
  return pieces;
}

// Filters and what follows their sums, from a first one on, and where results go.
typedef struct {
  const int8_t* weight;
  const int32_t* sums;
  const float *scale, *shift;
  const uint8_t* residual;
  out_t* out;
} Filters;

INLINED void store_filters(
    const words* sum, const size_t pitch, const int vectors, const int filters, const Filters all, const Piece* piece, int pieces) {
  for (int r = 0; r < filters; ++r) {
    words made[VECTORS], other[VECTORS];
#if RESIDUAL
    load_residual(all.residual + (size_t)r * OUT_PIXELS, other, vectors, piece, pieces);
#else
    memset(other, 0, sizeof other);
#endif
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v)
      made[v] = ended(sum[r * pitch + v] - SHIFTED * all.sums[r], all.scale[r], all.shift[r], other[v]);
    store_results(all.out + (size_t)r * OUT_PIXELS, made, vectors, piece, pieces);
  }
}

// Multiplies half a block of filters by a panel.
INLINED void tile(const int vectors, const Filters all, int filters, const packed_t* from, const Piece* piece, int pieces) {
  words sum[HALF][VECTORS];
#pragma GCC unroll 8
  for (int r = 0; r < HALF; ++r)
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) sum[r][v] = (words){0};
  const int8_t* weight = all.weight;
  for (int part = 0; part < PARTS; ++part)
    for (int tap = 0; tap < TAPS; ++tap, weight += STEP_BYTES) {
      const packed_t* at = from + (size_t)part * WORDS * APART + TAP_OFFSET(tap);
      for (int w = 0; w < WORDS; ++w) {
        words left[VECTORS];
#pragma GCC unroll 4
        for (int v = 0; v < vectors; ++v) left[v] = *(const words*)(at + (size_t)w * APART + v * LANES);
#pragma GCC unroll 8
        for (int r = 0; r < HALF; ++r) {
          const words right = every(*(const word*)(weight + (r * WORDS + w) * 4));
#pragma GCC unroll 4
          for (int v = 0; v < vectors; ++v) sum[r][v] = dot(sum[r][v], left[v], right);
        }
      }
    }
  store_filters(&sum[0][0], VECTORS, vectors, filters, all, piece, pieces);
}

INLINED Filters moved(Filters all, int by) {
  const size_t rows = (size_t)by * OUT_PIXELS;
  return (Filters){all.weight, all.sums + by, all.scale + by, all.shift + by, RESIDUAL ? all.residual + rows : NULL, all.out + rows};
}

// Multiplies at most two blocks of filters by the `count` pixels of a panel.
static void panel_of(
    const Filters all, const int filters, const packed_t* from, int count, const Piece* piece, int pieces, int by_tiles) {
#if HAS_TILES
  if (by_tiles) {
    words sums[2 * TALL][VECTORS] __attribute__((aligned(64)));
#define MULTIPLY(height, wide)                                                                  \
  {                                                                                             \
    multiply_tiles(height, wide, all.weight, BLOCK_BYTES, from, (int32_t*)sums);                \
    store_filters(&sums[0][0], VECTORS, wide, SMALLER(filters, height * TALL), all, piece, pieces); \
  }
    if (filters > TALL && count > LANES) MULTIPLY(2, 2)
    else if (filters > TALL) MULTIPLY(2, 1)
    else if (count > LANES) MULTIPLY(1, 2)
    else MULTIPLY(1, 1)
#undef MULTIPLY
    return;
  }
#endif
  (void)by_tiles;
  for (int f = 0; f < filters; f += HALF) {
    Filters half = moved(all, f);
    half.weight += f / TALL * BLOCK_BYTES + f % TALL * WORDS * 4;
    const int held = SMALLER(HALF, filters - f);
    if (VECTORS > 2 && count <= 2 * LANES && count > LANES) tile(2, half, held, from, piece, pieces);
    else if (VECTORS > 1 && count <= LANES) tile(1, half, held, from, piece, pieces);
    else tile(VECTORS, half, held, from, piece, pieces);
  }
}

#if !PACKED
// Packs filters as they are multiplied.
static void pack_filters(const int8_t* restrict weight, int8_t* restrict to) {
  for (int block = 0; block < GROUPS * BLOCKS; ++block)
    for (int part = 0; part < PARTS; ++part)
      for (int tap = 0; tap < TAPS; ++tap)
        for (int r = 0; r < TALL; ++r)
          for (int w = 0; w < WORDS; ++w)
            for (int i = 0; i < 4; ++i) {
              const int f = block % BLOCKS * TALL + r, k = part * WORDS + w;
              const int c = BY_COLUMNS ? k / QUARTERS % CI : 4 * k + i;
              const int ky = BY_COLUMNS ? k / (QUARTERS * CI) : tap / KW;
              const int kx = BY_COLUMNS ? k % QUARTERS * 4 + i : tap % KW;
              const int there = f < CO && c < CI && ky < KH && kx < KW;
              const size_t filter = (size_t)block / BLOCKS * CO + f;
              *to++ = there ? weight[((filter * CI + c) * KH + ky) * KW + kx] : 0;
            }
}
#endif

void conv2d_int8(
    const data_t* restrict data, const int8_t* restrict weight, const int32_t* restrict sums, const float* restrict scale,
    const float* restrict shift, const uint8_t* restrict residual, packed_t* restrict arranged, int8_t* restrict packed,
    out_t* restrict out) {
#if !PACKED
  pack_filters(weight, packed);
  weight = packed;
#endif
  (void)packed;
  arrange_all(data, arranged);
  int by_tiles = 0;
#if HAS_TILES
  by_tiles = may_use_tiles();
#endif
#pragma omp parallel if ((size_t)N * GROUPS * CO * OUT_PIXELS * CI * KH * KW > 1000000)
  {
#if HAS_TILES
    if (by_tiles) begin_tiles();
#endif
#pragma omp for collapse(3) schedule(dynamic)
    for (int image = 0; image < N * GROUPS; ++image)
      for (int begin = 0; begin < PANELS; begin += SPAN)
        for (int block = 0; block < CO; block += BLOCK) {
          const int group = image % GROUPS, own = group * CO;
          for (int f = block; f < SMALLER(block + BLOCK, CO); f += 2 * TALL)
            for (int panel = begin; panel < SMALLER(begin + SPAN, PANELS); ++panel) {
              const int line = panel / LINE_PANELS, first = panel % LINE_PANELS * PIXELS;
              const int count = SMALLER(PIXELS, LENGTH - first);
              Piece piece[PIXELS];
              const int pieces = pieces_of(line, first, count, piece);
              const size_t rows = ((size_t)image * CO + f) * OUT_PIXELS;
              const Filters all = {weight + (group * BLOCKS + f / TALL) * BLOCK_BYTES, sums + own + f, scale + own + f,
                                   shift + own + f, RESIDUAL ? residual + rows : NULL, out + rows};
              const packed_t* from = arranged + image * IMAGE_WORDS + line * LINE_STEP + first;
              const int filters = SMALLER(SMALLER(2 * TALL, CO - f), block + BLOCK - f);
              panel_of(all, filters, from, count, piece, pieces, by_tiles);
            }
        }
#if HAS_TILES
    if (by_tiles) end_tiles();
#endif
  }
}
