// C[M, N] = A[M, K] B[K, N] on Hopper's tensor cores: 16-bit floats, or floats as TF32, sums in float32;
// operands.h says how A and B are stored. Of the rows and columns of C those before C_M and C_N exist.
//
// A block owns a tile of TILE_M x TILE_N of C and one of SPLIT ranges of K. Its first warpgroup copies
// chunks of A and B into a ring of STAGES slots of shared memory; the others multiply, each FRAGS_M * 64
// rows of the tile by all its columns. A slot goes around by two barriers: `full` when the copies into
// it have arrived, `empty` when all multiplying warps are done with it.
constexpr int GROUPS = WARPS_M / 4;
constexpr int TILE_M = WARPS_M * FRAGS_M * 16, TILE_N = FRAGS_N * 8;
constexpr int BLOCKS_M = (M + TILE_M - 1) / TILE_M, BLOCKS_N = (N + TILE_N - 1) / TILE_N;
constexpr int CHUNKS = (K_PER_SPLIT + CHUNK - 1) / CHUNK;
constexpr int A_SIZE = TILE_M * CHUNK, B_SIZE = CHUNK * TILE_N;
constexpr int SLOT_BYTES = sizeof(Item) * (A_SIZE + B_SIZE);
constexpr int WORDS = TILE_N / 2;
// Where the extents divide, the tests for the edges are constant and vanish.
constexpr bool WHOLE_M = M % TILE_M == 0, WHOLE_N = N % TILE_N == 0;
constexpr bool WHOLE_ROWS = WHOLE_M && C_M == M, WHOLE_COLUMNS = WHOLE_N && C_N == N;
constexpr bool WHOLE_K = K_PER_SPLIT * SPLIT == K && K_PER_SPLIT % CHUNK == 0;
// Copies need few registers: they leave theirs to the sums.
constexpr int ENTRY_REGISTERS = 65536 / (THREADS * RESIDENT) / 8 * 8, COPY_REGISTERS = 64;
constexpr int LEFT_OVER = (ENTRY_REGISTERS * (GROUPS + 1) - COPY_REGISTERS) / GROUPS / 8 * 8;
constexpr int SUM_REGISTERS = LEFT_OVER < 240 ? LEFT_OVER : 240;
constexpr bool MOVE_REGISTERS = ENTRY_REGISTERS < 240;
// Which operands' rows of shared memory run along K.
constexpr bool A_ALONG_K = !TRANSPOSE_A, B_ALONG_K = TRANSPOSE_B;
#if TF32
static_assert(A_ALONG_K && B_ALONG_K, "of floats, both operands must stand along K");
DEFINE_PRODUCTS(begin_product, "")
#elif TRANSPOSE_A && TRANSPOSE_B
DEFINE_PRODUCTS(begin_product, ", 1, 0")
#elif TRANSPOSE_A
DEFINE_PRODUCTS(begin_product, ", 1, 1")
#elif TRANSPOSE_B
DEFINE_PRODUCTS(begin_product, ", 0, 0")
#else
DEFINE_PRODUCTS(begin_product, ", 0, 1")
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

#if TF32
typedef float Finished;
#else
typedef half_bits Finished;
#endif

struct Corner {
  int m, n;
};

// Tiles run in columns of BAND tiles of M, so that those at work at one time share rows and columns of
// the inputs in the L2 cache.
__device__ __forceinline__ Corner corner_of(int tile) {
  const int band = tile / (BAND * BLOCKS_N), first = band * BAND;
  const int height = BLOCKS_M - first < BAND ? BLOCKS_M - first : BAND;
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
    begin_chunk(sum, left + slot, right + slot, chunk > 0);
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

#if FOLLOWS
#define FINISH(low, high, n, at) finish_pair(low, high, rest, n, at)
#else
#define FINISH(low, high, n, at)
#endif

// Writes a warp's 16 rows. Where rows begin at 16 bytes, four threads, which hold 32 columns of a row in
// pairs, exchange them and write 16 bytes each, whole sectors together.
__device__ __forceinline__ void write_rows(
    Finished* __restrict__ out, float (&sum)[WORDS], int m0, int n0, int lane, const Rest& rest) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int m = m0 + lane / 4 + half * 8;
#if C_N % 8 == 0 && !TF32
#pragma unroll
    for (int j = 0; j < TILE_N / 8; j += 4) {
      unsigned word[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        float &low = sum[(j + i) * 4 + half * 2], &high = sum[(j + i) * 4 + half * 2 + 1];
        const int column = n0 + (j + i) * 8 + lane % 4 * 2;
        if (FOLLOWS && (WHOLE_ROWS || m < C_M) && (WHOLE_COLUMNS || column < C_N))
          FINISH(low, high, column, static_cast<size_t>(m) * C_N + column);
        word[i] = pack_pair(low, high);
      }
      transpose_four(word, lane);
      const int n = n0 + (j + lane % 4) * 8;
      if ((WHOLE_ROWS || m < C_M) && (WHOLE_COLUMNS || n < C_N))
        *reinterpret_cast<uint4*>(out + static_cast<size_t>(m) * C_N + n) =
            make_uint4(word[0], word[1], word[2], word[3]);
    }
#else
    if (!WHOLE_ROWS && m >= C_M) continue;
#pragma unroll
    for (int j = 0; j < TILE_N / 8; ++j) {
      const int n = n0 + j * 8 + lane % 4 * 2;
      if (!WHOLE_COLUMNS && n >= C_N) continue;
      float &low = sum[j * 4 + half * 2], &high = sum[j * 4 + half * 2 + 1];
      const size_t at = static_cast<size_t>(m) * C_N + n;
      FINISH(low, high, n, at);
      write_pair(out, at, n, low, high);
    }
#endif
  }
}

#if SPLIT > 1
// The blocks of a cluster hold sums of one tile over a part of K each. They put them where the ring
// was, and each adds up its share of the rows.
constexpr int PART_PITCH = TILE_N + 8, SHARE = TILE_M / SPLIT;
static_assert(TILE_M * PART_PITCH * 4 <= STAGES * SLOT_BYTES, "the parts do not fit into the ring");

__device__ __forceinline__ void keep_part(
    float* part, const float (&sum)[WORDS], int row, int lane) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float* const to = part + (row + lane / 4 + half * 8) * PART_PITCH + lane % 4 * 2;
#pragma unroll
    for (int j = 0; j < TILE_N / 8; ++j)
      store_vector<2>(to + j * 8, sum + j * 4 + half * 2);
  }
}

__device__ __forceinline__ void write_share(
    Finished* __restrict__ out, const float* part, int rank, Corner corner, int tid, const Rest& rest) {
  for (int i = tid; i < SHARE * TILE_N / 8; i += GROUPS * 128) {
    const int row = rank * SHARE + i / (TILE_N / 8), column = i % (TILE_N / 8) * 8;
    float total[8];
    cluster_sum8<SPLIT>(total, part + row * PART_PITCH + column);
    const int m = corner.m + row, n = corner.n + column;
    if ((!WHOLE_ROWS && m >= C_M) || (!WHOLE_COLUMNS && n >= C_N)) continue;
    const size_t at = static_cast<size_t>(m) * C_N + n;
#if C_N % 8 == 0 && !TF32
#if FOLLOWS
    finish<1>(total, rest, n, at);
#endif
    *reinterpret_cast<uint4*>(out + at) =
        make_uint4(pack_pair(total[0], total[1]), pack_pair(total[2], total[3]),
                   pack_pair(total[4], total[5]), pack_pair(total[6], total[7]));
#else
#pragma unroll
    for (int i = 0; i < 8; i += 2) {
      if (!WHOLE_COLUMNS && n + i >= C_N) continue;
      FINISH(total[i], total[i + 1], n + i, at + i);
      write_pair(out, at + i, n + i, total[i], total[i + 1]);
    }
#endif
  }
}
#endif

extern "C" __global__ void CLUSTER_SHAPE __launch_bounds__(THREADS, RESIDENT) gemm_wgmma(
    const Item* __restrict__ a, const Item* __restrict__ b,
    REST_PARAMETERS Finished* __restrict__ out) {
  extern __shared__ float4 shared_memory[];
  const unsigned begin = shared_address(shared_memory), unaligned = begin % 1024;
  Ring ring;
  constexpr unsigned ITEM = sizeof(Item);
  ring.slots = reinterpret_cast<Item*>(shared_memory) + (unaligned ? 1024 - unaligned : 0) / ITEM;
  ring.full = shared_address(ring.slots) + STAGES * SLOT_BYTES;
  ring.empty = ring.full + STAGES * 8;
  const int group = threadIdx.x / 128, lane = threadIdx.x % 32;
  if (threadIdx.x == 0) {
    for (int slot = 0; slot < STAGES; ++slot) {
      barrier_init(ring.full + slot * 8, 128);
      barrier_init(ring.empty + slot * 8, GROUPS * 4);
    }
  }
  __syncthreads();

#if BATCH > 1
  const int which = blockIdx.x / (BLOCKS_M * BLOCKS_N);
  const Corner corner = corner_of(blockIdx.x % (BLOCKS_M * BLOCKS_N));
  a += static_cast<size_t>(which) * A_STRIDE;
  b += static_cast<size_t>(which) * B_STRIDE;
#else
  const Corner corner = corner_of(blockIdx.x);
#endif
#if CONV
  Window* const windows = reinterpret_cast<Window*>(
      reinterpret_cast<char*>(ring.slots) + STAGES * (SLOT_BYTES + 16));
  for (int i = threadIdx.x; i < TILE_M; i += THREADS) windows[i] = window_of(corner.m + i);
  ring.windows = windows;
  __syncthreads();
#endif
  const int k_begin = blockIdx.z * K_PER_SPLIT;
  const int k_end = k_begin + K_PER_SPLIT < K ? k_begin + K_PER_SPLIT : K;
  if (group == 0) {
    if (MOVE_REGISTERS) give_registers<COPY_REGISTERS>();
    copy_tile(ring, a, b, corner, k_begin, k_end);
#if SPLIT > 1
    for (int i = 0; i < 3; ++i) cluster_sync();
#endif
  } else {
    if (MOVE_REGISTERS) take_registers<SUM_REGISTERS>();
    const int row = (group - 1) * FRAGS_M * 64 + threadIdx.x / 32 % 4 * 16;
    float sum[FRAGS_M][WORDS];
    multiply_tile(sum, ring, group - 1, lane == 0);
#if BATCH > 1
    const size_t matrix = static_cast<size_t>(which) * C_M * C_N;
    out += matrix;
#else
    constexpr size_t matrix = 0;
#endif
#if FOLLOWS
    const Rest rest = {bias, RESIDUAL ? residual + matrix : residual, scale, shift};
#else
    const Rest rest = {};
#endif
#if SPLIT > 1
    float* const part = reinterpret_cast<float*>(ring.slots);
    cluster_sync();
#pragma unroll
    for (int i = 0; i < FRAGS_M; ++i) keep_part(part, sum[i], row + i * 64, lane);
    cluster_sync();
    write_share(out, part, blockIdx.z, corner, threadIdx.x - 128, rest);
    cluster_sync();
#else
#pragma unroll
    for (int i = 0; i < FRAGS_M; ++i)
      write_rows(out, sum[i], corner.m + row + i * 64, corner.n, lane, rest);
#endif
  }
}
