// The sizes of gemm_tma.cu, which tiles blocks have, and places in their rings.
#ifndef JOINS
#define JOINS 0
#endif
#if INT8
typedef int4 FourSums;
typedef int Finished;
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
constexpr bool WALKS = TEAMS > 0;
constexpr int EACH = WALKS ? TEAMS : 1;  // teams
constexpr int WARPS = GROUPS * 4;        // of a team
// Blocks that share copies come in whole clusters, of SHARE rows of tiles and BESIDE columns; the last may have blocks
// without rows or columns.
constexpr int ROWS_OF_TILES = (M + TILE_M - 1) / TILE_M, COLUMNS_OF_TILES = (N + TILE_N - 1) / TILE_N;
constexpr int BLOCKS_M = (ROWS_OF_TILES + SHARE - 1) / SHARE * SHARE;
constexpr int BLOCKS_N = (COLUMNS_OF_TILES + BESIDE - 1) / BESIDE * BESIDE;
constexpr int CLUSTER_BLOCKS = SHARE * BESIDE, CLUSTERS_M = BLOCKS_M / SHARE, CLUSTERS_N = BLOCKS_N / BESIDE;
// Blocks that copy what a block multiplies, itself among them.
constexpr int NEIGHBOURS = SHARE + BESIDE - 1;
constexpr unsigned TILES = static_cast<unsigned>(BLOCKS_M) * BLOCKS_N * BATCH;
constexpr int ALL_CHUNKS = (K + CHUNK - 1) / CHUNK, CHUNKS = (ALL_CHUNKS + SPLIT - 1) / SPLIT;
// Columns that stand across K come in whole panels, of which the last may reach into the next tile.
constexpr int PANELS_N = (TILE_N + PANEL - 1) / PANEL, B_COLUMNS = TRANSPOSE_B ? TILE_N : PANELS_N * PANEL;
constexpr int ITEM_BYTES = sizeof(Item);
constexpr int A_BYTES = TILE_M * CHUNK * ITEM_BYTES, B_BYTES = B_COLUMNS * CHUNK * ITEM_BYTES;
constexpr int SLOT_BYTES = A_BYTES + B_BYTES;
// Columns of a box of results, a row of which is 128 bytes, and how many of these a tile has side by side.
constexpr int BOX_COLUMNS = 128 / sizeof(Finished), WRITTEN_N = JOINS ? TILE_N / SPLIT : TILE_N;
constexpr int BOXES_N = (WRITTEN_N + BOX_COLUMNS - 1) / BOX_COLUMNS;
// What follows a sum, but for a bias that it began as, a factor and an activation, is many instructions.
#if BOXES && FOLLOWS && !SWAPPED && (BIAS || RESIDUAL || AFFINE || defined(SHIFT))
#define STAGED 1
#else
#define STAGED 0
#endif
#if SWAPPED
// Boxes of BOX_ROWS rows and 64 columns of C, of a warpgroup.
constexpr int BOX_BYTES = BOX_ROWS * 128, BOXES_EACH = WALKS ? 2 : FRAGS_M * TILE_N / BOX_ROWS, BOXED = GROUPS;
#else
// Boxes of 16 rows, of a warp.
constexpr int BOX_BYTES = 16 * 128, BOXED = WARPS;
constexpr int BOXES_EACH = WALKS || STAGED ? 2 : FRAGS_M * BOXES_N;
#endif
// Or, where rows of C begin anywhere, a strip of 16 of them, or a tile's, which are an odd number of 16 bytes apart.
constexpr int WIDEST = WALKS || SWAPPED ? 64 : 128, STRIP = TILE_N < WIDEST && !SWAPPED ? TILE_N : WIDEST;
constexpr int STRIP_PITCH = STRIP * 2 + (STRIP % 16 ? 32 : 16);
constexpr int STRIP_BYTES = (SWAPPED ? TILE_N : 16) * STRIP_PITCH;
constexpr int RESULT_BYTES = C_N % 8 > 0 && !WALKS ? STRIP_BYTES : BOXES_EACH * BOX_BYTES;
constexpr int BOXES_BYTES = BOXES * WALKS * EACH * BOXED * RESULT_BYTES;
constexpr int GROUP_BYTES = BOXED / GROUPS * RESULT_BYTES;  // of one group's boxes
static_assert(WALKS || BOXES * BOXED * RESULT_BYTES <= STAGES * SLOT_BYTES, "results beyond the ring");
// How many chunks of a tile, its last, one group after another multiplies: the first writes while others multiply.
static_assert(ORDERED < STAGES && ORDERED <= CHUNKS, "a ring too small for an order of groups");
// Where the extents divide, the tests for the edges are constant and vanish.
constexpr bool WHOLE_M = BLOCKS_M * TILE_M == M, WHOLE_N = BLOCKS_N * TILE_N == N;
constexpr bool WHOLE_ROWS = WHOLE_M && C_M == M && !SWAPPED, WHOLE_COLUMNS = WHOLE_N && C_N == N && !SWAPPED;
// Copies need few registers: they leave theirs to the sums.
constexpr int ENTRY_REGISTERS = 65536 / (THREADS * RESIDENT) / 8 * 8, COPY_REGISTERS = 40;
constexpr int LEFT_OVER = (ENTRY_REGISTERS * (GROUPS * EACH + 1) - COPY_REGISTERS) / (GROUPS * EACH) / 8 * 8;
constexpr int SUM_REGISTERS = LEFT_OVER < 240 ? LEFT_OVER : 240;
constexpr bool MOVE_REGISTERS = ENTRY_REGISTERS < 240;
// Which operands' rows of shared memory run along K.
constexpr bool A_ALONG_K = !TRANSPOSE_A, B_ALONG_K = TRANSPOSE_B;
#if TF32 && TRANSPOSE_A
#define LOADED 1
#else
#define LOADED 0
#endif
static_assert(!TF32 || B_ALONG_K, "floats of the right operand must stand along K");
// Of TILE_N columns, any multiple of 8 up to 256: gemm_wgmma.py's `product_text` has written its operands out.
#define DEFINE_OWN_PRODUCT(NAME, TURNS) \
  DEFINE_PRODUCT(NAME, TURNS, OWN_COLUMNS, TILE_N / 2, OWN_NAMES, OWN_SUMS, OWN_LEFT, OWN_RIGHT, OWN_ADD)

#if LOADED && defined(AUTOTUNE_EMULATE)
static inline void begin_product(
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
#elif LOADED
// Floats that stand across K get to products by registers; in shared memory these read floats along K alone.
DEFINE_LEFT_PRODUCT(begin_product, "", OWN_COLUMNS, TILE_N / 2, OWN_NAMES, OWN_SUMS, OWN_LEFT, OWN_RIGHT, OWN_ADD)
#elif TF32
DEFINE_OWN_PRODUCT(begin_product, "")
#elif TRANSPOSE_A && TRANSPOSE_B
DEFINE_OWN_PRODUCT(begin_product, ", 1, 0")
#elif TRANSPOSE_A
DEFINE_OWN_PRODUCT(begin_product, ", 1, 1")
#elif TRANSPOSE_B
DEFINE_OWN_PRODUCT(begin_product, ", 0, 0")
#else
DEFINE_OWN_PRODUCT(begin_product, ", 0, 1")
#endif

// A place in the ring: slots are used in turn, and `parity` changes with every turn.
struct Place {
  int slot;
  unsigned parity;
  __device__ __forceinline__ void next() {
    if (++slot < STAGES) return;
    slot = 0;
    parity ^= 1;
  }
  __device__ __forceinline__ void skip(int slots) {
    slot += slots;
    parity ^= slot / STAGES & 1;
    slot %= STAGES;
  }
};

// Where a tile begins in C, and in which matrix of the batch.
struct Tile {
  int m, n, matrix;
};

// The place of a tile, or of a block, among those of its cluster.
__device__ __forceinline__ int down_in_cluster(unsigned number) { return number % SHARE; }
__device__ __forceinline__ int across_in_cluster(unsigned number) { return number % CLUSTER_BLOCKS / SHARE; }

// Tiles, by clusters, run in columns of BAND tiles of M, so that those at work at one time share rows and columns of
// the inputs in the L2 cache.
__device__ __forceinline__ Tile tile_of(unsigned number) {
  constexpr int ASKED = BAND > SHARE ? BAND / SHARE : 1, HIGHEST = ASKED < CLUSTERS_M ? ASKED : CLUSTERS_M;
  const int clusters = number / CLUSTER_BLOCKS, matrix = clusters / (CLUSTERS_M * CLUSTERS_N);
  const int cluster = clusters % (CLUSTERS_M * CLUSTERS_N), band = cluster / (HIGHEST * CLUSTERS_N);
  const int first = band * HIGHEST;
  const int height = CLUSTERS_M % HIGHEST == 0 || CLUSTERS_M - first > HIGHEST ? HIGHEST : CLUSTERS_M - first;
  const int inside = cluster - first * CLUSTERS_N;
  const int down = (first + inside % height) * SHARE + down_in_cluster(number);
  const int across = inside / height * BESIDE + across_in_cluster(number);
  return {down * TILE_M, across * TILE_N, matrix};
}

// Of the chunks of a block, how many exist: the last range of a split may be shorter.
__device__ __forceinline__ int chunks_here() {
  if (ALL_CHUNKS % SPLIT == 0) return CHUNKS;
  const int left = ALL_CHUNKS - static_cast<int>(blockIdx.z) * CHUNKS;
  return left < CHUNKS ? left : CHUNKS;
}

// The shared memory of a block: slots, boxes of results, and barriers of 8 bytes each.
struct Room {
  unsigned slots, boxes, full, empty, turns, groups, orders, joined;
};

__device__ __forceinline__ Room room_of(const void* shared) {
  const unsigned slots = (shared_address(shared) + 1023) / 1024 * 1024, behind = slots + STAGES * SLOT_BYTES;
  const unsigned boxes = BOXES && !WALKS ? slots + JOINS * (TILE_M * (TILE_N - WRITTEN_N) * 4) : behind, full = behind + BOXES_BYTES;
  const unsigned empty = full + STAGES * 8, turns = empty + STAGES * 8, groups = turns + EACH * 8;
  return {slots, boxes, full, empty, turns, groups, groups + SWAPPED * EACH * GROUPS * 8, turns + EACH * 8};
}

// Waits for all multiplying warps of a block that has one team; the emulator takes the barrier of turns, once.
__device__ __forceinline__ void meet_team(const Room& room) {
#ifdef AUTOTUNE_EMULATE
  if (threadIdx.x % 32 == 0) barrier_arrive(room.turns);
  barrier_wait(room.turns, 0);
#else
  asm volatile("bar.sync 1, %0;" ::"n"(GROUPS * 128) : "memory");
#endif
}

// Returns where in the ring a group may put results while others multiply: in the slot that came before the last ORDERED
// chunks, or, of the last group, in the next one.
__device__ __forceinline__ unsigned wait_for_room(const Room& room, Place place, int group) {
  const bool last = group == GROUPS - 1;
  if (last) place.next();
  barrier_wait(room.empty + place.slot * 8, place.parity ^ 1);
  return room.slots + place.slot * SLOT_BYTES + (last ? 0 : group * GROUP_BYTES);
}
