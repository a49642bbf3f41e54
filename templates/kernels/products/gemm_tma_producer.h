// The producer of gemm_tma.cu: one thread issues the TMA loads of one K tile after another.
__constant__ __align__(128) TensorMap a_map = {{A_MAP}}, b_map = {{B_MAP}};
// Where tiles reach beyond a K-major operand, a box of as many rows as its last part has: TMA takes longer to write
// zeros than to load as many rows.
#ifdef A_LAST_MAP
__constant__ __align__(128) TensorMap a_last_map = {{A_LAST_MAP}};
constexpr bool A_LAST = true;
#else
#define a_last_map a_map
constexpr bool A_LAST = false;
#endif
#ifdef B_LAST_MAP
__constant__ __align__(128) TensorMap b_last_map = {{B_LAST_MAP}};
constexpr bool B_LAST = true;
#else
#define b_last_map b_map
constexpr bool B_LAST = false;
#endif

// Returns where items of a K tile are in a row of a K-major operand: filters have no zeros behind the channels of a tap, as
// the boxes of images have, by which integers of the next tap are multiplied.
__device__ __forceinline__ int place_along_k(int k) {
#if CONV && REQUANTISED
  return k / TAP_RUN * GROUP_CI + k % TAP_RUN;
#else
  return k;
#endif
}

// Tags K-major (true) and MN-major (false) operands.
template <bool ALONG_K> struct Side {};

// Loads a K tile of TILE rows or columns from `first` on, of EXTENT in all (WHOLE: no bounds checks). With several
// BLOCKS this one, of a rank among them, multicasts its part to those whose bits are set in `blocks`. K-major boxes are
// PARTS parts; with LAST_BOX one that would reach beyond the operand is loaded by a map of its own.
template <int TILE, int EXTENT, bool WHOLE, int PARTS, int BLOCKS, bool LAST_BOX>
__device__ __forceinline__ void copy_operand(
    Side<true>, unsigned to, const TensorMap& whole, const TensorMap& last, const Item* operand, int first, int k,
    unsigned full, int rank, unsigned blocks) {
#pragma unroll
  for (int part = 0; part < PARTS / BLOCKS; ++part) {
    const int share = (BLOCKS > 1 ? rank : part) * (TILE / PARTS);
    if (!WHOLE && first + share >= EXTENT) return;
    const TensorMap& map = LAST_BOX && first + share + TILE / PARTS > EXTENT ? last : whole;
#pragma unroll
    for (int i = 0; i < CHUNK; i += PANEL)
      tma_load<BLOCKS>(to + (i / PANEL * TILE + share) * 128, map, operand, place_along_k(k + i), first + share,
                       full, blocks);
  }
}

// Loads the K rows of a K tile of an MN-major operand, a panel wide. Filters whose channels do not fill boxes are one
// matrix for each tap; those of JOINED groups fill boxes together, and have one row for all.
template <int BLOCKS>
__device__ __forceinline__ void load_k_rows(
    unsigned to, const TensorMap& map, const Item* operand, int column, int k, unsigned full, unsigned blocks) {
#if JOINED > 1
#pragma unroll
  for (int i = 0; i < CHUNK; i += PANEL)
    tma_load<BLOCKS>(to + i * 128 / JOINED, map, operand, column, (k + i) / JOINED, full, blocks);
#elif CONV && TAP_RUN > GROUP_CI
#pragma unroll
  for (int i = 0; i < CHUNK; i += PANEL)
    tma_load_of_several<BLOCKS>(to + i * 128, map, operand, column, (k + i) % TAP_RUN, (k + i) / TAP_RUN, full, blocks);
#else
  tma_load<BLOCKS>(to, map, operand, column, k, full, blocks);
#endif
}

template <int TILE, int EXTENT, bool WHOLE, int PARTS, int BLOCKS, bool LAST_BOX>
__device__ __forceinline__ void copy_operand(
    Side<false>, unsigned to, const TensorMap& map, const TensorMap&, const Item* operand, int first, int k,
    unsigned full, int rank, unsigned blocks) {
  // Each block loads as many panels of a K tile, or, where these cannot be shared out evenly, all panels in turn.
  constexpr bool EVENLY = TILE % (PANEL * BESIDE * BLOCKS) == 0;
  if (BLOCKS > 1 && !EVENLY && k / CHUNK % BLOCKS != rank) return;
  const int share = BLOCKS > 1 && EVENLY ? rank * (TILE / BLOCKS) : 0;
#pragma unroll
  for (int i = 0; i < (EVENLY ? TILE / BLOCKS : TILE); i += PANEL * BESIDE)
    if (WHOLE || first + share + i < EXTENT)
      load_k_rows<BLOCKS>(to + (share + i) * (CHUNK * ITEM_BYTES), map, operand, (first + share + i) / BESIDE, k * BESIDE, full, blocks);
}

// Returns the bytes that all blocks of a cluster load of a K tile of an operand.
template <bool ALONG_K, int TILE, int EXTENT, bool WHOLE, int BLOCKS, bool LAST_BOX>
__device__ __forceinline__ int bytes_of(int first) {
  if (LAST_BOX) return (EXTENT - first < TILE ? (first < EXTENT ? EXTENT - first : 0) : TILE) * CHUNK * ITEM_BYTES;
  constexpr int STEP = ALONG_K ? TILE / BLOCKS : PANEL * BESIDE, COUNT = (TILE + STEP - 1) / STEP;
  constexpr int EACH = STEP * CHUNK * ITEM_BYTES / (ALONG_K ? 1 : JOINED);
  if (WHOLE) return COUNT * EACH;
  const int there = first < EXTENT ? (EXTENT - first + STEP - 1) / STEP : 0;
  return (there < COUNT ? there : COUNT) * EACH;
}

// Where operands are loaded from; an implicit GEMM reads images by an im2col map of this block.
struct Sources {
  const Item *a, *b;
  TensorMap* im2col_map;
};

#if CONV
constexpr bool A_IM2COL = !SWAP_AB, B_IM2COL = SWAP_AB;

__device__ __forceinline__ Sources sources(const Item* a, const Item* b, TensorMap* maps) {
  return {a, b, own_map(maps, SWAP_AB ? b : a)};
}
#else
constexpr bool A_IM2COL = false, B_IM2COL = false;

__device__ __forceinline__ Sources sources(const Item* a, const Item* b) { return {a, b, nullptr}; }
#endif

struct Producer {
  const SharedStorage& smem;
  const Sources& from;
  PipelineState state;

  __device__ __forceinline__ unsigned full() const { return smem.full + state.stage * 8; }
  __device__ __forceinline__ unsigned stage() const { return smem.stages + state.stage * STAGE_BYTES; }

  // Arms the `full` barrier with the bytes of a K tile.
  __device__ __forceinline__ void expect(Tile tile) {
    barrier_arrive_expect_tx(full(), bytes_of<A_ALONG_K, TILE_M, M, WHOLE_M || A_IM2COL, CLUSTER_N, A_LAST>(tile.m) +
                               bytes_of<B_ALONG_K, TILE_N, N, WHOLE_N || B_IM2COL, CLUSTER_M, B_LAST>(tile.n));
  }

  // Loads B; with several BLOCKS, a part of it for the blocks with tiles of these columns.
  template <int BLOCKS>
  __device__ __forceinline__ void tma_load_right(Tile tile, int k_tile) {
#if CONV && SWAP_AB
    load_im2col_k_tile<TILE_N>(stage() + A_BYTES, from.im2col_map, tile.n, first_channel(tile.m), k_tile * CHUNK, full());
#else
    copy_operand<TILE_N, N, WHOLE_N, CLUSTER_M, BLOCKS, B_LAST>(
        Side<B_ALONG_K>(), stage() + A_BYTES, b_map, b_last_map,
        from.b + static_cast<size_t>(tile.matrix) * B_STRIDE, tile.n, k_tile * CHUNK, full(), down_in_cluster(blockIdx.x),
        ((1 << CLUSTER_M) - 1) << (across_in_cluster(blockIdx.x) * CLUSTER_M + first_of_range()));
#endif
  }

  // Loads A, for the blocks with tiles of these rows.
  template <int BLOCKS>
  __device__ __forceinline__ void tma_load_left(Tile tile, int k_tile) {
#if CONV && !SWAP_AB
    load_im2col_k_tile<TILE_M>(
        stage(), from.im2col_map, tile.m, first_channel(tile.n), k_tile * CHUNK, full());
#else
    unsigned blocks = 0;
#pragma unroll
    for (int i = 0; i < CLUSTER_N; ++i) blocks |= 1 << (down_in_cluster(blockIdx.x) + i * CLUSTER_M + first_of_range());
    copy_operand<TILE_M, M, WHOLE_M, CLUSTER_N, BLOCKS, A_LAST>(
        Side<A_ALONG_K>(), stage(), a_map, a_last_map, from.a + static_cast<size_t>(tile.matrix) * A_STRIDE, tile.m,
        k_tile * CHUNK, full(), across_in_cluster(blockIdx.x), blocks);
#endif
  }

  // Loads a K tile into an empty stage.
  template <bool SHARED>
  __device__ __forceinline__ void begin(Tile tile, int k_tile) {
    expect(tile);
    tma_load_left<SHARED ? CLUSTER_N : 1>(tile, k_tile);
    tma_load_right<SHARED ? CLUSTER_M : 1>(tile, k_tile);
  }
};

// K tiles loaded before the other threads see the barriers. Blocks of a cluster load these without multicast, since the
// others' barriers may not exist yet.
constexpr int PROLOGUE = 1;

// Initialises the `full` barriers.
__device__ __forceinline__ void init_full_barriers(const SharedStorage& smem) {
#pragma unroll
  for (int stage = 0; stage < STAGES; ++stage) barrier_init(smem.full + stage * 8, CROSSED ? MULTICAST_PEERS + 1 : 1);
  fence_mbarrier_init();
}

// Initialises the others.
__device__ __forceinline__ void init_other_barriers(const SharedStorage& smem) {
#pragma unroll
  for (int stage = 0; stage < STAGES; ++stage) barrier_init(smem.empty + stage * 8, MULTICAST_PEERS * WARPS);
#pragma unroll
  for (int consumer = 0; consumer < CONSUMERS; ++consumer) barrier_init(smem.pingpong_barriers + consumer * 8, WARPS);
#if SWAP_AB
#pragma unroll
  for (int group = 0; group < CONSUMERS * GROUPS; ++group) barrier_init(smem.groups + group * 8, 4);
#endif
#if CLUSTER_REDUCE
  barrier_init(smem.sent, 1);
#endif
#if ORDERED
#pragma unroll
  for (int group = 0; group < CONSUMERS * GROUPS; ++group) barrier_init(smem.order_barriers + group * 8, 4);
#endif
  fence_mbarrier_init();
#if CLUSTER_REDUCE
  barrier_arrive_expect_tx(smem.sent, (SPLIT - 1) * sent_bytes<FRAGS_M, WORDS>());
#endif
}

// Prologue of the producer: the pipeline is empty, so nothing is waited for, except for an im2col map.
__device__ __forceinline__ void produce_prologue(const SharedStorage& smem, const Sources& from) {
  if (!A_IM2COL) prefetch_tensor_map(a_map);
  if (!B_IM2COL) prefetch_tensor_map(b_map);
  if (A_LAST) prefetch_tensor_map(a_last_map);
  if (B_LAST) prefetch_tensor_map(b_last_map);
  init_full_barriers(smem);
  Producer producer = {smem, from, {0, 1}};
  const Tile tile = tile_of(blockIdx.x);
  const int k_tiles = k_tiles_here(), first = blockIdx.z * K_TILES;
  wait_on_dependent_grids();
#if CONV
#pragma unroll 1
  for (int k_tile = 0; k_tile < PROLOGUE && k_tile < k_tiles; ++k_tile) {
    producer.expect(tile);
    if (A_IM2COL) producer.tma_load_right<1>(tile, first + k_tile);
    else producer.tma_load_left<1>(tile, first + k_tile);
    producer.state.next();
  }
  write_map(from.im2col_map, A_IM2COL ? a_map : b_map, A_IM2COL ? from.a : from.b);
  producer.state = {0, 1};
#endif
#pragma unroll 1
  for (int k_tile = 0; k_tile < PROLOGUE && k_tile < k_tiles; ++k_tile) {
    if (A_IM2COL) producer.tma_load_left<1>(tile, first + k_tile);
    else if (B_IM2COL) producer.tma_load_right<1>(tile, first + k_tile);
    else producer.begin<false>(tile, first + k_tile);
    producer.state.next();
  }
}

// Says that this block loads its part of a K tile to the blocks that wait for it. The first of a stage refills nothing, so
// that each block says so to itself for the others.
__device__ __forceinline__ void announce_refill(const SharedStorage& smem, int stage, bool refills) {
  if (!CROSSED) return;
  const unsigned lane = threadIdx.x % 32;
  const unsigned to = refills ? multicast_peer(lane) : first_of_range() + blockIdx.x % CLUSTER_BLOCKS;
  cluster_barrier_arrive<MULTICAST_PEERS>(smem.full + stage * 8, to, lane < MULTICAST_PEERS);
}

// Main loop of the producer warp; its elected thread issues the loads.
__device__ __forceinline__ void produce_tiles(const SharedStorage& smem, const Sources& from) {
  const int k_tiles = k_tiles_here();
  const int prologue = PROLOGUE < k_tiles ? PROLOGUE : k_tiles;
  Producer producer = {smem, from, {0, 1}};
  producer.state.skip(prologue);
  wait_on_dependent_grids();
  int k_tile = prologue;
  for (int stage = 0; stage < prologue; ++stage) announce_refill(smem, stage, false);
#pragma unroll 1
  for (unsigned number = blockIdx.x; number < TILES; number += gridDim.x) {
    const Tile tile = tile_of(number);
#pragma unroll 1
    for (; k_tile < k_tiles; ++k_tile) {
      barrier_wait(smem.empty + producer.state.stage * 8, producer.state.parity);
      if (elect_one()) producer.begin<true>(tile, blockIdx.z * K_TILES + k_tile);
      __syncwarp();
      announce_refill(smem, producer.state.stage, k_tile >= STAGES);
      producer.state.next();
    }
    k_tile = 0;
  }
}
