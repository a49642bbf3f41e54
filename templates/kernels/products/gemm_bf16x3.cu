// Warp-specialised GEMM of float32 on Hopper's tensor cores: C[M, N] = A[M, K] B[K, N], each operand the sum of three
// bfloat16 (pack_bf16x3.cu), whose nine products are exact; operands.h says how A and B are stored.
//
// Tensor cores truncate when they accumulate, so long sums would be too small. Here they accumulate over one K tile
// only, the small products first; its sums are then added to the total as floats, rounded to nearest.
//
// A block computes a tile of TILE_M x TILE_N of C over one of SPLIT ranges of K. One thread of the producer warpgroup
// copies K tiles of both operands by bulk copies into a pipeline of STAGES stages in shared memory; each consumer
// warpgroup multiplies 64 rows by all columns, PART_N at a time. A stage has two mbarriers: `full`, completed when its
// copies have arrived, and `empty`, when all consumer warps have released it. Blocks with a tile that was flagged when
// it was packed multiply floats by fmaf.
constexpr int GROUPS = THREADS / 128 - 1;
constexpr int PARTS = TILE_N / PART_N, WORDS = PART_N / 2;
constexpr int STAGE_BYTES = A_BYTES + B_BYTES;
constexpr int PRODUCER_REGISTERS = 40, CONSUMER_REGISTERS = 232;
constexpr bool WHOLE_M = M % TILE_M == 0, WHOLE_N = N % TILE_N == 0;

// PART_N columns, any multiple of 8: gemm_wgmma.py's `product_text` writes the list of operands.
#ifdef AUTOTUNE_EMULATE
#define issue_part issue_packed_wgmma
#else
DEFINE_WGMMA(issue_part, ", 0, 0", OWN_COLUMNS, WORDS, OWN_NAMES, OWN_SUMS, OWN_LEFT, OWN_RIGHT, OWN_ADD)
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
};

// Consumer warpgroups issue wgmma in turn, ordered by named barriers of 256 threads, one for each warpgroup: it waits
// there (bar.sync), and the other arrives when it has issued its own (bar.arrive).
#ifdef AUTOTUNE_EMULATE
static inline void order_wait(int) {}
static inline void order_arrive(int) {}
#else
__device__ __forceinline__ void order_wait(int group) {
  asm volatile("bar.sync %0, 256;" ::"r"(group + 1) : "memory");
}

__device__ __forceinline__ void order_arrive(int group) {
  asm volatile("bar.arrive %0, 256;" ::"r"(group + 1) : "memory");
}
#endif

struct SharedStorage {
  unsigned stages, full, empty;
};

struct Tile {
  int m, n;
};

// Rasterisation in bands of BAND tiles along M, so that concurrent tiles share rows and columns of the operands in L2.
__device__ __forceinline__ Tile tile_of(int number) {
  const int band = number / (BAND * BLOCKS_N), first = band * BAND;
  const int height = BLOCKS_M - first < BAND ? BLOCKS_M - first : BAND;
  const int inside = number - first * BLOCKS_N;
  return {first + inside % height, inside / height};
}

// Main loop of the producer; `a` and `b` are the first K tiles of this block.
__device__ __forceinline__ void produce(const SharedStorage& smem, const char* a, const char* b, bool copies) {
  PipelineState state = {0, 1};
#pragma unroll 1
  for (int k_tile = 0; k_tile < K_TILES; ++k_tile) {
    barrier_wait(smem.empty + state.stage * 8, state.parity);
    if (copies) {
      const unsigned stage = smem.stages + state.stage * STAGE_BYTES, full = smem.full + state.stage * 8;
      barrier_arrive_expect_tx(full, STAGE_BYTES);
      copy_bytes(stage, a + static_cast<size_t>(k_tile) * A_BYTES, A_BYTES, full);
      copy_bytes(stage + A_BYTES, b + static_cast<size_t>(k_tile) * B_BYTES, B_BYTES, full);
    }
    state.next();
  }
}

// Issues the wgmma of a K tile: the PRODUCTS largest of the nine products, in ascending order.
__device__ __forceinline__ void issue_k_tile(float (&sum)[WORDS], descriptor left, descriptor right) {
  constexpr int LEFT[9] = {2, 1, 2, 1, 0, 2, 0, 1, 0}, RIGHT[9] = {2, 2, 1, 1, 2, 0, 1, 0, 0};
  wgmma_fence();
#pragma unroll
  for (int i = 9 - PRODUCTS; i < 9; ++i)
#pragma unroll
    for (int k = 0; k < CHUNK; k += DEPTH)
      issue_part(sum, left + descriptor_offset(LEFT[i] * (A_BYTES / 3) + k * TILE_M * 2),
                   right + descriptor_offset(RIGHT[i] * (B_BYTES / 3) + k * TILE_N * 2), i > 9 - PRODUCTS || k > 0);
  wgmma_commit();
}

__device__ __forceinline__ void add_k_tile(float (&total)[WORDS], float (&sum)[WORDS]) {
  fence_accumulators(sum);
#pragma unroll
  for (int i = 0; i < WORDS; ++i) total[i] += sum[i];
}

// A consumer thread's position in the pipeline.
struct Reader {
  const SharedStorage& smem;
  int group, lane;
  PipelineState state;

  __device__ __forceinline__ void wait() const { barrier_wait(smem.full + state.stage * 8, state.parity); }
  __device__ __forceinline__ void free() const {
    if (lane == 0) barrier_arrive(smem.empty + state.stage * 8);
  }
};

// Main loop of a consumer. With IN_TURN the two warpgroups issue their K tiles in turn, so that one adds to its total
// while the wgmma of the other run.
__device__ __forceinline__ void mainloop(float (&total)[PARTS][WORDS], Reader reader) {
  const int group = reader.group, other = (group + 1) % GROUPS;
  const descriptor left = make_block_descriptor(reader.smem.stages + group * 64 * 16, TILE_M * 16);
  const descriptor right = make_block_descriptor(reader.smem.stages + A_BYTES, TILE_N * 16);
  float sum[WORDS];
  if (IN_TURN && group == GROUPS - 1) order_arrive(0);
#pragma unroll 1
  for (int k_tile = 0; k_tile < K_TILES; ++k_tile, reader.state.next()) {
    reader.wait();
    const descriptor stage = descriptor_offset(STAGE_BYTES) * static_cast<descriptor>(reader.state.stage);
#pragma unroll
    for (int part = 0; part < PARTS; ++part) {
      const bool last = k_tile == K_TILES - 1 && part == PARTS - 1;
      if (IN_TURN) order_wait(group);
      issue_k_tile(sum, left + stage, right + stage + descriptor_offset(part * PART_N * 16));
      if (IN_TURN && !(last && group == GROUPS - 1)) order_arrive(other);
      wgmma_wait<0>();
      if (part == PARTS - 1) reader.free();
      add_k_tile(total[part], sum);
    }
  }
}

// The same sums by fmaf, where the pieces do not add up to the operands.
__device__ __forceinline__ void multiply_fmaf(
    float (&total)[PARTS][WORDS], const float* __restrict__ a, const float* __restrict__ b, int m, int n, int k,
    int k_end) {
  const float* left[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = m + half * 8 < M ? m + half * 8 : M - 1;
    left[half] = a + (TRANSPOSE_A ? row : static_cast<size_t>(row) * K);
  }
#pragma unroll 1
  for (; k < k_end; ++k) {
    const size_t at = TRANSPOSE_A ? static_cast<size_t>(k) * M : k;
    const float upper = left[0][at], lower = left[1][at];
#pragma unroll
    for (int i = 0; i < PARTS * WORDS / 2; ++i) {
      const int part = i / (WORDS / 2), j = i % (WORDS / 2);
      int column = n + part * PART_N + j / 2 * 8 + j % 2;
      if (!WHOLE_N) column = column < N ? column : N - 1;
      const float right = b[TRANSPOSE_B ? static_cast<size_t>(column) * K + k : static_cast<size_t>(k) * N + column];
      float* const sums = total[part] + j / 2 * 4 + j % 2;
      sums[0] = fmaf(upper, right, sums[0]);
      sums[2] = fmaf(lower, right, sums[2]);
    }
  }
}

#if FOLLOWS
#define FINISH(low, high, n, at) finish_pair(low, high, epilogue, n, at)
#else
#define FINISH(low, high, n, at)
#endif

// Writes a thread's sums, the first at row m and column n.
__device__ __forceinline__ void write_sums(
    float* __restrict__ out, float (&sum)[WORDS], int m, int n, const EpilogueArgs& epilogue) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = m + half * 8;
    if (!WHOLE_M && row >= M) continue;
#pragma unroll
    for (int j = 0; j < WORDS / 4; ++j) {
      const int column = n + j * 8;
      if (!WHOLE_N && column >= N) continue;
      float &low = sum[j * 4 + half * 2], &high = sum[j * 4 + half * 2 + 1];
      const size_t at = static_cast<size_t>(row) * N + column;
      FINISH(low, high, column, at);
      write_floats(out, at, column, low, high);
    }
  }
}

#if SPLIT > 1
// Split-K within a cluster: each block stores its partial sums of the tile over the pipeline's buffers, and reduces its
// share of the rows through distributed shared memory.
constexpr int PART_PITCH = TILE_N + 8, SHARE = TILE_M / SPLIT;
constexpr int VECTOR_N = N % 4 == 0 ? 4 : N % 2 == 0 ? 2 : 1;
static_assert(TILE_M * PART_PITCH * 4 <= STAGES * STAGE_BYTES, "the partial sums exceed the pipeline's buffers");

__device__ __forceinline__ void store_sums(float* part, const float (&sum)[WORDS]) {
#pragma unroll
  for (int half = 0; half < 2; ++half)
#pragma unroll
    for (int j = 0; j < WORDS / 4; ++j)
      store_vector<2>(part + half * 8 * PART_PITCH + j * 8, sum + j * 4 + half * 2);
}

// Sums four neighbours at the same shared-memory offset of all blocks.
__device__ __forceinline__ void add_parts_of_cluster(float (&total)[4], const float* own) {
  float part[SPLIT][4];
#pragma unroll
  for (int rank = 0; rank < SPLIT; ++rank)
    asm volatile(
        "{ .reg .u32 remote;\n"
        "mapa.shared::cluster.u32 remote, %4, %5;\n"
        "ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [remote]; }"
        : "=f"(part[rank][0]), "=f"(part[rank][1]), "=f"(part[rank][2]), "=f"(part[rank][3])
        : "r"(shared_address(own)), "r"(rank)
        : "memory");
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    total[i] = part[0][i];
#pragma unroll
    for (int rank = 1; rank < SPLIT; ++rank) total[i] += part[rank][i];
  }
}

__device__ __forceinline__ void write_share(
    float* __restrict__ out, const float* part, int rank, int m0, int n0, int tid, const EpilogueArgs& epilogue) {
  constexpr int VECTORS = TILE_N / 4;
#pragma unroll 4
  for (int i = tid; i < SHARE * VECTORS; i += GROUPS * 128) {
    const int row = rank * SHARE + i / VECTORS, column = i % VECTORS * 4;
    float total[4];
    add_parts_of_cluster(total, part + row * PART_PITCH + column);
    const int m = m0 + row, n = n0 + column;
    if ((!WHOLE_M && m >= M) || (!WHOLE_N && n >= N)) continue;
    const size_t at = static_cast<size_t>(m) * N + n;
#pragma unroll
    for (int v = 0; v < 4; v += VECTOR_N) {
      if (!WHOLE_N && n + v >= N) continue;
      float values[VECTOR_N];
#pragma unroll
      for (int w = 0; w < VECTOR_N; ++w) values[w] = total[v + w];
#if FOLLOWS
      finish<1>(values, epilogue, n + v, at + v);
#endif
      store_vector<VECTOR_N>(out + at + v, values);
    }
  }
}
#endif

extern "C" __global__ void CLUSTER_SHAPE __launch_bounds__(THREADS, 1) gemm_bf16x3(
    const char* __restrict__ packed_a, const char* __restrict__ packed_b, const int* __restrict__ flags,
    const float* __restrict__ a, const float* __restrict__ b, EPILOGUE_PARAMETERS float* __restrict__ out) {
  extern __shared__ float4 shared_memory[];
  SharedStorage smem;
  smem.stages = shared_address(shared_memory);
  smem.full = smem.stages + STAGES * STAGE_BYTES;
  smem.empty = smem.full + STAGES * 8;
  if (threadIdx.x == 0) {
    for (int stage = 0; stage < STAGES; ++stage) {
      barrier_init(smem.full + stage * 8, 1);
      barrier_init(smem.empty + stage * 8, GROUPS * 4);
    }
    fence_proxy_async();
  }
  const int which = blockIdx.x / (BLOCKS_M * BLOCKS_N);
  const Tile tile = tile_of(blockIdx.x % (BLOCKS_M * BLOCKS_N));
  // The first of its K tiles in the packed operands, and their flags.
  const int a_first = (((A_COUNT > 1) * which * BLOCKS_M + tile.m) * SPLIT + blockIdx.z) * K_TILES;
  const int b_first = (((B_COUNT > 1) * which * BLOCKS_N + tile.n) * SPLIT + blockIdx.z) * K_TILES;
  __syncthreads();
  wait_on_dependent_grids();

  // Broadcast by the first lane, it is uniform to the compiler, as are descriptors that depend on it.
  const int group = __shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x) / 128, 0), lane = threadIdx.x % 32;
  if (group == 0) {
    warpgroup_reg_dealloc<PRODUCER_REGISTERS>();
    if (threadIdx.x < 32)
      produce(smem, packed_a + static_cast<size_t>(a_first) * A_BYTES,
                packed_b + static_cast<size_t>(b_first) * B_BYTES, lane == 0);
#if SPLIT > 1
    __syncwarp();
    for (int i = 0; i < 3; ++i) cluster_sync();
#endif
  } else {
    warpgroup_reg_alloc<CONSUMER_REGISTERS>();
    bool flagged = false;
    for (int k_tile = lane; k_tile < K_TILES; k_tile += 32)
      flagged |= flags[a_first + k_tile] | flags[A_COUNT * BLOCKS_M * SPLIT * K_TILES + b_first + k_tile];
    const int row = (group - 1) * 64 + threadIdx.x / 32 % 4 * 16 + lane / 4, column = lane % 4 * 2;
    const int m = tile.m * TILE_M + row, n = tile.n * TILE_N + column;
    float total[PARTS][WORDS];
#pragma unroll
    for (int part = 0; part < PARTS; ++part)
#pragma unroll
      for (int i = 0; i < WORDS; ++i) total[part][i] = 0.0f;
    Reader reader = {smem, group - 1, lane, {0, 0}};
    if (__any_sync(0xffffffffu, flagged)) {
      for (int k_tile = 0; k_tile < K_TILES; ++k_tile, reader.state.next()) reader.wait(), reader.free();
      const int k = blockIdx.z * K_TILES * CHUNK, k_end = k + K_TILES * CHUNK < K ? k + K_TILES * CHUNK : K;
      multiply_fmaf(total, a + static_cast<size_t>(which) * A_STRIDE, b + static_cast<size_t>(which) * B_STRIDE,
                       m, n, k, k_end);
    } else {
      mainloop(total, reader);
    }
    const size_t matrix = static_cast<size_t>(which) * M * N;
    out += matrix;
#if FOLLOWS
    const EpilogueArgs epilogue = {bias, RESIDUAL ? residual + matrix : residual, scale, shift};
#else
    const EpilogueArgs epilogue = {};
#endif
#if SPLIT > 1
    float* const part = reinterpret_cast<float*>(shared_memory);
    cluster_sync();
#pragma unroll
    for (int i = 0; i < PARTS; ++i) store_sums(part + row * PART_PITCH + column + i * PART_N, total[i]);
    cluster_sync();
    write_share(out, part, blockIdx.z, tile.m * TILE_M, tile.n * TILE_N, threadIdx.x - 128, epilogue);
    cluster_sync();
#else
#pragma unroll
    for (int i = 0; i < PARTS; ++i) write_sums(out, total[i], m, n + i * PART_N, epilogue);
#endif
  }
}
