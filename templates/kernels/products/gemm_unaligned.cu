// C[M, N] = A[M, K] B[K, N] of 16-bit floats on Hopper's tensor cores, sums in float32, where rows of B, and with BY_CLASS
// those of A, begin anywhere in memory.
//
// Boxes of TMA are aligned to 16 bytes. Rows that are a multiple of 8 apart begin as far behind
// one as one another, so every eighth row is a matrix that has boxes, and eight boxes bring a tile's part of B.
//
// A block owns tiles of TILE_M x TILE_N of C. What it multiplies is turned: rows of products are columns of C. Their
// left operand, B turned, comes from registers, which threads load from shared memory two or four bytes at a time,
// wherever boxes have put it. The right operand is A, which products read themselves: with BY_CLASS tiles have rows of
// one class, and what stands before them in a first box is set to 0.
//
// COPIERS warps have K tiles of A and B copied into a pipeline of STAGES stages. The others multiply: four 64 columns of C.
// Each stage has two barriers: `full` when all copies into it have arrived, `empty` when all warps are done.
// CLUSTER_N blocks of a cluster have tiles of the same rows of C, and copy a part of A each for both. They have as many
// K tiles as one another, and a block waits for whatever another sends: for the parts of all K tiles, and that a stage is
// free, which is told only where another K tile is copied into it. So each may end when it is done.
#define DEFINE_OWN_WGMMA(NAME, TRANSPOSES_RIGHT) \
  DEFINE_RS_WGMMA(NAME, TRANSPOSES_RIGHT, OWN_COLUMNS, TILE_M / 2, OWN_NAMES, OWN_SUMS, OWN_LEFT, OWN_RIGHT, OWN_ADD)
DEFINE_OWN_WGMMA(issue_wgmma, ", 0")

__constant__ __align__(128) TensorMap a_maps[CLASSES] = {A_MAPS};
// What a producer warp does, the first of which copies A too.
__device__ __forceinline__ void produce_tiles(const SharedStorage& smem, const Item* a, const Item* b, int warp) {
  PipelineState state = {0, 1};
  const bool chosen = elect_one(), both = warp == 0;
  Boxes boxes = {{}, warp};
#pragma unroll 1
  for (unsigned number = blockIdx.x; number < TILES; number += gridDim.x) {
    const Tile tile = tile_of(number);
    if (!tile.exists()) continue;
    boxes.find(tile, b);
    // Rows of a class are a matrix that begins at the multiple of 16 bytes before the first of them.
    const Item* const matrix = a + static_cast<size_t>(tile.matrix) * A_STRIDE +
                               static_cast<size_t>(tile.row_class) * (BY_CLASS ? K : 0) - tile.shift;
    const int k_tiles = tile.k_tiles(), part = CLUSTER_N > 1 ? blockIdx.x % CLUSTER_N * PART : 0;
    int of_a = 0;
#pragma unroll
    for (int i = 0; i < TILE_M; i += PART) of_a += both && (i == 0 || tile.row(i) < M) ? PART * CHUNK * 2 : 0;
#pragma unroll 1
    for (int k_tile = 0; k_tile < k_tiles; ++k_tile) {
      const unsigned full = smem.full + state.stage * 8, to = smem.stages + state.stage * STAGE_BYTES;
      barrier_wait(smem.empty + state.stage * 8, state.parity);
      if (chosen) {
        barrier_arrive_expect_tx(full, of_a + boxes.bytes(tile, k_tile));
        if (both && (part == 0 || tile.row(part) < M))
          tma_load<CLUSTER_N>(to + part * 128, a_maps[tile.row_class], matrix, k_tile * CHUNK, tile.first + part, full);
        boxes.copy(tile, k_tile, to + A_BYTES, full);
      }
      __syncwarp();
      state.next();
    }
  }
}

// Sets all numbers but those from `first` up to `end` along K of a first step to 0.
__device__ __forceinline__ void mask_k(Left& left, int first, int end) {
#pragma unroll
  for (int word = 0; word < 4; ++word) {
    const int k = threadIdx.x % 4 * 2 + word / 2 * 8;
    left[0][word] &= (k >= first && k < end ? 0xffffu : 0u) | (k + 1 >= first && k + 1 < end ? 0xffff0000u : 0u);
  }
}

// Keeps registers as they are until products that read them are done.
__device__ __forceinline__ void fence_left_operand(const Left& left) {
#ifndef AUTOTUNE_EMULATE
#pragma unroll
  for (int i = 0; i < CHUNK / DEPTH * 4; ++i) asm volatile("" ::"r"(left[i / 4][i % 4]) : "memory");
#endif
}

// Sets what stands before the rows of a class to 0.
__device__ __forceinline__ void zero_prefix(unsigned stage, int count, ConsumerBarrier& consumers) {
  for (int row = static_cast<int>(threadIdx.x); row < TILE_M; row += CONSUMER_THREADS) {
    unsigned short* const to =
        static_cast<unsigned short*>(__cvta_shared_to_generic(stage + row * 128 + row % 8 * 16));
    for (int i = 0; i < count; ++i) to[i] = 0;
  }
  wgmma_proxy_fence();
  consumers.sync();
}

struct Consumer {
  const SharedStorage& smem;
  PipelineState state, before;
  Lines lines;
  descriptor right;
  int refills;  // How many K tiles from the next on leave stages that are filled again.

  __device__ __forceinline__ void load(Left& left) {
    barrier_wait(smem.full + state.stage * 8, state.parity);
    lines.load(left, smem.stages + state.stage * STAGE_BYTES);
  }

  // Issues the wgmma of a K tile, or of its first DEPTHS along K, whose left operand is there, and waits for those of
  // the K tile before, which read `before_left`.
  template <int STEPS>
  __device__ __forceinline__ void begin(float (&sum)[WORDS], const Left& left, const Left& before_left, bool first) {
    wgmma_fence();
    const descriptor stage = right + descriptor_offset(STAGE_BYTES) * static_cast<descriptor>(state.stage);
#pragma unroll
    for (int i = 0; i < STEPS; ++i)
      issue_wgmma(sum, left[i], stage + descriptor_offset(i * DEPTH * 2), !first || i > 0);
    wgmma_commit();
    if (!first) {
      wgmma_wait<1>();
      fence_left_operand(before_left);
      release_stage();
    }
    before = state;
    state.next();
  }

  // Says that a warp is done with the K tile before.
  __device__ __forceinline__ void release_stage() {
    const unsigned lane = threadIdx.x % 32;
    cluster_barrier_arrive<CLUSTER_N>(
        smem.empty + before.stage * 8, lane, lane < CLUSTER_N && (CLUSTER_N == 1 || refills > 0));
    if (CLUSTER_N > 1) --refills;
  }

  // Multiplies the K tiles of a tile: while one is multiplied, the left operand of the next is loaded.
  __device__ __forceinline__ void mainloop(float (&sum)[WORDS], const Tile& tile) {
    const bool remainder = tile.k_tiles() > WHOLE_K_TILES;
    Left left, other;
    lines.find(tile, true);
    load(left);
    if (MOST_BEFORE > 0) {
      mask_k(left, tile.shift, DEPTH);
      lines.find(tile, false);
    }
#pragma unroll 1
    for (int k_tile = 0; k_tile < WHOLE_K_TILES - 1; k_tile += 2) {
      begin<CHUNK / DEPTH>(sum, left, other, k_tile == 0);
      load(other);
      begin<CHUNK / DEPTH>(sum, other, left, false);
      if (k_tile + 2 < WHOLE_K_TILES || remainder) load(left);
    }
    if (WHOLE_K_TILES % 2 > 0) {
      begin<CHUNK / DEPTH>(sum, left, other, WHOLE_K_TILES == 1);
      if (remainder) load(other);
    }
    if (REMAINDER_STEPS > 0 && remainder) {
      if (!TRANSPOSE_B) {
        // The compiler has products wait for one another where operands change before those begun are done.
        wgmma_wait<0>();
        mask_k(WHOLE_K_TILES % 2 > 0 ? other : left, 0, K + tile.shift - WHOLE_K_TILES * CHUNK);
      }
      if (WHOLE_K_TILES % 2 > 0) begin<REMAINDER_STEPS>(sum, other, left, false);
      else begin<REMAINDER_STEPS>(sum, left, other, WHOLE_K_TILES == 0);
    }
    wgmma_wait<0>();
    fence_left_operand(left);
    fence_left_operand(other);
    fence_accumulators(sum);
    release_stage();
  }
};

// Where a room has a number of a row. Where rows begin alike, the four words of a vector are turned from every second
// row to the next, so that lanes, whose columns are a vector apart, do not meet in a bank.
constexpr bool SWIZZLED = BY_CLASS || N % 2 == 0;

__device__ __forceinline__ int staging_offset(int row, int column) {
  return row * PITCH + column / 8 * 16 + (column / 2 + SWIZZLED * (row / 2)) % 4 * 4 + column % 2 * 2;
}

// Where a thread puts its two columns of a row: as a pair if the first is aligned to 4 bytes.
struct Target {
  unsigned first, second;
  bool pair;

  __device__ __forceinline__ Target(const Tile& tile, int row) {
    const int column = Lines::column() + tile.shift_of_result(tile.row(row));
    first = staging_offset(row, column), second = staging_offset(row, column + 1), pair = column % 2 == 0;
  }

  __device__ __forceinline__ void put(unsigned smem, unsigned numbers) const {
    if (pair) {
      *static_cast<unsigned*>(__cvta_shared_to_generic(smem + first)) = numbers;
    } else {
      *static_cast<unsigned short*>(__cvta_shared_to_generic(smem + first)) = static_cast<unsigned short>(numbers);
      *static_cast<unsigned short*>(__cvta_shared_to_generic(smem + second)) = static_cast<unsigned short>(numbers >> 16);
    }
  }
};

// What a thread writes of rows of C: one vector of each of some rows, where it is whole, and one number before or
// behind the whole vectors of each of others. Rows of a tile that are a multiple of 8 apart begin alike.
struct Writer {
  static constexpr int AT_ONCE = 16, EDGES = 16, EDGES_AT_ONCE = CONSUMER_THREADS / EDGES;
  half_bits *vectors, *edges;
  int vector_row, edge_row, vector_from, edge_from;
  bool whole, edge;

  __device__ __forceinline__ Writer(half_bits* out, const Tile& tile) {
    const int thread = threadIdx.x, columns = N - tile.n < TILE_N ? N - tile.n : TILE_N;
    const int vector = thread % (TILE_N / 8), number = thread % EDGES;
    vector_row = thread / (TILE_N / 8), edge_row = thread / EDGES;
    const int shift = tile.shift_of_result(tile.row(vector_row)), column = vector * 8 - shift;
    whole = column >= 0 && column + 8 <= columns;
    vectors = out + static_cast<size_t>(tile.row(vector_row)) * N + tile.n + column;
    vector_from = vector_row * PITCH + vector * 16;
    const int edge_shift = tile.shift_of_result(tile.row(edge_row)), end = edge_shift + columns;
    const int row_offset = number < 8 ? number : end / 8 * 8 + number - 8;
    edge = number < 8 ? edge_shift > 0 && row_offset >= edge_shift && row_offset < end
                      : row_offset < end && (end >= 8 || edge_shift == 0);
    edges = out + static_cast<size_t>(tile.row(edge_row)) * N + tile.n + row_offset - edge_shift;
    edge_from = staging_offset(edge_row, row_offset);
  }

  // Returns a vector of one of the thread's rows, which all have turned words alike.
  __device__ __forceinline__ uint4 unswizzled(uint4 x) const {
    if (SWIZZLED && vector_row / 2 % 2) x = make_uint4(x.y, x.z, x.w, x.x);
    if (SWIZZLED && vector_row / 4 % 2) x = make_uint4(x.z, x.w, x.x, x.y);
    return x;
  }

  // Writes those rows of a room that exist, the first of which is at `row_offset` of the tile.
  __device__ __forceinline__ void write(const Tile& tile, unsigned smem, int row_offset) const {
    const int rows = TILE_M - row_offset < BATCH_ROWS ? TILE_M - row_offset : BATCH_ROWS;
#pragma unroll
    for (int i = 0; i < BATCH_ROWS; i += AT_ONCE)
      if (whole && vector_row + i < rows && tile.row(row_offset + vector_row + i) < M)
        *reinterpret_cast<uint4*>(vectors + static_cast<size_t>(row_offset + i) * CLASSES * N) =
            unswizzled(*static_cast<const uint4*>(__cvta_shared_to_generic(smem + vector_from + i * PITCH)));
#pragma unroll
    for (int i = 0; i < BATCH_ROWS; i += EDGES_AT_ONCE)
      if (edge && edge_row + i < rows && tile.row(row_offset + edge_row + i) < M)
        edges[static_cast<size_t>(row_offset + i) * CLASSES * N] =
            *static_cast<const half_bits*>(__cvta_shared_to_generic(smem + edge_from + i * PITCH));
  }
};

// Returns how many K tiles follow a tile in a block's walk, or at least STAGES.
__device__ __forceinline__ int k_tiles_behind(unsigned number) {
  int k_tiles = 0;
#pragma unroll 1
  for (number += gridDim.x; number < TILES && k_tiles < STAGES; number += gridDim.x) {
    const Tile tile = tile_of(number);
    if (tile.exists()) k_tiles += tile.k_tiles();
  }
  return k_tiles;
}

// What a consumer warpgroup does.
__device__ __forceinline__ void consume_tiles(const SharedStorage& smem, EPILOGUE_PARAMETERS half_bits* __restrict__ out) {
  const int pair = threadIdx.x % 4 * 2;
  Consumer consumer = {smem, {0, 0}, {0, 0}, {}, make_descriptor(smem.stages, 0), 0};
  ConsumerBarrier consumers = {smem.consumers, 0};
  unsigned next_buffer = smem.results;
#pragma unroll 1
  for (unsigned number = blockIdx.x; number < TILES; number += gridDim.x) {
    const Tile tile = tile_of(number);
    if (!tile.exists()) continue;
    if (tile.shift > 0) {
      barrier_wait(smem.full + consumer.state.stage * 8, consumer.state.parity);
      zero_prefix(smem.stages + consumer.state.stage * STAGE_BYTES, tile.shift, consumers);
    }
    if (CLUSTER_N > 1) consumer.refills = tile.k_tiles() + k_tiles_behind(number) - STAGES;
    float sum[WORDS];
    consumer.mainloop(sum, tile);
    const size_t matrix = static_cast<size_t>(tile.matrix) * M * N;
#if FOLLOWS
    const EpilogueArgs epilogue = {bias, RESIDUAL ? residual + matrix : residual, scale, shift};
#endif
    const Writer writer(out + matrix, tile);
    // Of the first row of a thread and the second; those that are a multiple of 8 apart in a tile begin alike.
    const Target targets[2] = {{tile, pair}, {tile, pair + 1}};
    const int swapped = Lines::swapped(tile);
#pragma unroll
    for (int row_offset = 0; row_offset < TILE_M; row_offset += BATCH_ROWS) {
#pragma unroll
      for (int j = 0; j < BATCH_ROWS; j += 8) {
        if (row_offset + j >= TILE_M) break;
        float* const quad = sum + (row_offset + j) / 2;
#pragma unroll
        for (int v = 0; v < 4; ++v) {
#if FOLLOWS
          const int m = tile.row(row_offset + j + pair + v % 2), n = tile.n + Lines::column() + (v / 2 ^ swapped);
          if (m < M && n < N) {
            float one[1] = {quad[v]};
            finish<1>(one, epilogue, n, static_cast<size_t>(m) * N + n);
            quad[v] = one[0];
          }
#endif
          quad[v] = last_step(quad[v]);
        }
#pragma unroll
        for (int row = 0; row < 2; ++row) {
          const unsigned numbers = pack_pair(quad[row], quad[row + 2]);
          targets[row].put(next_buffer + j * PITCH, swapped ? numbers << 16 | numbers >> 16 : numbers);
        }
      }
      consumers.sync();
      writer.write(tile, next_buffer, row_offset);
      next_buffer = next_buffer == smem.results ? smem.results + BUFFER_BYTES : smem.results;
    }
  }
}

#if FOLLOWS
#define EPILOGUE_ARGUMENTS bias, residual, scale, shift,
#else
#define EPILOGUE_ARGUMENTS
#endif

#if CLUSTER_N > 1
#define CLUSTER_DIMS __cluster_dims__(CLUSTER_N, 1, 1)
#else
#define CLUSTER_DIMS
#endif

extern "C" __global__ void CLUSTER_DIMS __launch_bounds__(THREADS, RESIDENT) gemm_unaligned(
    const Item* __restrict__ a, const Item* __restrict__ b, EPILOGUE_PARAMETERS half_bits* __restrict__ out) {
  extern __shared__ float4 shared_memory[];
  const SharedStorage smem = shared_storage_of(shared_memory);
  if (threadIdx.x / 32 == CONSUMER_THREADS / 32) {
    const int lane = threadIdx.x % 32;
    if (lane < LINE_CLASSES && PLACES == 1) prefetch_tensor_map(b_maps[lane]);
    if (lane < CLASSES) prefetch_tensor_map(a_maps[lane]);
  }
  if (threadIdx.x == 0) {
#pragma unroll
    for (int stage = 0; stage < STAGES; ++stage) {
      barrier_init(smem.full + stage * 8, PRODUCER_WARPS);
      barrier_init(smem.empty + stage * 8, CLUSTER_N * GROUPS * 4);
    }
    barrier_init(smem.consumers, GROUPS * 4);
    fence_barrier_init();
  }
  __syncthreads();
#if CLUSTER_N > 1
  cluster_sync_relaxed();
#endif
  if (threadIdx.x < CONSUMER_THREADS) {
    if (MOVE_REGISTERS) warpgroup_reg_alloc<SUM_REGISTERS>();
    consume_tiles(smem, EPILOGUE_ARGUMENTS out);
  } else {
    if (MOVE_REGISTERS) warpgroup_reg_dealloc<COPY_REGISTERS>();
    const int warp = __shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x - CONSUMER_THREADS) / 32, 0);
    if (warp < PRODUCER_WARPS) {
      // The kernel before, if any, copies A, which the first of these warps has brought: the others need not wait.
      if (warp == 0) wait_on_dependent_grids();
      produce_tiles(smem, a, b, warp);
    }
  }
}
