// The sizes of gemm_unaligned.cu, which tiles blocks have, and places in their rings.
constexpr int TILE_N = GROUPS * 64, WORDS = TILE_M / 2, CHUNK = 64;
// Rows of B in memory, of which a chunk has LINES from one vector of eight on, and of C: in shared memory they begin as
// far behind a multiple of 16 bytes as in memory. Where rows of B run across K, neither eight neighbours of each of
// four of them, two rows from one another, nor such results meet a bank twice.
constexpr int LINES = TRANSPOSE_B ? TILE_N : CHUNK, VECTORS = (TRANSPOSE_B ? CHUNK : TILE_N) / 8 + 1;
constexpr int LINE = TRANSPOSE_B ? K : N, B_PITCH = VECTORS * 16, PITCH = TILE_N * 2 + 16;
// Bytes from a number of B to that behind it along K, and to that beside it.
constexpr int ALONG_K = TRANSPOSE_B ? 2 : B_PITCH, ACROSS_K = TRANSPOSE_B ? B_PITCH : 2;
constexpr int A_BYTES = TILE_M * CHUNK * 2, B_BYTES = LINES * B_PITCH, SLOT_BYTES = A_BYTES + B_BYTES;
// Results are written so many rows at a time, from two rooms in turn.
constexpr int BATCH_ROWS = 32, ROOM_BYTES = BATCH_ROWS * PITCH;
// With BY_CLASS rows of a tile are those of a class: a multiple of 8 rows from one another.
constexpr int CLASSES = BY_CLASS ? 8 : 1;
constexpr int BLOCKS_M = ((M + CLASSES - 1) / CLASSES + TILE_M - 1) / TILE_M * CLASSES;
// Blocks of a cluster have tiles side by side, of which the last may be beyond the columns, and copy a PART of A each.
constexpr int BLOCKS_N = ((N + TILE_N - 1) / TILE_N + SHARE - 1) / SHARE * SHARE, PART = TILE_M / SHARE;
constexpr unsigned TILES = static_cast<unsigned>(BLOCKS_M) * BLOCKS_N * BATCH;
// Chunks that all tiles have whole, and what may follow: a chunk of which so many steps along K are multiplied. Tiles
// of which chunks begin before their rows have up to 7 elements more.
constexpr int MOST_BEFORE = BY_CLASS && K % 8 > 0 ? 7 : 0, LEFT_OVER_K = (K % CHUNK + MOST_BEFORE) % CHUNK;
constexpr int WHOLE_CHUNKS = (K + MOST_BEFORE) / CHUNK, REST_DEPTHS = (LEFT_OVER_K + DEPTH - 1) / DEPTH;
// Copies need few registers: they leave theirs to the sums.
constexpr int ENTRY_REGISTERS = 65536 / (THREADS * RESIDENT) / 8 * 8, COPY_REGISTERS = 56;
constexpr int LEFT_OVER = (ENTRY_REGISTERS * (GROUPS + 1) - COPY_REGISTERS) / GROUPS / 8 * 8;
constexpr int SUM_REGISTERS = LEFT_OVER < 240 ? LEFT_OVER : 240;
constexpr bool MOVE_REGISTERS = ENTRY_REGISTERS < 240 && ENTRY_REGISTERS > COPY_REGISTERS;

// A tile: its first row of those of its class, its class, its first column, its matrix of the batch, and where the
// chunks of its rows begin: `shift` elements before their first.
struct Tile {
  int first, row_class, n, matrix, shift;
  __device__ __forceinline__ bool exists() const { return first * CLASSES + row_class < M; }
  __device__ __forceinline__ int chunks() const { return (K + shift + CHUNK - 1) / CHUNK; }
  __device__ __forceinline__ int row(int place) const { return (first + place) * CLASSES + row_class; }
  // Where the tile's part of a chunk that begins at k begins in the matrix of B.
  __device__ __forceinline__ long long begin_of_b(int k) const {
    return TRANSPOSE_B ? static_cast<long long>(n) * K + k : static_cast<long long>(k) * N + n;
  }
  // How far behind a multiple of 16 bytes a line of B begins in all chunks, in elements.
  __device__ __forceinline__ int shift_of_line(int line) const {
    return static_cast<int>((static_cast<long long>(matrix) * B_STRIDE + begin_of_b(-shift) + line * (LINE % 8)) & 7);
  }
  __device__ __forceinline__ int shift_of_result(int m) const {
    return static_cast<int>((static_cast<long long>(matrix) * M * N + static_cast<long long>(m) * N + n) & 7);
  }
};

// Tiles run in columns of BAND tiles of rows, so that those at work at one time share what they read in the L2 cache.
__device__ __forceinline__ Tile tile_of(unsigned number) {
  const int matrix = number / (BLOCKS_M * BLOCKS_N), tile = number % (BLOCKS_M * BLOCKS_N);
  const int rank = tile % SHARE, cluster = tile / SHARE, across = BLOCKS_N / SHARE;
  const int band = cluster / (BAND * across), top = band * BAND;
  const int height = BLOCKS_M - top < BAND ? BLOCKS_M - top : BAND;
  const int inside = cluster - top * across, at = top + inside % height, row_class = at % CLASSES;
  const int n = (inside / height * SHARE + rank) * TILE_N;
  return {at / CLASSES * TILE_M, row_class, n, matrix, BY_CLASS ? row_class * (K % 8) % 8 : 0};
}

// A place in the ring: slots are used in turn, and `parity` changes with every turn.
struct Place {
  int slot;
  unsigned parity;
  __device__ __forceinline__ void next() {
    if (++slot < STAGES) return;
    slot = 0;
    parity ^= 1;
  }
};

// The shared memory of a block: slots, rooms of results, and barriers of 8 bytes each.
struct Room {
  unsigned slots, results, full, empty, meeting;
};

__device__ __forceinline__ Room room_of(const void* shared) {
  const unsigned slots = (shared_address(shared) + 1023) / 1024 * 1024, results = slots + STAGES * SLOT_BYTES;
  const unsigned full = results + 2 * ROOM_BYTES, empty = full + STAGES * 8;
  return {slots, results, full, empty, empty + STAGES * 8};
}

// Where all multiplying warps of a block wait for one another; the emulator takes a barrier.
struct Meeting {
  unsigned barrier, parity;
  __device__ __forceinline__ void meet() {
#ifdef AUTOTUNE_EMULATE
    if (threadIdx.x % 32 == 0) barrier_arrive(barrier);
    barrier_wait(barrier, parity);
    parity ^= 1;
#else
    asm volatile("bar.sync 1, %0;" ::"n"(GROUPS * 128) : "memory");
#endif
  }
};
