// C[M, N] = A[M, K] B[K, N] on Hopper's tensor cores: 16-bit floats, or floats as TF32, sums in float32;
// operands.h says how A and B are stored. Of the rows and columns of C those before C_M and C_N exist.
//
// A block owns a tile of TILE_M x TILE_N of C and one of SPLIT ranges of K. Its first warpgroup copies
// chunks of A and B into a ring of STAGES slots of shared memory; the others multiply, each FRAGS_M * 64
// rows of the tile by all its columns. A slot goes around by two barriers: `full` when the copies into
// it have arrived, `empty` when all multiplying warps are done with it.

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

#if CONV
// Where the window of an output pixel begins: the row and column in its image, and the place of the first
// channel there among all images. Windows beyond the last lie outside of all images.
struct Window {
  long long place;
  int y, x;
};
#endif

struct Ring {
  Item* slots;
  unsigned full, empty;
#if CONV
  const Window* windows;
#endif
  __device__ __forceinline__ Item* slot(Place place) const {
    return slots + static_cast<size_t>(place.slot) * (A_SIZE + B_SIZE);
  }
};

struct Corner {
  int m, n;
};

// Tiles run in columns of BAND tiles of M, so that those at work at one time share rows and columns of
// the inputs in the L2 cache.
__device__ __forceinline__ Corner corner_of(int tile) {
  const int band = tile / (BAND * BLOCKS_N), first = band * BAND;
  const bool all = BLOCKS_M % BAND == 0 || BLOCKS_M - first >= BAND;
  const int height = all ? BAND : BLOCKS_M - first;
  const int inside = tile - first * BLOCKS_N;
  return {(first + inside % height) * TILE_M, inside / height * TILE_N};
}

// Tells functions apart by where rows of shared memory run.
template <bool ALONG_K> struct Side {};

// Copies a panel of ROWS rows; what lies outside becomes 0. A thread keeps to one 16-byte column, and to
// rows whose swizzle is the same.
template <int ROWS, bool WHOLE_ROWS>
__device__ __forceinline__ void copy_panel(
    Item* panel, const Item* from, int pitch, int rows, bool columns_exist, int tid) {
  const int row = tid / 8, vector = tid % 8;
  Item* const to = panel + row * PANEL + (vector ^ row % 8) * VECTOR;
  const Item* const at = from + static_cast<long long>(row) * pitch + vector * VECTOR;
#pragma unroll
  for (int i = 0; i < ROWS; i += 16) {
    const bool valid = columns_exist && (WHOLE_ROWS || row + i < rows);
    copy_async<4>(reinterpret_cast<float*>(to + i * PANEL),
                  reinterpret_cast<const float*>(at + static_cast<long long>(i) * pitch), valid);
  }
}

// Copies a chunk of an operand of `extent` rows or columns, from `first` on.
template <int TILE, bool WHOLE>
__device__ __forceinline__ void copy_operand(
    Side<true>, Item* to, const Item* operand, int extent, int first, int k0, int k_end, int tid) {
  const int column = tid % 8 * VECTOR;
  const Item* const from = operand + static_cast<size_t>(first) * K + k0;
#pragma unroll
  for (int k = 0; k < CHUNK; k += PANEL)
    copy_panel<TILE, WHOLE>(to + k * TILE, from + k, K, extent - first, WHOLE_K || k0 + k + column < k_end, tid);
}

template <int TILE, bool WHOLE>
__device__ __forceinline__ void copy_operand(
    Side<false>, Item* to, const Item* operand, int extent, int first, int k0, int k_end, int tid) {
  const int column = tid % 8 * VECTOR;
  const Item* const from = operand + static_cast<size_t>(k0) * extent + first;
#pragma unroll
  for (int n = 0; n < TILE; n += PANEL)
    copy_panel<CHUNK, WHOLE_K>(to + n * CHUNK, from + n, extent, k_end - k0, WHOLE || first + n + column < extent, tid);
}

#if CONV
__device__ __forceinline__ Window window_of(int m) {
  const int y = m / OW % OH * SY - PY, x = m % OW * SX - PX;
  const long long row = static_cast<long long>(m / (OH * OW)) * IH + y;
  return {(row * IW + x) * CI, m < M ? y : -IH - (1 << 28), x};
}

// Copies the chunk of A that the windows of a tile cover; a thread has the same elements of every 16th.
__device__ __forceinline__ void copy_windows(
    Item* to, const Item* images, const Window* windows, int k0, int k_end, int tid) {
  const int row = tid / 8, vector = tid % 8;
#pragma unroll
  for (int panel = 0; panel < CHUNK; panel += PANEL) {
    const int k = k0 + panel + vector * VECTOR, tap = k / CI, y = tap / KW * DY, x = tap % KW * DX;
    const Item* const from = images + (static_cast<long long>(y) * IW + x) * CI + k % CI;
    Item* const at = to + panel * TILE_M + row * PANEL + (vector ^ row % 8) * VECTOR;
#pragma unroll
    for (int i = 0; i < TILE_M; i += 16) {
      const Window window = windows[row + i];
      const bool valid = (WHOLE_K || k < k_end) && static_cast<unsigned>(window.y + y) < IH &&
                         static_cast<unsigned>(window.x + x) < IW;
      copy_async<4>(reinterpret_cast<float*>(at + i * PANEL),
                    reinterpret_cast<const float*>(from + window.place), valid);
    }
  }
}
#endif

__device__ __forceinline__ void copy_chunk(
    Item* slot, const Ring& ring, const Item* a, const Item* b, Corner corner, int k0, int k_end, int tid) {
#if CONV
  copy_windows(slot, a, ring.windows, k0, k_end, tid);
#else
  copy_operand<TILE_M, WHOLE_M>(Side<A_ALONG_K>(), slot, a, M, corner.m, k0, k_end, tid);
#endif
  copy_operand<TILE_N, WHOLE_N>(Side<B_ALONG_K>(), slot + A_SIZE, b, N, corner.n, k0, k_end, tid);
}

__device__ __forceinline__ void copy_tile(
    const Ring& ring, const Item* a, const Item* b, Corner corner, int k_begin, int k_end) {
  Place place = {0, 1};
#pragma unroll 1
  for (int chunk = 0; chunk < CHUNKS; ++chunk) {
    barrier_wait(ring.empty + place.slot * 8, place.parity);
    copy_chunk(ring.slot(place), ring, a, b, corner, k_begin + chunk * CHUNK, k_end, threadIdx.x);
    copy_arrive(ring.full + place.slot * 8);
    place.next();
  }
  copy_commit();
  copy_wait<0>();
}

// How many bytes behind its begin an operand of TILE rows or columns has those from `across` on, and of
// these what is `k` further along K.
template <bool ALONG_K, int TILE>
__device__ __forceinline__ constexpr int bytes_to(int across, int k) {
  return ALONG_K ? k / PANEL * TILE * 128 + k % PANEL * static_cast<int>(sizeof(Item)) + across * 128
                 : across / PANEL * CHUNK * 128 + k * 128;
}

// Multiplies one chunk; the products are at work when this returns.
__device__ __forceinline__ void begin_chunk(
    float (&sum)[FRAGS_M][WORDS], descriptor left, descriptor right, bool add) {
  products_fence();
#pragma unroll
  for (int k = 0; k < CHUNK; k += DEPTH) {
#pragma unroll
    for (int i = 0; i < FRAGS_M; ++i)
      begin_product(sum[i], left + further(bytes_to<A_ALONG_K, TILE_M>(i * 64, k)),
                    right + further(bytes_to<B_ALONG_K, TILE_N>(0, k)), add || k > 0);
  }
  products_commit();
}

__device__ __forceinline__ void multiply_tile(
    float (&sum)[FRAGS_M][WORDS], const Ring& ring, int group, bool signals) {
  const unsigned begin = shared_address(ring.slots);
  const descriptor left =
      describe(begin + group * bytes_to<A_ALONG_K, TILE_M>(FRAGS_M * 64, 0), A_ALONG_K ? 0 : CHUNK * 128);
  const descriptor right = describe(begin + static_cast<int>(sizeof(Item)) * A_SIZE, B_ALONG_K ? 0 : CHUNK * 128);
  Place place = {0, 0};
  int before = 0;
#pragma unroll 1
  for (int chunk = 0; chunk < CHUNKS; ++chunk) {
    barrier_wait(ring.full + place.slot * 8, place.parity);
    show_to_products();
    const descriptor slot = further(SLOT_BYTES) * static_cast<descriptor>(place.slot);
    begin_chunk(sum, left + slot, right + slot, BIAS_FIRST || chunk > 0);
    // The products of this chunk are at work; those of the one before are done, and its slot is free.
    products_wait<1>();
    if (signals && chunk > 0) barrier_arrive(ring.empty + before * 8);
    before = place.slot;
    place.next();
  }
  products_wait<0>();
#pragma unroll
  for (int i = 0; i < FRAGS_M; ++i) sums_are_new(sum[i]);
}

extern "C" __global__ void CLUSTER_SHAPE __launch_bounds__(THREADS, RESIDENT) gemm_wgmma(
    const Item* __restrict__ a, const Item* __restrict__ b,
    EPILOGUE_PARAMETERS Finished* __restrict__ out) {
  extern __shared__ float4 shared_memory[];
  const unsigned begin = shared_address(shared_memory), unaligned = begin % 1024;
  Ring ring;
  constexpr unsigned ITEM = sizeof(Item);
  ring.slots = reinterpret_cast<Item*>(shared_memory) + (unaligned ? 1024 - unaligned : 0) / ITEM;
  ring.full = shared_address(ring.slots) + STAGES * SLOT_BYTES;
  ring.empty = ring.full + STAGES * 8;
#if SPLIT > 1 || CONV
  char* const behind = reinterpret_cast<char*>(ring.slots) + STAGES * (SLOT_BYTES + 16);
#endif
#if SPLIT > 1
  float* const inbox = reinterpret_cast<float*>(behind + CONV * TILE_M * 16);
  const unsigned sent = shared_address(inbox) + PART_BYTES;
#endif
  const int group = threadIdx.x / 128, lane = threadIdx.x % 32;
#if BATCH > 1
  const int which = blockIdx.x / (BLOCKS_M * BLOCKS_N);
  const Corner corner = corner_of(blockIdx.x % (BLOCKS_M * BLOCKS_N));
  a += static_cast<size_t>(which) * A_STRIDE;
  b += static_cast<size_t>(which) * B_STRIDE;
#else
  const Corner corner = corner_of(blockIdx.x);
#endif
  // By a warp that does not copy, while those that do find their addresses.
  if (threadIdx.x == THREADS - 32) {
#pragma unroll
    for (int slot = 0; slot < STAGES; ++slot) {
      barrier_init(ring.full + slot * 8, 128);
      barrier_init(ring.empty + slot * 8, GROUPS * 4);
    }
#if SPLIT > 1
    barrier_init(sent, 1);
    expect_sent(sent, PART_BYTES);
    show_barriers();
#endif
  }
#if CONV
  Window* const windows = reinterpret_cast<Window*>(behind);
  for (int i = threadIdx.x; i < TILE_M; i += THREADS) windows[i] = window_of(corner.m + i);
  ring.windows = windows;
#endif
  __syncthreads();
  const int k_begin = blockIdx.z * K_PER_SPLIT;
  const int k_end = k_begin + K_PER_SPLIT < K ? k_begin + K_PER_SPLIT : K;
#if SPLIT > 1
  cluster_arrive();  // others may write to this block's shared memory from now on
#endif
  if (group == 0) {
    if (MOVE_REGISTERS) give_registers<COPY_REGISTERS>();
    wait_for_kernel_before();
    copy_tile(ring, a, b, corner, k_begin, k_end);
#if SPLIT > 1
    cluster_wait();
#endif
  } else {
    if (MOVE_REGISTERS) take_registers<SUM_REGISTERS>();
    const int row = corner.m + (group - 1) * FRAGS_M * 64 + threadIdx.x / 32 % 4 * 16 + lane / 4;
    float sum[FRAGS_M][WORDS];
#if BIAS_FIRST
    begin_sums(sum, bias, corner.n, lane);
#endif
    multiply_tile(sum, ring, group - 1, lane == 0);
#if BATCH > 1
    const size_t matrix = static_cast<size_t>(which) * C_M * C_N;
    out += matrix;
#else
    constexpr size_t matrix = 0;
#endif
#if FOLLOWS
    const EpilogueArgs epilogue = {bias, RESIDUAL ? residual + matrix : residual, scale, shift};
#else
    const EpilogueArgs epilogue = {};
#endif
#if SPLIT > 1
    const int rank = blockIdx.z, tid = threadIdx.x - 128;
    cluster_wait();
    send_parts(sum, shared_address(inbox), sent, rank, tid);
    barrier_wait(sent, 0);
#pragma unroll
    for (int own = 0; own < SPLIT; ++own) {
      if (own != rank) continue;
      add_parts_of_others(sum, inbox, own, tid);
      write_units(out, sum, own, row, corner.n, lane, epilogue);
    }
#else
    write_units(out, sum, 0, row, corner.n, lane, epilogue);
#endif
  }
}
