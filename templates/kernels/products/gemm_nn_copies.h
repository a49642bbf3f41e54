// Sizes of gemm_nn.cu, and its copies of K tiles to shared memory by cp.async.
constexpr int TILE_M = THREADS_M * ROWS, TILE_N = THREADS_N * COLS;
constexpr int TILE = TILE_M * TILE_N;
constexpr int CHUNK = SLICES * STEP;
constexpr int K_TILES = (K_PER_SPLIT + CHUNK - 1) / CHUNK;
constexpr int A_FLOATS = (TRANSPOSED ? CHUNK : TILE_M) * A_PITCH, B_FLOATS = CHUNK * B_PITCH;
constexpr int STAGE_FLOATS = A_FLOATS + B_FLOATS;
constexpr int PANELS = COLS / N_VEC;
// Whether operands of a step are loaded during the previous step.
#define AHEAD (TRANSPOSED && STAGES > 1 && STRAIGHT % 2 == 0)
// Whether A is loaded in rows of four steps, a few rows ahead, and B four steps ahead: where that takes no more
// registers than all rows of four steps.
#define STREAMED                                                                      \
  (!TRANSPOSED && STAGES > 2 && STRAIGHT == STEP && STEP % 8 == 0 && ROWS % 4 == 0 && \
   2 * ROWS >= 8 + 3 * COLS)
// Threads of a warp cover a rectangle of 4 x 8, where the block's thread layout is a multiple of that.
constexpr bool RECTANGLES = THREADS_M % 4 == 0 && THREADS_N % 8 == 0;
constexpr int LANES_M = RECTANGLES ? 4 : THREADS_M, LANES_N = RECTANGLES ? 8 : THREADS_N;

// Where tiles divide the extents, bounds checks are constant and vanish.
constexpr bool WHOLE_M = M % TILE_M == 0, WHOLE_N = N % TILE_N == 0;
constexpr bool WHOLE_K = K_PER_SPLIT * SPLIT == K && K_PER_SPLIT % CHUNK == 0;

// Parts in which a K tile is staged, with multiply-adds between them: four from 12 copies per thread on.
constexpr int COPIES = CHUNK * (TILE_M / A_COPY + TILE_N / B_COPY) / THREADS;
// The last part is issued before the last step, which waits for copies.
constexpr int PARTS = AHEAD && STRAIGHT % 8 == 0 && COPIES >= 12    ? 4
                      : (AHEAD && STRAIGHT % 4 == 0) || STREAMED ? 2
                                                                 : 1;

// Steps of K are dealt to slices K_TOGETHER at a time (cyclically), as A is loaded: threads of a warp that belong to
// different slices then load adjacent vectors of A, and adjacent rows of B, which are permuted accordingly in shared
// memory.
constexpr int K_TOGETHER = TRANSPOSED ? 1 : K_VEC;
constexpr bool PERMUTED = SLICES > 1 && K_TOGETHER > 1;
// Distance from one group of K_TOGETHER steps of a slice to the next, and of steps in B.
constexpr int A_GROUP_TO = SLICES * (TRANSPOSED ? A_PITCH : K_TOGETHER), B_STEP_TO = SLICES * B_PITCH;

// The row of shared memory that holds row k of a tile of B.
__device__ __forceinline__ int b_row_of(int k) {
  constexpr int PERIOD = SLICES * K_TOGETHER;
  return k / PERIOD * PERIOD + k % K_TOGETHER * SLICES + k / K_TOGETHER % SLICES;
}

// Assigns the vectors of a tile to threads. Where THREADS is a multiple of TILE_VECTORS each thread keeps one column,
// so that addresses of its copies differ from the first by constants; first_row and first_vector are then the indices of
// its first vector, otherwise 0.
template <int TILE_ROWS, int TILE_VECTORS>
struct Copies {
  static constexpr bool SWEEPS = THREADS % TILE_VECTORS == 0;
  static constexpr int SWEEP = THREADS < TILE_VECTORS ? 1 : THREADS / TILE_VECTORS;

  static __device__ __forceinline__ int first_row(int tid) { return SWEEPS ? tid / TILE_VECTORS : 0; }
  static __device__ __forceinline__ int first_vector(int tid) { return SWEEPS ? tid % TILE_VECTORS : 0; }

  // Calls body(row, vector), relative to a thread's own, for the vectors of a part.
  template <class Body>
  static __device__ __forceinline__ void each(int tid, int part, Body body) {
    if (SWEEPS) {
#pragma unroll
      for (int row = 0; row < TILE_ROWS; row += SWEEP)
        if (row / SWEEP % PARTS == part && (TILE_ROWS % SWEEP == 0 || first_row(tid) + row < TILE_ROWS))
          body(row, 0);
    } else if (part == 0) {
      each_vector<TILE_ROWS, TILE_VECTORS>(tid, body);
    }
  }
};

// Operands that are transposed while they are copied are copied element by element, eight along K at a time, which are
// in different banks.
constexpr int EIGHT = CHUNK % 8 == 0 ? 8 : CHUNK;
#if TRANSPOSE_A
typedef Copies<CHUNK, TILE_M / A_COPY> CopiesA;
constexpr int A_SIDE = CHUNK, A_VECTOR = A_COPY, A_ROW_TO = A_PITCH, A_VECTOR_TO = A_COPY;
constexpr long long A_ROW = M;
#else
// Along K first; A_SIDE vectors of it at a time.
constexpr int A_SIDE = TRANSPOSED ? EIGHT : CHUNK / A_COPY;
typedef Copies<TILE_M, A_SIDE> CopiesA;
constexpr int A_VECTOR = A_COPY, A_ROW_TO = TRANSPOSED ? 1 : A_PITCH;
constexpr int A_VECTOR_TO = TRANSPOSED ? A_PITCH : A_COPY;
constexpr long long A_ROW = CONV ? 0 : K;
#endif
#if TRANSPOSE_B
typedef Copies<TILE_N, EIGHT> CopiesB;
constexpr int B_VECTOR = 1, B_VECTOR_TO = B_PITCH;
constexpr long long B_ROW = K;
#else
typedef Copies<CHUNK, TILE_N / B_COPY> CopiesB;
constexpr int B_VECTOR = B_COPY, B_VECTOR_TO = B_COPY;
constexpr long long B_ROW = ALL_N;
#endif

// Copies a part of a K tile of A; `from` and `to` have a thread's own offset already. Fills with zeros out of bounds.
// With CONV `from` is the start of the images.
__device__ __forceinline__ void stage_a(
    float* to, const float* __restrict__ from, int m0, int k0, int k_end, bool exists, int tid, int part) {
  const int first_row = CopiesA::first_row(tid), first_vector = CopiesA::first_vector(tid) * A_VECTOR;
#if TRANSPOSE_A
  CopiesA::each(tid, part, [&](int k, int vector) {
    const int m = m0 + first_vector + vector * A_VECTOR;
    const bool valid = exists && (WHOLE_M || m < M) && (WHOLE_K || k0 + first_row + k < k_end);
    copy_async<A_COPY>(
        to + (k * A_ROW_TO + vector * A_VECTOR_TO), from + (k * A_ROW + vector * A_VECTOR), valid);
  });
#else
#pragma unroll
  for (int side = 0; side < CHUNK / A_COPY; side += A_SIDE)
    CopiesA::each(tid, part, [&](int row, int vector) {
      const int m = m0 + first_row + row, k = k0 + first_vector + (side + vector) * A_VECTOR;
      bool valid = exists && (WHOLE_M || m < M) && (WHOLE_K || k < k_end);
#if CONV
      const long long offset = window_element(m, k, valid);
#else
      const long long offset = row * A_ROW + (side + vector) * A_VECTOR;
#endif
      copy_async<A_COPY>(to + (row * A_ROW_TO + (side + vector) * A_VECTOR_TO), from + offset, valid);
    });
#endif
}

// Copies a part of a K tile of B.
__device__ __forceinline__ void stage_b(
    float* to, const float* __restrict__ from, int n0, int k0, int k_end, bool exists, int tid, int part) {
  const int first_row = CopiesB::first_row(tid), first_vector = CopiesB::first_vector(tid) * B_VECTOR;
#if TRANSPOSE_B
#pragma unroll
  for (int side = 0; side < CHUNK; side += EIGHT)
    CopiesB::each(tid, part, [&](int column, int vector) {
      const int n = n0 + first_row + column, k = k0 + first_vector + side + vector;
      const bool valid = exists && (WHOLE_N || n < N) && (WHOLE_K || k < k_end);
      const int row = PERMUTED ? b_row_of(first_vector + side + vector) : side + vector;
      copy_async<1>(to + (column + row * B_PITCH), from + (column * B_ROW + side + vector), valid);
    });
#else
  CopiesB::each(tid, part, [&](int k, int vector) {
    const int n = n0 + first_vector + vector * B_VECTOR;
    const bool valid = exists && (WHOLE_N || n < N) && (WHOLE_K || k0 + first_row + k < k_end);
    const int row = PERMUTED ? b_row_of(first_row + k) : k;
    copy_async<B_COPY>(to + (row * B_PITCH + vector * B_VECTOR_TO), from + (k * B_ROW + vector * B_VECTOR), valid);
  });
#endif
}
