// How one thread of a block of gemm_tma.cu has the ring filled: box by box, of one tile after another.
__constant__ __align__(128) TensorMap a_map = {{A_MAP}}, b_map = {{B_MAP}};

// Tells functions apart by where rows of shared memory run.
template <bool ALONG_K> struct Side {};

// Begins to copy a chunk of an operand's TILE rows or columns from `first` on, of which those before EXTENT exist,
// or with WHOLE all. With several BLOCKS that is the share of this one, of a rank among them, for all of them, whose
// bits are set in `blocks`. Boxes along K have one of PARTS.
template <int TILE, int EXTENT, bool WHOLE, int PARTS, int BLOCKS>
__device__ __forceinline__ void copy_operand(
    Side<true>, unsigned to, const TensorMap& map, const Item* operand, int first, int k, unsigned full, int rank,
    unsigned blocks) {
#pragma unroll
  for (int part = 0; part < PARTS / BLOCKS; ++part) {
    const int share = (BLOCKS > 1 ? rank : part) * (TILE / PARTS);
    if (!WHOLE && first + share >= EXTENT) return;
#pragma unroll
    for (int i = 0; i < CHUNK; i += PANEL)
      copy_box<BLOCKS>(to + (i / PANEL * TILE + share) * 128, map, operand, k + i, first + share, full,
                       blocks);
  }
}

template <int TILE, int EXTENT, bool WHOLE, int PARTS, int BLOCKS>
__device__ __forceinline__ void copy_operand(
    Side<false>, unsigned to, const TensorMap& map, const Item* operand, int first, int k, unsigned full, int rank,
    unsigned blocks) {
  const int share = BLOCKS > 1 ? rank * (TILE / BLOCKS) : 0;
#pragma unroll
  for (int i = 0; i < TILE / BLOCKS; i += PANEL)
    if (WHOLE || first + share + i < EXTENT)
      copy_box<BLOCKS>(to + (share + i) * (CHUNK * ITEM_BYTES), map, operand, first + share + i, k, full, blocks);
}

// Returns how many bytes the boxes of a chunk have that copies of all blocks of a cluster bring.
template <bool ALONG_K, int TILE, int EXTENT, bool WHOLE, int BLOCKS>
__device__ __forceinline__ int bytes_of(int first) {
  constexpr int STEP = ALONG_K ? TILE / BLOCKS : PANEL, COUNT = (TILE + STEP - 1) / STEP;
  if (WHOLE) return COUNT * STEP * CHUNK * ITEM_BYTES;
  const int there = first < EXTENT ? (EXTENT - first + STEP - 1) / STEP : 0;
  return (there < COUNT ? there : COUNT) * STEP * CHUNK * ITEM_BYTES;
}

// Where operands are copied from; one may be windows of images, which a map of this block's own knows.
struct Sources {
  const Item *a, *b;
  TensorMap* windows;
};

#if CONV
constexpr bool LEFT_WINDOWS = !SWAPPED, RIGHT_WINDOWS = SWAPPED;

__device__ __forceinline__ Sources sources(const Item* a, const Item* b, TensorMap* maps) {
  return {a, b, own_map(maps, SWAPPED ? b : a)};
}
#else
constexpr bool LEFT_WINDOWS = false, RIGHT_WINDOWS = false;

__device__ __forceinline__ Sources sources(const Item* a, const Item* b) { return {a, b, nullptr}; }
#endif

struct Copier {
  const Room& room;
  const Sources& from;
  Place place;

  __device__ __forceinline__ unsigned full() const { return room.full + place.slot * 8; }
  __device__ __forceinline__ unsigned slot() const { return room.slots + place.slot * SLOT_BYTES; }

  // Says what arrives of a chunk.
  __device__ __forceinline__ void expect(Tile tile) {
    barrier_expect(full(), bytes_of<A_ALONG_K, TILE_M, M, WHOLE_M || LEFT_WINDOWS, BESIDE>(tile.m) +
                               bytes_of<B_ALONG_K, TILE_N, N, WHOLE_N || RIGHT_WINDOWS, SHARE>(tile.n));
  }

  // Begins to copy B; with several BLOCKS, a share of it for those of the cluster that have tiles of these columns.
  template <int BLOCKS>
  __device__ __forceinline__ void begin_right(Tile tile, int chunk) {
#if CONV && SWAPPED
    copy_chunk_of_windows<TILE_N>(slot() + A_BYTES, from.windows, tile.n, chunk * CHUNK, full());
#else
    copy_operand<TILE_N, N, WHOLE_N, SHARE, BLOCKS>(
        Side<B_ALONG_K>(), slot() + A_BYTES, b_map, from.b + static_cast<size_t>(tile.matrix) * B_STRIDE, tile.n,
        chunk * CHUNK, full(), down_in_cluster(blockIdx.x),
        ((1 << SHARE) - 1) << across_in_cluster(blockIdx.x) * SHARE);
#endif
  }

  // The same of A, and of those that have tiles of these rows.
  template <int BLOCKS>
  __device__ __forceinline__ void begin_left(Tile tile, int chunk) {
#if CONV && !SWAPPED
    copy_chunk_of_windows<TILE_M>(slot(), from.windows, tile.m, chunk * CHUNK, full());
#else
    unsigned blocks = 0;
#pragma unroll
    for (int i = 0; i < BESIDE; ++i) blocks |= 1 << (down_in_cluster(blockIdx.x) + i * SHARE);
    copy_operand<TILE_M, M, WHOLE_M, BESIDE, BLOCKS>(
        Side<A_ALONG_K>(), slot(), a_map, from.a + static_cast<size_t>(tile.matrix) * A_STRIDE, tile.m, chunk * CHUNK,
        full(), across_in_cluster(blockIdx.x), blocks);
#endif
  }

  // Begins the copies of a chunk into a slot that is free.
  template <bool SHARED>
  __device__ __forceinline__ void begin(Tile tile, int chunk) {
    expect(tile);
    begin_left<SHARED ? BESIDE : 1>(tile, chunk);
    begin_right<SHARED ? SHARE : 1>(tile, chunk);
  }
};

// Chunks that are copied before other threads know of the barriers: these wait for it. Blocks of a cluster copy them
// each for itself, and they arrive while all meet.
constexpr int EARLY = 1;

// Makes the barriers by which copies are waited for.
__device__ __forceinline__ void make_full_barriers(const Room& room) {
#pragma unroll
  for (int slot = 0; slot < STAGES; ++slot) barrier_init(room.full + slot * 8, 1);
  barriers_are_ready();
}

// Makes the others.
__device__ __forceinline__ void make_other_barriers(const Room& room) {
#pragma unroll
  for (int slot = 0; slot < STAGES; ++slot) barrier_init(room.empty + slot * 8, NEIGHBOURS * WARPS);
#pragma unroll
  for (int team = 0; team < EACH; ++team) barrier_init(room.turns + team * 8, WARPS);
#if SWAPPED
#pragma unroll
  for (int group = 0; group < EACH * GROUPS; ++group) barrier_init(room.groups + group * 8, 4);
#endif
#if JOINS
  barrier_init(room.joined, 1);
#endif
#if ORDERED
#pragma unroll
  for (int group = 0; group < EACH * GROUPS; ++group) barrier_init(room.orders + group * 8, 4);
#endif
  barriers_are_ready();
#if JOINS
  expect_sent(room.joined, (SPLIT - 1) * JOINED_BYTES);
#endif
}

// What the first thread of a block does first. Rings are empty, so the copies need not wait. Those of windows wait
// for their map.
__device__ __forceinline__ void begin_copies(const Room& room, const Sources& from) {
  if (!LEFT_WINDOWS) fetch_map(a_map);
  if (!RIGHT_WINDOWS) fetch_map(b_map);
  make_full_barriers(room);
  Copier copier = {room, from, {0, 1}};
  const Tile tile = tile_of(blockIdx.x);
  const int chunks = chunks_here(), first = blockIdx.z * CHUNKS;
  wait_for_kernel_before();
#if CONV
#pragma unroll 1
  for (int chunk = 0; chunk < EARLY && chunk < chunks; ++chunk) {
    copier.expect(tile);
    if (LEFT_WINDOWS) copier.begin_right<1>(tile, first + chunk);
    else copier.begin_left<1>(tile, first + chunk);
    copier.place.next();
  }
  write_map(from.windows, LEFT_WINDOWS ? a_map : b_map, LEFT_WINDOWS ? from.a : from.b);
  copier.place = {0, 1};
#endif
#pragma unroll 1
  for (int chunk = 0; chunk < EARLY && chunk < chunks; ++chunk) {
    if (LEFT_WINDOWS) copier.begin_left<1>(tile, first + chunk);
    else if (RIGHT_WINDOWS) copier.begin_right<1>(tile, first + chunk);
    else copier.begin<false>(tile, first + chunk);
    copier.place.next();
  }
}

// What a whole warp does from there on; its first thread begins the copies.
__device__ __forceinline__ void copy_tiles(const Room& room, const Sources& from) {
  const int chunks = chunks_here();
  const int early = EARLY < chunks ? EARLY : chunks;
  Copier copier = {room, from, {0, 1}};
  copier.place.skip(early);
  wait_for_kernel_before();
  int chunk = early;
#pragma unroll 1
  for (unsigned number = blockIdx.x; number < TILES; number += gridDim.x) {
    const Tile tile = tile_of(number);
#pragma unroll 1
    for (; chunk < chunks; ++chunk) {
      barrier_wait(room.empty + copier.place.slot * 8, copier.place.parity);
      if (elected()) copier.begin<true>(tile, blockIdx.z * CHUNKS + chunk);
      __syncwarp();
      copier.place.next();
    }
    chunk = 0;
  }
}
