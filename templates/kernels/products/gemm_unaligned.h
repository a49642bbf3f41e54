// The sizes of gemm_unaligned.cu, which tiles blocks have, and places in their pipeline.
constexpr int TILE_N = GROUPS * 64, WORDS = TILE_M / 2, CHUNK = 64, CONSUMER_THREADS = GROUPS * 128;
// Rows of B in memory, of LINE elements: those that are LINE_CLASSES apart begin as far behind a multiple of 16 bytes
// as one another. A box has those of a class, from the multiple of 16 bytes before the tile's part of them on, and so
// one vector more than that part. Its rows are an odd number of 16 bytes.
constexpr int LINE = TRANSPOSE_B ? K : N, LINES = TRANSPOSE_B ? TILE_N : CHUNK;
constexpr int ALIKE = TRANSPOSE_B ? 1 : N % 2 ? 1 : N % 4 ? 2 : N % 8 ? 4 : 8, LINE_CLASSES = 8 / ALIKE;
constexpr int B_PITCH = (TRANSPOSE_B ? CHUNK : TILE_N) * 2 + 16, BOX_LINES = LINES / LINE_CLASSES;
constexpr int BOX_BYTES = BOX_LINES * B_PITCH, A_BYTES = TILE_M * CHUNK * 2;
// So many warps copy, since one would take longer to ask for eight boxes than a small K tile takes to multiply.
constexpr int PRODUCER_WARPS = LINE_CLASSES < 4 ? LINE_CLASSES : 4;
constexpr int B_BYTES = LINES * B_PITCH, STAGE_BYTES = A_BYTES + B_BYTES;
// Results are written so many rows at a time, from two rooms in turn.
constexpr int BATCH_ROWS = 32, PITCH = TILE_N * 2 + 16, BUFFER_BYTES = BATCH_ROWS * PITCH;
// With BY_CLASS rows of a tile are those of a class: as many rows from one another as A has classes.
constexpr int A_ALIKE = K % 2 ? 1 : K % 4 ? 2 : K % 8 ? 4 : 8, CLASSES = BY_CLASS ? 8 / A_ALIKE : 1;
constexpr int BLOCKS_M = ((M + CLASSES - 1) / CLASSES + TILE_M - 1) / TILE_M * CLASSES;
// Blocks of a cluster have tiles side by side, of which the last may be beyond the columns, and copy a PART of A each.
constexpr int BLOCKS_N = ((N + TILE_N - 1) / TILE_N + CLUSTER_N - 1) / CLUSTER_N * CLUSTER_N, PART = TILE_M / CLUSTER_N;
constexpr unsigned TILES = static_cast<unsigned>(BLOCKS_M) * BLOCKS_N * BATCH;
// K tiles that all tiles have whole, and what may follow: a K tile of which so many steps along K are multiplied. Tiles
// of which K tiles begin before their rows have up to 7 elements more.
constexpr int MOST_BEFORE = BY_CLASS ? 8 - A_ALIKE : 0, LEFT_OVER_K = (K % CHUNK + MOST_BEFORE) % CHUNK;
constexpr int WHOLE_K_TILES = (K + MOST_BEFORE) / CHUNK, REMAINDER_STEPS = (LEFT_OVER_K + DEPTH - 1) / DEPTH;
// Copies need few registers: their warpgroup leaves its to the sums.
constexpr int ENTRY_REGISTERS = 65536 / (THREADS * RESIDENT) / 8 * 8, COPY_REGISTERS = 40;
constexpr int LEFT_OVER = (ENTRY_REGISTERS * (GROUPS + 1) - COPY_REGISTERS) / GROUPS / 8 * 8;
constexpr int SUM_REGISTERS = LEFT_OVER < 240 ? LEFT_OVER : 240;
constexpr bool MOVE_REGISTERS = ENTRY_REGISTERS < 240 && ENTRY_REGISTERS > COPY_REGISTERS;

// A tile: its first row of those of its class, its class, its first column, its matrix of the batch, and where the
// K tiles of its rows begin: `shift` elements before their first.
struct Tile {
  int first, row_class, n, matrix, shift;
  __device__ __forceinline__ bool exists() const { return first * CLASSES + row_class < M; }
  __device__ __forceinline__ int k_tiles() const { return (K + shift + CHUNK - 1) / CHUNK; }
  __device__ __forceinline__ int row(int row_offset) const { return (first + row_offset) * CLASSES + row_class; }
  // How far behind a multiple of 16 bytes the tile's part of a row of B begins, in elements: of rows that run across K,
  // of one so far behind the begin of a K tile; else of one so far behind the tile's first.
  __device__ __forceinline__ int shift_of_line(int line) const {
    const int from = TRANSPOSE_B ? line * (K % 8) - shift : (line - shift) * (N % 8);
    return (static_cast<int>(matrix * (B_STRIDE % 8)) + from) & 7;
  }
  __device__ __forceinline__ int shift_of_result(int m) const {
    return (static_cast<int>(matrix % 8) * (M % 8) * (N % 8) + m % 8 * (N % 8)) & 7;
  }
};

// Tiles run in columns of BAND tiles of rows, so that those at work at one time share what they read in the L2 cache.
__device__ __forceinline__ Tile tile_of(unsigned number) {
  const int matrix = number / (BLOCKS_M * BLOCKS_N), tile = number % (BLOCKS_M * BLOCKS_N);
  const int rank = tile % CLUSTER_N, cluster = tile / CLUSTER_N, across = BLOCKS_N / CLUSTER_N;
  constexpr int HIGHEST = BAND < BLOCKS_M ? BAND : BLOCKS_M;
  const int band = cluster / (HIGHEST * across), top = band * HIGHEST;
  const int height = BLOCKS_M % HIGHEST == 0 || BLOCKS_M - top > HIGHEST ? HIGHEST : BLOCKS_M - top;
  const int inside = cluster - top * across, at = top + inside % height, row_class = at % CLASSES;
  const int n = (inside / height * CLUSTER_N + rank) * TILE_N;
  return {at / CLASSES * TILE_M, row_class, n, matrix, BY_CLASS ? row_class * (K % 8) % 8 : 0};
}

// A place in the pipeline: stages are used in turn, and `parity` changes with every turn.
struct PipelineState {
  int stage;
  unsigned parity;
  __device__ __forceinline__ void next() {
    if (++stage < STAGES) return;
    stage = 0;
    parity ^= 1;
  }
};

// The shared memory of a block: rooms of results, stages, before which threads may read, and barriers of 8 bytes each.
struct SharedStorage {
  unsigned results, stages, full, empty, consumers;
};

__device__ __forceinline__ SharedStorage shared_storage_of(const void* shared) {
  const unsigned results = shared_address(shared), stages = (results + 2 * BUFFER_BYTES + 1023) / 1024 * 1024;
  const unsigned full = stages + STAGES * STAGE_BYTES, empty = full + STAGES * 8;
  return {results, stages, full, empty, empty + STAGES * 8};
}

// Where all consumer warps of a block wait for one another; the emulator takes a barrier.
struct ConsumerBarrier {
  unsigned barrier, parity;
  __device__ __forceinline__ void sync() {
#ifdef AUTOTUNE_EMULATE
    if (threadIdx.x % 32 == 0) barrier_arrive(barrier);
    barrier_wait(barrier, parity);
    parity ^= 1;
#else
    asm volatile("bar.sync 1, %0;" ::"n"(CONSUMER_THREADS) : "memory");
#endif
  }
};

// Copies a box of rows as they are, one behind another: the same to the engine, whose map says so.
#ifdef AUTOTUNE_EMULATE
static inline void copy_lines(
    unsigned to, const TensorMap& map, const Item* matrix, int column, int row, unsigned) {
  const int columns = map.words[8] + 1, rows = map.words[9] + 1;
  const int width = (map.words[13] >> 24) + 1, height = (map.words[14] & 0xff) + 1;
  const long long pitch = map.words[3] * 8ll;
  if (row < 0 || row >= rows || column < 0 || column >= columns) abort();
  Item* const at = static_cast<Item*>(__cvta_shared_to_generic(to));
  for (int i = 0; i < height; ++i)
    for (int j = 0; j < width; ++j) {
      const int y = row + i, x = column + j;
      at[i * width + j] = y < rows && x < columns ? matrix[y * pitch + x] : Item(0);
    }
}
#else
__device__ __forceinline__ void copy_lines(
    unsigned to, const TensorMap& map, const void* matrix, int column, int row, unsigned barrier) {
  tma_load<1>(to, map, matrix, column, row, barrier);
}
#endif
