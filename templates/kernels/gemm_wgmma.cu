// C[M, N] = A[M, K] B[K, N], row-major 16-bit floats on Hopper's tensor cores, sums in float32.
//
// A block owns a tile of TILE_M x TILE_N of C and one of SPLIT ranges of K. Its first warpgroup copies
// chunks of A and B into a ring of STAGES slots of shared memory; the others multiply, each FRAGS_M * 64
// rows of the tile by all its columns. A slot goes around by two barriers: `full` when the copies into
// it have arrived, `empty` when all multiplying warps are done with it.
constexpr int GROUPS = WARPS_M / 4;
constexpr int TILE_M = WARPS_M * FRAGS_M * 16, TILE_N = FRAGS_N * 8;
constexpr int BLOCKS_M = (M + TILE_M - 1) / TILE_M, BLOCKS_N = (N + TILE_N - 1) / TILE_N;
constexpr int CHUNKS = (K_PER_SPLIT + CHUNK - 1) / CHUNK;
constexpr int A_SIZE = TILE_M * CHUNK, B_SIZE = CHUNK * TILE_N, SLOT_BYTES = 2 * (A_SIZE + B_SIZE);
constexpr int WORDS = TILE_N / 2;
// Where the extents divide, the tests for the edges are constant and vanish.
constexpr bool WHOLE_M = M % TILE_M == 0, WHOLE_N = N % TILE_N == 0;
constexpr bool WHOLE_K = K_PER_SPLIT * SPLIT == K && K_PER_SPLIT % CHUNK == 0;
// Copies need few registers: they leave theirs to the sums.
constexpr int ENTRY_REGISTERS = 65536 / (THREADS * RESIDENT) / 8 * 8, COPY_REGISTERS = 64;
constexpr int LEFT_OVER = (ENTRY_REGISTERS * (GROUPS + 1) - COPY_REGISTERS) / GROUPS / 8 * 8;
constexpr int SUM_REGISTERS = LEFT_OVER < 240 ? LEFT_OVER : 240;
constexpr bool MOVE_REGISTERS = ENTRY_REGISTERS < 240;

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

struct Ring {
  half_bits* slots;
  unsigned full, empty;
  __device__ __forceinline__ half_bits* slot(Place place) const {
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
  const int height = BLOCKS_M - first < BAND ? BLOCKS_M - first : BAND;
  const int inside = tile - first * BLOCKS_N;
  return {(first + inside % height) * TILE_M, inside / height * TILE_N};
}

// Copies a panel of ROWS x 64 elements; what lies outside becomes 0. A thread keeps to one 16-byte
// column, and to rows whose swizzle is the same.
template <int ROWS, bool WHOLE_ROWS>
__device__ __forceinline__ void copy_panel(
    half_bits* panel, const half_bits* from, int pitch, int rows, bool columns_exist, int tid) {
  const int row = tid / 8, vector = tid % 8;
  half_bits* const to = panel + row * PANEL + (vector ^ row % 8) * 8;
  const half_bits* const at = from + static_cast<long long>(row) * pitch + vector * 8;
#pragma unroll
  for (int i = 0; i < ROWS; i += 16) {
    const bool valid = columns_exist && (WHOLE_ROWS || row + i < rows);
    copy_async<4>(reinterpret_cast<float*>(to + i * PANEL),
                  reinterpret_cast<const float*>(at + static_cast<long long>(i) * pitch), valid);
  }
}

__device__ __forceinline__ void copy_chunk(
    half_bits* slot, const half_bits* a, const half_bits* b, Corner corner, int k0, int k_end, int tid) {
  const int column = tid % 8 * 8;
  const half_bits* const from_a = a + static_cast<size_t>(corner.m) * K + k0;
  const half_bits* const from_b = b + static_cast<size_t>(k0) * N + corner.n;
#pragma unroll
  for (int k = 0; k < CHUNK; k += PANEL)
    copy_panel<TILE_M, WHOLE_M>(slot + k * TILE_M, from_a + k, K, M - corner.m,
                                WHOLE_K || k0 + k + column < k_end, tid);
#pragma unroll
  for (int n = 0; n < TILE_N; n += PANEL)
    copy_panel<CHUNK, WHOLE_K>(slot + A_SIZE + n * CHUNK, from_b + n, N, k_end - k0,
                               WHOLE_N || corner.n + n + column < N, tid);
}

__device__ __forceinline__ void copy_tile(
    const Ring& ring, const half_bits* a, const half_bits* b, Corner corner, int k_begin, int k_end) {
  Place place = {0, 1};
#pragma unroll 1
  for (int chunk = 0; chunk < CHUNKS; ++chunk) {
    barrier_wait(ring.empty + place.slot * 8, place.parity);
    copy_chunk(ring.slot(place), a, b, corner, k_begin + chunk * CHUNK, k_end, threadIdx.x);
    copy_arrive(ring.full + place.slot * 8);
    place.next();
  }
  copy_commit();
  copy_wait<0>();
}

// Multiplies one chunk; the products are at work when this returns.
__device__ __forceinline__ void begin_chunk(
    float (&sum)[FRAGS_M][WORDS], descriptor left, descriptor right, bool add) {
  products_fence();
#pragma unroll
  for (int k = 0; k < CHUNK; k += 16) {
    const int along = k / PANEL * TILE_M * 128 + k % PANEL * 2;
#pragma unroll
    for (int i = 0; i < FRAGS_M; ++i)
      begin_product(sum[i], left + further(along + i * 64 * 128), right + further(k * 128), add || k > 0);
  }
  products_commit();
}

__device__ __forceinline__ void multiply_tile(
    float (&sum)[FRAGS_M][WORDS], const Ring& ring, int group, bool signals) {
  const unsigned begin = shared_address(ring.slots);
  const descriptor left = describe(begin + group * FRAGS_M * 64 * 128, 0);
  const descriptor right = describe(begin + 2 * A_SIZE, CHUNK * 128);
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

// Exchanges words among four neighbouring threads: word i of thread j becomes word j of thread i.
__device__ __forceinline__ void transpose_four(unsigned (&word)[4], int lane) {
#pragma unroll
  for (int step = 1; step < 4; step *= 2) {
    const bool upper = lane & step;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (i & step) continue;
      const unsigned got = __shfl_xor_sync(0xffffffffu, upper ? word[i] : word[i + step], step);
      if (upper) word[i] = got;
      else word[i + step] = got;
    }
  }
}

// Writes a warp's 16 rows: four threads hold 32 columns of a row in pairs, exchange them, and write 16
// bytes each, whole sectors together.
__device__ __forceinline__ void write_rows(
    half_bits* __restrict__ out, const float (&sum)[WORDS], int m0, int n0, int lane) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int m = m0 + lane / 4 + half * 8;
#pragma unroll
    for (int j = 0; j < TILE_N / 8; j += 4) {
      unsigned word[4];
#pragma unroll
      for (int i = 0; i < 4; ++i)
        word[i] = pack_pair(sum[(j + i) * 4 + half * 2], sum[(j + i) * 4 + half * 2 + 1]);
      transpose_four(word, lane);
      const int n = n0 + (j + lane % 4) * 8;
      if ((WHOLE_M || m < M) && (WHOLE_N || n < N))
        *reinterpret_cast<uint4*>(out + static_cast<size_t>(m) * N + n) =
            make_uint4(word[0], word[1], word[2], word[3]);
    }
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
    half_bits* __restrict__ out, const float* part, int rank, Corner corner, int tid) {
  for (int i = tid; i < SHARE * TILE_N / 8; i += GROUPS * 128) {
    const int row = rank * SHARE + i / (TILE_N / 8), column = i % (TILE_N / 8) * 8;
    float total[8];
    cluster_sum8<SPLIT>(total, part + row * PART_PITCH + column);
    const int m = corner.m + row, n = corner.n + column;
    if ((WHOLE_M || m < M) && (WHOLE_N || n < N))
      *reinterpret_cast<uint4*>(out + static_cast<size_t>(m) * N + n) =
          make_uint4(pack_pair(total[0], total[1]), pack_pair(total[2], total[3]),
                     pack_pair(total[4], total[5]), pack_pair(total[6], total[7]));
  }
}
#endif

extern "C" __global__ void CLUSTER_SHAPE __launch_bounds__(THREADS, RESIDENT) gemm_wgmma(
    const half_bits* __restrict__ a, const half_bits* __restrict__ b, half_bits* __restrict__ out) {
  extern __shared__ float4 shared_memory[];
  const unsigned begin = shared_address(shared_memory), unaligned = begin % 1024;
  Ring ring;
  ring.slots = reinterpret_cast<half_bits*>(shared_memory) + (unaligned ? 1024 - unaligned : 0) / 2;
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

  const Corner corner = corner_of(blockIdx.x);
  const int k_begin = blockIdx.z * K_PER_SPLIT;
  const int k_end = k_begin + K_PER_SPLIT < K ? k_begin + K_PER_SPLIT : K;
  if (group == 0) {
    if (MOVE_REGISTERS) asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(COPY_REGISTERS));
    copy_tile(ring, a, b, corner, k_begin, k_end);
#if SPLIT > 1
    for (int i = 0; i < 3; ++i) cluster_sync();
#endif
  } else {
    if (MOVE_REGISTERS) asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(SUM_REGISTERS));
    const int row = (group - 1) * FRAGS_M * 64 + threadIdx.x / 32 % 4 * 16;
    float sum[FRAGS_M][WORDS];
    multiply_tile(sum, ring, group - 1, lane == 0);
#if SPLIT > 1
    float* const part = reinterpret_cast<float*>(ring.slots);
    cluster_sync();
#pragma unroll
    for (int i = 0; i < FRAGS_M; ++i) keep_part(part, sum[i], row + i * 64, lane);
    cluster_sync();
    write_share(out, part, blockIdx.z, corner, threadIdx.x - 128);
    cluster_sync();
#else
#pragma unroll
    for (int i = 0; i < FRAGS_M; ++i)
      write_rows(out, sum[i], corner.m + row + i * 64, corner.n, lane);
#endif
  }
}
