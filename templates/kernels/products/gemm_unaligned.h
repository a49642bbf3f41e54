// Sizes of gemm_unaligned.cu, the tile scheduler, the state of the pipeline and the layout of shared memory.
constexpr int TILE_N = GROUPS * 64, WORDS = TILE_M / 2, CHUNK = 64, CONSUMER_THREADS = GROUPS * 128;
// A line is a row of B in memory, of LINE elements. Lines whose indices are equal modulo LINE_CLASSES have the same
// misalignment (their address modulo 16 bytes): they form a class. A TMA box loads lines of one class, from the aligned
// address at or before the tile's columns on, and is therefore one vector wider than the tile. The pitch of its rows is
// an odd number of 16 bytes, against bank conflicts.
constexpr int LINE = TRANSPOSE_B ? K : N, LINES = TRANSPOSE_B ? TILE_N : CHUNK;
constexpr int ALIKE = TRANSPOSE_B ? 1 : N % 2 ? 1 : N % 4 ? 2 : N % 8 ? 4 : 8, LINE_CLASSES = 8 / ALIKE;
constexpr int B_PITCH = (TRANSPOSE_B ? CHUNK : TILE_N) * 2 + 16, BOX_LINES = LINES / LINE_CLASSES;
constexpr int BOX_BYTES = BOX_LINES * B_PITCH, A_BYTES = TILE_M * CHUNK * 2;
// Several producer warps: one would take longer to issue eight boxes than a small K tile takes to multiply.
constexpr int PRODUCER_WARPS = LINE_CLASSES < 4 ? LINE_CLASSES : 4;
constexpr int B_BYTES = LINES * B_PITCH, STAGE_BYTES = A_BYTES + B_BYTES;
// The epilogue stages BATCH_ROWS rows at a time, in two buffers alternately.
constexpr int BATCH_ROWS = 32, PITCH = TILE_N * 2 + 16, BUFFER_BYTES = BATCH_ROWS * PITCH;
// With BY_CLASS the rows of A of a tile are those of one class, with a stride of CLASSES rows.
constexpr int A_ALIKE = K % 2 ? 1 : K % 4 ? 2 : K % 8 ? 4 : 8, CLASSES = BY_CLASS ? 8 / A_ALIKE : 1;
// The CLUSTER_M x CLUSTER_N blocks of a cluster have neighbouring tiles, of rows of one class. Those of the same rows
// multicast a PART of A each, those of the same columns some boxes of B. The last tiles may be out of bounds.
constexpr int CLUSTER_BLOCKS = CLUSTER_M * CLUSTER_N, PART = TILE_M / CLUSTER_N;
constexpr int CLUSTERS_M = ((M + CLASSES - 1) / CLASSES + TILE_M * CLUSTER_M - 1) / (TILE_M * CLUSTER_M) * CLASSES;
// The last part of a class may have fewer rows: of what a box has beyond a matrix, zeros are written, which takes longer
// than to load rows. What is in shared memory instead of them is multiplied, but such sums are not written.
constexpr int ROWS_OF_CLASS = (M + CLASSES - 1) / CLASSES, LAST_PART_FROM = (ROWS_OF_CLASS - 1) / PART * PART;
constexpr int LAST_PART = (ROWS_OF_CLASS - LAST_PART_FROM + 7) / 8 * 8;
constexpr int CLUSTERS_N = (N + TILE_N * CLUSTER_N - 1) / (TILE_N * CLUSTER_N);
// Blocks that load what a block multiplies, itself included.
constexpr int MULTICAST_PEERS = CLUSTER_M + CLUSTER_N - 1;
constexpr unsigned TILES = static_cast<unsigned>(CLUSTERS_M) * CLUSTERS_N * CLUSTER_BLOCKS * BATCH;
// K tiles that are whole for all tiles, and the steps along K of a remainder. The first K tile of a misaligned class
// starts up to 7 elements before its rows, which makes K longer by as many.
constexpr int MOST_BEFORE = BY_CLASS ? 8 - A_ALIKE : 0, LEFT_OVER_K = (K % CHUNK + MOST_BEFORE) % CHUNK;
constexpr int WHOLE_K_TILES = (K + MOST_BEFORE) / CHUNK, REMAINDER_STEPS = (LEFT_OVER_K + DEPTH - 1) / DEPTH;
// With split-K, SPLIT blocks of a cluster take a range of K tiles each, and a share of the tile's rows to write. Such
// blocks have one tile. The last range is what is left.
constexpr int K_TILES = ((K + MOST_BEFORE + CHUNK - 1) / CHUNK + SPLIT - 1) / SPLIT, OWN_M = TILE_M / SPLIT;
// Producers need few registers; consumers get the others.
constexpr int ENTRY_REGISTERS = 65536 / (THREADS * RESIDENT) / 8 * 8, PRODUCER_REGISTERS = 40;
constexpr int FREE_REGISTERS = (ENTRY_REGISTERS * (GROUPS + 1) - PRODUCER_REGISTERS) / GROUPS / 8 * 8;
constexpr int CONSUMER_REGISTERS = FREE_REGISTERS < 240 ? FREE_REGISTERS : 240;
constexpr bool MOVE_REGISTERS = ENTRY_REGISTERS < 240 && ENTRY_REGISTERS > PRODUCER_REGISTERS;

__device__ __forceinline__ int first_k_tile() { return SPLIT == 1 ? 0 : static_cast<int>(blockIdx.z) * K_TILES; }

// A tile: the index of its first row within its class, its class, its first column, its matrix of the batch, and the
// misalignment of its rows in elements: K tiles start `shift` elements before the rows.
struct Tile {
  int first, row_class, n, matrix, shift;
  // Returns whether any tile of the cluster has rows in bounds: blocks load for each other.
  __device__ __forceinline__ bool exists() const {
    return first / (TILE_M * CLUSTER_M) * (TILE_M * CLUSTER_M) * CLASSES + row_class < M;
  }
  // The K tiles that this block multiplies: all, or a range from `first_k_tile` on.
  __device__ __forceinline__ int k_tiles() const {
    const int left = (K + shift + CHUNK - 1) / CHUNK - first_k_tile();
    return SPLIT == 1 || left < K_TILES ? left : K_TILES;
  }
  __device__ __forceinline__ int row(int row_offset) const { return (first + row_offset) * CLASSES + row_class; }
  // Misalignment, in elements, of the tile's part of a line of B: of lines along N, of that with index `line` in a K
  // tile; of lines along K, of that with index `line` in the tile.
  __device__ __forceinline__ int shift_of_line(int line) const {
    const int from = TRANSPOSE_B ? line * (K % 8) - shift : (line - shift) * (N % 8);
    return (static_cast<int>(matrix * (B_STRIDE % 8)) + from) & 7;
  }
  __device__ __forceinline__ int shift_of_result(int m) const {
    return (static_cast<int>(matrix % 8) * (M % 8) * (N % 8) + m % 8 * (N % 8)) & 7;
  }
};

// Returns whether a part of a tile is the last one of its class, of which a smaller box is loaded.
__device__ __forceinline__ bool is_last_part(const Tile& tile, int row_offset) {
  return LAST_PART < PART && tile.first + row_offset == LAST_PART_FROM;
}

// Coordinates of a block, or of a tile, within its cluster.
__device__ __forceinline__ int down_in_cluster(unsigned number) { return number % CLUSTER_M; }
__device__ __forceinline__ int across_in_cluster(unsigned number) { return number % CLUSTER_BLOCKS / CLUSTER_M; }

// The rank in the cluster of the first block with this one's range of K.
__device__ __forceinline__ unsigned first_of_range() { return SPLIT == 1 ? 0 : blockIdx.z * CLUSTER_BLOCKS; }

// Rasterisation in bands of BAND clusters along M, so that concurrent tiles share rows and columns of the operands in
// the L2 cache.
__device__ __forceinline__ Tile tile_of(unsigned number) {
  const int clusters = number / CLUSTER_BLOCKS, matrix = clusters / (CLUSTERS_M * CLUSTERS_N);
  const int cluster = clusters % (CLUSTERS_M * CLUSTERS_N);
  constexpr int HIGHEST = BAND < CLUSTERS_M ? BAND : CLUSTERS_M;
  const int band = cluster / (HIGHEST * CLUSTERS_N), top = band * HIGHEST;
  const int height = CLUSTERS_M % HIGHEST == 0 || CLUSTERS_M - top > HIGHEST ? HIGHEST : CLUSTERS_M - top;
  const int inside = cluster - top * CLUSTERS_N, at = top + inside % height, row_class = at % CLASSES;
  const int n = (inside / height * CLUSTER_N + across_in_cluster(number)) * TILE_N;
  const int first = (at / CLASSES * CLUSTER_M + down_in_cluster(number)) * TILE_M;
  return {first, row_class, n, matrix, BY_CLASS ? row_class * (K % 8) % 8 : 0};
}

// State of the pipeline: the current stage, and the phase parity, which flips each time around.
struct PipelineState {
  int stage;
  unsigned parity;
  __device__ __forceinline__ void next() {
    if (++stage < STAGES) return;
    stage = 0;
    parity ^= 1;
  }
};

// Addresses in shared memory: staging buffers of the epilogue, pipeline stages, and mbarriers of 8 bytes each. Loads of
// a first K tile may start before the stages.
struct SharedStorage {
  unsigned results, stages, full, empty, consumers, sent;
};

__device__ __forceinline__ SharedStorage shared_storage_of(const void* shared) {
  const unsigned results = shared_address(shared), stages = (results + 2 * BUFFER_BYTES + 1023) / 1024 * 1024;
  const unsigned full = stages + STAGES * STAGE_BYTES, empty = full + STAGES * 8;
  return {results, stages, full, empty, empty + STAGES * 8, empty + STAGES * 8 + 8};
}

// Barrier of all consumer warps of a block; the emulator uses an mbarrier.
struct ConsumerBarrier {
  unsigned barrier, parity;
  __device__ __forceinline__ void sync() {
#ifdef AUTOTUNE_EMULATE
    named_barrier_sync(barrier, parity);
    parity ^= 1;
#else
    asm volatile("bar.sync 1, %0;" ::"n"(CONSUMER_THREADS) : "memory");
#endif
  }
};

// Loads a box of lines for the blocks of a column of the cluster, without swizzle; on the device that is a property of
// the tensor map.
#ifdef AUTOTUNE_EMULATE
static inline void copy_lines(
    unsigned to, const TensorMap& map, const Item* matrix, int column, int row, unsigned barrier, unsigned) {
  const int columns = map.words[8] + 1, rows = map.words[9] + 1;
  const int width = (map.words[13] >> 24) + 1, height = (map.words[14] & 0xff) + 1;
  const long long pitch = map.words[3] * 8ll;
  assert(row >= 0 && row < rows && column >= 0 && column < columns);
  Item* const at = static_cast<Item*>(__cvta_shared_to_generic(to));
  for (int i = 0; i < height; ++i)
    for (int j = 0; j < width; ++j) {
      const int y = row + i, x = column + j;
      at[i * width + j] = y < rows && x < columns ? matrix[y * pitch + x] : Item(0);
    }
  barrier_complete_tx(barrier, height * width * static_cast<int>(sizeof(Item)));
}
#else
__device__ __forceinline__ void copy_lines(
    unsigned to, const TensorMap& map, const void* matrix, int column, int row, unsigned barrier, unsigned blocks) {
  tma_load<CLUSTER_M>(to, map, matrix, column, row, barrier, blocks);
}
#endif
