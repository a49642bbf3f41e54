// Shared memory of a warpgroup of conv2d_bf16x3.cu: filters in their memory order, and the input tile with its halo,
// split. Cells are deinterleaved by the stride into planes of PLANE_H x PLANE_W; each has 16 bytes of each piece, for 8
// channels, or with FOLD for 8 taps of a row.
constexpr int TAPS = KH * KW, CELLS = PLANES_Y * PLANES_X * PLANE_H * PLANE_W;
constexpr int TILE_CO = 64, WORDS = ROWS * 4, PAIRS = WORDS / 2;
// Blocks of 8 along K of a cell.
constexpr int EIGHTS = FOLD ? CI : CHUNK / 8;
constexpr int STEPS = (GROUPS + 1) / 2;
constexpr int W_FLOATS = TILE_CO * W_PITCH, PIECE_CELLS = EIGHTS * CELLS, X_CELLS = 3 * PIECE_CELLS;
constexpr int X_STAGES = CHUNKS > 1 ? 2 : 1;
static_assert(STAGES * W_FLOATS * 4 + X_STAGES * X_CELLS * 16 <= SLICE_BYTES, "a slice does not fit");
constexpr int X_ITEMS = (EIGHTS * CELLS + THREADS - 1) / THREADS;
constexpr int TILES_X = (OW + 7) / 8, TILES_Y = (OH + ROWS - 1) / ROWS;
// Rows that a block of a cluster reduces.
constexpr int SHARE = (ROWS + SPLIT - 1) / SPLIT, PARTS = CLUSTER ? SPLIT * SHARE : 0;
constexpr bool WHOLE_CO = CO % TILE_CO == 0;
constexpr bool WHOLE_CI = CHUNKS * SLICES * SPLIT * CHUNK == CI;

// The tap, or with FOLD the row of taps, of a block of K.
__device__ __forceinline__ constexpr int tap_of(int group) {
  constexpr int OF[] = {GROUP_TAPS};
  return OF[group];
}

// Its first cell.
__device__ __forceinline__ constexpr int cell_of(int group) {
  constexpr int OF[] = {GROUP_CELLS};
  return OF[group];
}

// Barrier of a warpgroup.
#ifdef AUTOTUNE_EMULATE
static inline void group_sync(int) { __syncthreads(); }
#else
__device__ __forceinline__ void group_sync(int group) {
  asm volatile("bar.sync %0, 128;" ::"r"(group + 1) : "memory");
}
#endif

// Pointers and coordinates of the tile of a block and of one of its warpgroups.
struct TileSource {
  const float *image, *filters;
  int co0, ci_begin, oy0, ox0, y0, x0, plane;
};

// The filters of a K tile are copied in so many groups: products start when the first has arrived.
constexpr int COPIES = FOLD || TAPS == 1 ? 1 : EIGHTS;

// Copies the filters of a part of a K tile. The offsets of a thread's vectors in a row repeat after PERIOD of them, so
// that most addresses differ by constants.
__device__ __forceinline__ void copy_filters(float* to, const TileSource& source, int ci0, int tid) {
  const float* const from = source.filters + static_cast<size_t>(source.co0) * (CI * TAPS) + ci0 * TAPS;
#if FOLD
  constexpr int VECTORS = TILE_CO * CI * TAPS / W_COPY;
#pragma unroll
  for (int i = 0; i < (VECTORS + THREADS - 1) / THREADS; ++i) {
    const int at = (i * THREADS + tid) * W_COPY;
    const bool valid = WHOLE_CO || at < (CO - source.co0) * (CI * TAPS);
    if (VECTORS % THREADS == 0 || i * THREADS + tid < VECTORS) copy_async<W_COPY>(to + at, valid ? from + at : from, valid);
  }
#else
  constexpr int VECTORS = CHUNK / COPIES * TAPS / W_COPY, ALL = TILE_CO * VECTORS;
  constexpr int COMMON = (VECTORS & -VECTORS) < THREADS ? VECTORS & -VECTORS : THREADS;
  constexpr int APART = THREADS / COMMON, REPEATS = APART < TILE_CO ? TILE_CO / APART : 1;
  constexpr int ALL_OF_THREAD = (ALL + THREADS - 1) / THREADS, PERIOD = ALL_OF_THREAD / REPEATS;
  // Of many vectors nvcc would keep all addresses from one K tile to the next, and spill them.
  constexpr int UNROLLED = CHUNKS > 1 && PERIOD > 32 ? 7 : PERIOD;
  int row = tid / VECTORS, vector = tid % VECTORS;
#pragma unroll UNROLLED
  for (int i = 0; i < PERIOD; ++i) {
    const int at = vector * W_COPY;
    if (ALL % THREADS == 0 || row < TILE_CO) {
#pragma unroll
      for (int repeat = 0; repeat < REPEATS; ++repeat) {
        const int co = row + repeat * APART;
        const bool valid = (WHOLE_CO || source.co0 + co < CO) && (WHOLE_CI || ci0 * TAPS + at < CI * TAPS);
        copy_async<W_COPY>(to + co * W_PITCH + at, valid ? from + co * (CI * TAPS) + at : from, valid);
      }
    }
    row += THREADS / VECTORS, vector += THREADS % VECTORS;
    if (vector >= VECTORS) vector -= VECTORS, ++row;
  }
#endif
}

// Copies the filters of a K tile; commits empty groups beyond the last.
__device__ __forceinline__ void copy_k_tile(float* to, const TileSource& source, int k_tile, int tid) {
#pragma unroll
  for (int copy = 0; copy < COPIES; ++copy) {
    constexpr int PART = CHUNK / COPIES;
    if (k_tile < CHUNKS)
      copy_filters(to + copy * PART * TAPS, source, source.ci_begin + k_tile * CHUNK + copy * PART, tid);
    copy_commit();
  }
}

// Of a line the last row of the image may be partial, and with WRAPPED the halo of a row is in the rows beside it.
__device__ __forceinline__ bool within_plane(int y, int x) {
#if WRAPPED
  return y * IW + x >= 0 && y * IW + x < IN_PLANE;
#else
  return IN_PLANE == IH * IW || y * IW + x < IN_PLANE;
#endif
}

__device__ __forceinline__ int input_index(int c, int y, int x) {
  if (IN_VOLUMES) return plane_of<IN_PLANE>(c) + y * IW + x;
  return IN_PLANE == IH * IW ? (c * IH + y) * IW + x : c * IN_PLANE + y * IW + x;
}

// Loads one core-matrix row of the input tile: eight channels of a cell, or eight taps of a row.
__device__ __forceinline__ void load_item(float (&x)[8], const TileSource& source, int ci0, int item) {
  const int eight = item / CELLS, cell = item % CELLS;
  const int q = cell % PLANE_W, r = cell / PLANE_W % PLANE_H, plane = cell / (PLANE_W * PLANE_H);
  const int y = source.y0 + r * SY + plane / PLANES_X;
  const int x0 = source.x0 + q * SX + plane % PLANES_X;
  const bool row_inside = item < EIGHTS * CELLS && (WRAPPED || (y >= 0 && y < IH));
#if PLANE_TAPS > 1 && !FOLD && !WRAPPED
  // Every PLANE_TAPS-th channel is the same plane of the next channel of the volume: few addresses are computed.
  constexpr int DIFFERENT = PLANE_TAPS < 8 ? PLANE_TAPS : 8;
  const bool inside = row_inside && x0 >= 0 && x0 < IW && within_plane(y, x0);
#pragma unroll
  for (int tap = 0; tap < DIFFERENT; ++tap) {
    const int first = ci0 + eight * 8 + tap;
    const bool there = inside && plane_exists(source.plane, first);
    const float* const from = source.image + input_index(first, y, x0);
#pragma unroll
    for (int i = tap; i < 8; i += DIFFERENT)
      x[i] = there && (WHOLE_CI || first + i - tap < CI) ? from[(i - tap) / DIFFERENT * (DATA_PLANES * IN_PLANE)] : 0.0f;
  }
#else
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const int c = FOLD ? eight : ci0 + eight * 8 + i, at_x = FOLD ? x0 + i * DX : x0;
    const bool there = row_inside && (WRAPPED || (at_x >= 0 && at_x < IW)) && within_plane(y, at_x) &&
                       (FOLD ? i < KW : WHOLE_CI || c < CI) && plane_exists(source.plane, c);
    x[i] = there ? source.image[input_index(c, y, at_x)] : 0.0f;
  }
#endif
}

__device__ __forceinline__ void store_item(uint4* to, const float (&x)[8], int item, SplitStatistics& statistics) {
  Pieces pair[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) pair[i] = split(x[2 * i], x[2 * i + 1], statistics);
  if (item >= EIGHTS * CELLS) return;
#pragma unroll
  for (int piece = 0; piece < 3; ++piece)
    to[piece * PIECE_CELLS + item] =
        make_uint4(pair[0].word[piece], pair[1].word[piece], pair[2].word[piece], pair[3].word[piece]);
}

// Splits the input tile of a K tile, BATCHED rows at a time, which are loaded together.
constexpr int BATCHED = X_ITEMS < 4 ? X_ITEMS : 4;

__device__ __forceinline__ void load_window(
    float (&x)[BATCHED][8], const TileSource& source, int ci0, int first, int tid) {
#pragma unroll
  for (int i = 0; i < BATCHED; ++i) load_item(x[i], source, ci0, tid + (first + i) * THREADS);
}

// The first rows have been loaded already; returns whether there are floats that cannot be split.
__device__ __forceinline__ bool split_window(
    uint4* to, float (&x)[BATCHED][8], const TileSource& source, int ci0, int tid) {
  SplitStatistics statistics = {0.0f, 0};
#pragma unroll 1
  for (int first = 0; first < X_ITEMS; first += BATCHED) {
    if (first) load_window(x, source, ci0, first, tid);
#pragma unroll
    for (int i = 0; i < BATCHED; ++i) {
      store_item(to, x[i], tid + (first + i) * THREADS, statistics);
      statistics.force_update();
    }
  }
  return statistics.unsplittable();
}
