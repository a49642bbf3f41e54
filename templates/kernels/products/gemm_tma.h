// Sizes of gemm_tma.cu, the tile scheduler, the state of the pipeline and the layout of shared memory.
#ifndef CLUSTER_REDUCE
#define CLUSTER_REDUCE 0
#endif
// Whether accumulators start with the residual.
#ifndef RESIDUAL_FIRST
#define RESIDUAL_FIRST 0
#endif
// Whether the operands are copies that another kernel made. The next function mostly begins by copying, too, in small
// blocks, which may start when results are about to be written.
#ifndef BEHIND_COPIES
#define BEHIND_COPIES 0
#endif
// Groups of a convolution of which each has as many of a tile's columns, and of each 128 bytes of its K items: B has rows
// of one group, with the columns of all.
#ifndef JOINED
#define JOINED 1
#endif
// Whether sums of integers become bytes (gemm_tma_requantise.h).
#ifndef REQUANTISED
#define REQUANTISED 0
#endif
#if INT8
typedef int4 FourSums;
#if REQUANTISED
typedef Result Finished;
#else
typedef int Finished;
#endif
#else
typedef float Sum;
typedef float4 FourSums;
#if TF32
typedef float Finished;
#else
typedef half_bits Finished;
#endif
#endif
constexpr int TILE_M = GROUPS * FRAGS_M * 64, WORDS = TILE_N / 2;
// SCHEDULE is 0 for one tile a block, 1 for a persistent cooperative kernel, 2 for a persistent ping-pong kernel.
constexpr bool PERSISTENT = SCHEDULE > 0;
constexpr int CONSUMERS = PERSISTENT ? SCHEDULE : 1;
constexpr int WARPS = GROUPS * 4;        // of a consumer
// Grids are padded to whole clusters of CLUSTER_M x CLUSTER_N tiles; some blocks may have no rows or columns.
constexpr int ROWS_OF_TILES = (M + TILE_M - 1) / TILE_M, COLUMNS_OF_TILES = (N + TILE_N - 1) / TILE_N;
constexpr int BLOCKS_M = (ROWS_OF_TILES + CLUSTER_M - 1) / CLUSTER_M * CLUSTER_M;
constexpr int BLOCKS_N = (COLUMNS_OF_TILES + CLUSTER_N - 1) / CLUSTER_N * CLUSTER_N;
constexpr int CLUSTER_BLOCKS = CLUSTER_M * CLUSTER_N, CLUSTERS_M = BLOCKS_M / CLUSTER_M, CLUSTERS_N = BLOCKS_N / CLUSTER_N;
// Blocks that load what a block multiplies, itself included.
constexpr int MULTICAST_PEERS = CLUSTER_M + CLUSTER_N - 1;
constexpr unsigned TILES = static_cast<unsigned>(BLOCKS_M) * BLOCKS_N * BATCH;
constexpr int ALL_K_TILES = (K + CHUNK - 1) / CHUNK, K_TILES = (ALL_K_TILES + SPLIT - 1) / SPLIT;
// Columns contiguous across K come in whole panels, of which the last may extend into the next tile.
constexpr int PANELS_N = (TILE_N + PANEL - 1) / PANEL, B_COLUMNS = TRANSPOSE_B ? TILE_N : PANELS_N * PANEL;
constexpr int ITEM_BYTES = sizeof(Item);
constexpr int A_BYTES = TILE_M * CHUNK * ITEM_BYTES, B_BYTES = B_COLUMNS * CHUNK * ITEM_BYTES / JOINED;
constexpr int STAGE_BYTES = A_BYTES + B_BYTES;
// Columns of a TMA box of C, 128 bytes wide, and boxes per row of a tile.
constexpr int BOX_COLUMNS = 128 / sizeof(Finished), WRITTEN_N = CLUSTER_REDUCE ? TILE_N / SPLIT : TILE_N;
constexpr int BOXES_N = (WRITTEN_N + BOX_COLUMNS - 1) / BOX_COLUMNS;
// An epilogue of more than scaling, activation, and a bias in the initial accumulators is staged: it is long when
// unrolled.
#if SMEM_EPILOGUE && !SWAP_AB && (REQUANTISED || (FOLLOWS && (BIAS || RESIDUAL || AFFINE || defined(SHIFT))))
#define STAGED 1
#else
#define STAGED 0
#endif
#if SWAP_AB
// A warpgroup stores boxes of BOX_ROWS rows and 64 columns of C.
constexpr int BOX_BYTES = BOX_ROWS * 128, BOXES_EACH = PERSISTENT ? 2 : FRAGS_M * WRITTEN_N / BOX_ROWS, BOXED = GROUPS;
#else
// A warp stores boxes of 16 rows.
constexpr int BOX_BYTES = 16 * 128, BOXED = WARPS;
constexpr int BOXES_EACH = PERSISTENT || STAGED ? 2 : FRAGS_M * BOXES_N;
#endif
// Where rows of C are not aligned to 16 bytes: staging of 16 rows, or of a tile's, with a pitch of an odd number of 16
// bytes.
constexpr int WIDEST = PERSISTENT || SWAP_AB ? 64 : 128, STRIP = TILE_N < WIDEST && !SWAP_AB ? TILE_N : WIDEST;
constexpr int STRIP_PITCH = STRIP * 2 + (STRIP % 16 ? 32 : 16);
constexpr int STRIP_BYTES = (SWAP_AB ? TILE_N : 16) * STRIP_PITCH;
constexpr int RESULT_BYTES = C_N % 8 > 0 && !PERSISTENT ? STRIP_BYTES : BOXES_EACH * BOX_BYTES;
constexpr int BOXES_BYTES = SMEM_EPILOGUE * PERSISTENT * CONSUMERS * BOXED * RESULT_BYTES;
constexpr int GROUP_BYTES = BOXED / GROUPS * RESULT_BYTES;  // of one group's boxes
static_assert(PERSISTENT || SMEM_EPILOGUE * BOXED * RESULT_BYTES <= STAGES * STAGE_BYTES,
              "the epilogue's buffers exceed the pipeline's");
// The last ORDERED K tiles of a tile are multiplied by one warpgroup after another: the first runs its epilogue
// meanwhile.
static_assert(ORDERED < STAGES && ORDERED <= K_TILES, "too few stages for ordered warpgroups");
// Where tiles divide the extents, bounds checks are constant and vanish.
constexpr bool WHOLE_M = BLOCKS_M * TILE_M == M, WHOLE_N = BLOCKS_N * TILE_N == N;
constexpr bool WHOLE_ROWS = WHOLE_M && C_M == M && !SWAP_AB, WHOLE_COLUMNS = WHOLE_N && C_N == N && !SWAP_AB;
// Producers need few registers; consumers get the others.
constexpr int ENTRY_REGISTERS = 65536 / (THREADS * RESIDENT) / 8 * 8, PRODUCER_REGISTERS = 40;
constexpr int FREE_REGISTERS =
    (ENTRY_REGISTERS * (GROUPS * CONSUMERS + 1) - PRODUCER_REGISTERS) / (GROUPS * CONSUMERS) / 8 * 8;
constexpr int CONSUMER_REGISTERS = FREE_REGISTERS < 240 ? FREE_REGISTERS : 240;
constexpr bool MOVE_REGISTERS = ENTRY_REGISTERS < 240;
// Whether the rows of an operand in shared memory are contiguous along K (K-major).
constexpr bool A_ALONG_K = !TRANSPOSE_A, B_ALONG_K = TRANSPOSE_B;
// Blocks of clusters that exchange operands along rows and columns release stages to some others only. None gets ahead of
// these where each loads a part of every K tile for all of its row, or for all of its column. Otherwise one that expects no
// bytes of another, as tiles reach beyond C or panels are loaded in turn, might release a stage for the next time before
// that one counted all releases of this time: so all producers say, too, that they refill it.
constexpr bool SHARES_ROWS = (A_ALONG_K || TILE_M % (PANEL * CLUSTER_N) == 0) && WHOLE_M;
constexpr bool SHARES_COLUMNS = (B_ALONG_K || TILE_N % (PANEL * CLUSTER_M) == 0) && WHOLE_N;
constexpr bool CROSSED = CLUSTER_M > 1 && CLUSTER_N > 1 && !SHARES_ROWS && !SHARES_COLUMNS;
#if (TF32 || INT8) && TRANSPOSE_A
#define A_FROM_REGISTERS 1
#else
#define A_FROM_REGISTERS 0
#endif
// Whether A has 8-bit integers across K: items are two neighbours then, and panels have a row for each place along K. The
// two rows of which a thread has sums are neighbours, else 8 apart.
#if INT8 && A_FROM_REGISTERS
constexpr int BESIDE = 2, ROW_STEP = 1;
#else
constexpr int BESIDE = 1, ROW_STEP = 8;
#endif
__device__ __forceinline__ int row_of_lane(int lane) { return lane / 4 * BESIDE; }
#if TF32 || INT8
static_assert(B_ALONG_K, "the right operand of TF32 and of integers must be K-major");
#endif
static_assert(BESIDE == 1 || TILE_M % (BESIDE * PANEL) == 0, "half a panel of integers");
// Any multiple of 8 columns up to 256: gemm_wgmma.py's `product_text` writes the list of operands.
#define DEFINE_OWN_WGMMA(NAME, TRANSPOSES) \
  DEFINE_WGMMA(NAME, TRANSPOSES, OWN_COLUMNS, TILE_N / 2 / JOINED, OWN_NAMES, OWN_SUMS, OWN_LEFT, OWN_RIGHT, OWN_ADD)

#if A_FROM_REGISTERS && INT8
DEFINE_RS_WGMMA(issue_wgmma, OWN_COLUMNS, TILE_N / 2, OWN_NAMES, OWN_SUMS, OWN_LEFT, OWN_RIGHT, OWN_ADD)
#elif A_FROM_REGISTERS && defined(AUTOTUNE_EMULATE)
static inline void issue_wgmma(
    float (&sum)[TILE_N / 2], const unsigned (&left)[4], descriptor right, bool add) {
  const int lane = threadIdx.x % 32;
  for (int half = 0; half < 2; ++half) {
    float row[DEPTH];
    for (int k = 0; k < DEPTH; ++k) {
      const unsigned word = __shfl_sync(0xffffffffu, left[k / 4 * 2 + half], lane / 4 * 4 + k % 4);
      row[k] = __uint_as_float(word & ~0x1fffu);
    }
    for (int i = 0; i < TILE_N / 4; ++i) {
      float& total = sum[i / 2 * 4 + half * 2 + i % 2];
      if (!add) total = 0.0f;
      for (int k = 0; k < DEPTH; ++k)
        total += row[k] * value_of(operand_item(right, false, i / 2 * 8 + lane % 4 * 2 + i % 2, k));
    }
  }
}
#elif A_FROM_REGISTERS
// TF32 operands that are not K-major reach wgmma through registers: from shared memory it reads K-major ones only.
DEFINE_RS_WGMMA(issue_wgmma, "", OWN_COLUMNS, TILE_N / 2, OWN_NAMES, OWN_SUMS, OWN_LEFT, OWN_RIGHT, OWN_ADD)
#elif TF32
DEFINE_OWN_WGMMA(issue_wgmma, "")
#elif TRANSPOSE_A && TRANSPOSE_B
DEFINE_OWN_WGMMA(issue_wgmma, ", 1, 0")
#elif TRANSPOSE_A
DEFINE_OWN_WGMMA(issue_wgmma, ", 1, 1")
#elif TRANSPOSE_B
DEFINE_OWN_WGMMA(issue_wgmma, ", 0, 0")
#else
DEFINE_OWN_WGMMA(issue_wgmma, ", 0, 1")
#endif

// State of the pipeline: the current stage, and the phase parity, which flips each time around.
struct PipelineState {
  int stage;
  unsigned parity;
  __device__ __forceinline__ void next() {
    if (++stage < STAGES) return;
    stage = 0;
    parity ^= 1;
  }
  __device__ __forceinline__ void skip(int stages) {
    stage += stages;
    parity ^= stage / STAGES & 1;
    stage %= STAGES;
  }
};

// First row and column of a tile, and its matrix of the batch.
struct Tile {
  int m, n, matrix;
};

// Coordinates of a tile, or of a block, within its cluster.
__device__ __forceinline__ int down_in_cluster(unsigned number) { return number % CLUSTER_M; }
__device__ __forceinline__ int across_in_cluster(unsigned number) { return number % CLUSTER_BLOCKS / CLUSTER_M; }

// The rank in the cluster of the first block with this one's range of K: split-K within a cluster has all ranges in it.
__device__ __forceinline__ unsigned first_of_range() { return CLUSTER_REDUCE ? blockIdx.z * CLUSTER_BLOCKS : 0; }

// Returns the rank in the cluster of the number-th block with which this one exchanges operands: its column, then its
// row.
__device__ __forceinline__ unsigned multicast_peer(unsigned number) {
  const unsigned down = down_in_cluster(blockIdx.x), across = across_in_cluster(blockIdx.x), first = first_of_range();
  if (CLUSTER_N == 1 || number < CLUSTER_M) return first + across * CLUSTER_M + number;
  return first + (number - CLUSTER_M + (number - CLUSTER_M >= across)) * CLUSTER_M + down;
}

// Rasterisation: clusters run in bands of BAND tiles along M, so that concurrent tiles share rows and columns of the
// operands in the L2 cache.
__device__ __forceinline__ Tile tile_of(unsigned number) {
  constexpr int ASKED = BAND > CLUSTER_M ? BAND / CLUSTER_M : 1, HIGHEST = ASKED < CLUSTERS_M ? ASKED : CLUSTERS_M;
  const int clusters = number / CLUSTER_BLOCKS, matrix = clusters / (CLUSTERS_M * CLUSTERS_N);
  const int cluster = clusters % (CLUSTERS_M * CLUSTERS_N), band = cluster / (HIGHEST * CLUSTERS_N);
  const int first = band * HIGHEST;
  const int height = CLUSTERS_M % HIGHEST == 0 || CLUSTERS_M - first > HIGHEST ? HIGHEST : CLUSTERS_M - first;
  const int inside = cluster - first * CLUSTERS_N;
  const int down = (first + inside % height) * CLUSTER_M + down_in_cluster(number);
  const int across = inside / height * CLUSTER_N + across_in_cluster(number);
  return {down * TILE_M, across * TILE_N, matrix};
}

// Returns the number of K tiles of this block: the last range of a split may be shorter.
__device__ __forceinline__ int k_tiles_here() {
  if (ALL_K_TILES % SPLIT == 0) return K_TILES;
  const int left = ALL_K_TILES - static_cast<int>(blockIdx.z) * K_TILES;
  return left < K_TILES ? left : K_TILES;
}

// Addresses in shared memory: pipeline stages, buffers of the epilogue, and mbarriers of 8 bytes each.
struct SharedStorage {
  unsigned stages, buffers, full, empty, pingpong_barriers, groups, order_barriers, sent;
};

__device__ __forceinline__ SharedStorage shared_storage_of(const void* shared) {
  const unsigned stages = (shared_address(shared) + 1023) / 1024 * 1024, behind = stages + STAGES * STAGE_BYTES;
  const unsigned buffers = SMEM_EPILOGUE && !PERSISTENT ? stages + CLUSTER_REDUCE * (TILE_M * (TILE_N - WRITTEN_N) * 4) : behind, full = behind + BOXES_BYTES;
  const unsigned empty = full + STAGES * 8, pingpong_barriers = empty + STAGES * 8, groups = pingpong_barriers + CONSUMERS * 8;
  return {stages, buffers, full, empty, pingpong_barriers, groups, groups + SWAP_AB * CONSUMERS * GROUPS * 8, groups + SWAP_AB * CONSUMERS * GROUPS * 8};
}

// Barrier of all consumer warps of a block with one consumer; the emulator uses an mbarrier, once.
__device__ __forceinline__ void consumer_sync(const SharedStorage& smem) {
#ifdef AUTOTUNE_EMULATE
  named_barrier_sync(smem.pingpong_barriers, 0);
#else
  asm volatile("bar.sync 1, %0;" ::"n"(GROUPS * 128) : "memory");
#endif
}

// Returns the buffer of the pipeline that a warpgroup's epilogue may use while others multiply: the stage before the
// last ORDERED K tiles, or, for the last warpgroup, the next one.
__device__ __forceinline__ unsigned acquire_epilogue_buffer(const SharedStorage& smem, PipelineState state, int group) {
  const bool last = group == GROUPS - 1;
  if (last) state.next();
  barrier_wait(smem.empty + state.stage * 8, state.parity ^ 1);
  return smem.stages + state.stage * STAGE_BYTES + (last ? 0 : group * GROUP_BYTES);
}
