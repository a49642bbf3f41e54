// Warp-specialised persistent GEMM for Hopper: C[M, N] = A[M, K] B[K, N] of 16-bit floats, accumulated in float32,
// where rows of B, and with BY_CLASS those of A, are not aligned to 16 bytes.
//
// TMA needs base addresses and strides that are multiples of 16 bytes. Rows whose indices differ by a multiple of 8
// have the same misalignment, so every eighth row, from an aligned address on, is a matrix with a tensor map (a class),
// and up to eight boxes load a tile's part of B.
//
// A block loops over tiles of TILE_M x TILE_N of C. Operands are swapped: rows of a wgmma are columns of C. The left
// operand, B transposed, comes from registers, which threads load from shared memory two or four bytes at a time. The
// right operand is A, from shared memory: with BY_CLASS a tile has rows of one class, and the elements before them in
// the first K tile are set to 0.
//
// PRODUCER_WARPS warps load K tiles of A and B by TMA into a pipeline of STAGES stages; each consumer warpgroup
// multiplies 64 columns of C. With split-K the blocks of a cluster multiply a range of K each, and reduce their partial
// sums (cluster_reduce.h). A stage has two mbarriers: `full`, completed when its loads have arrived, and `empty`,
// when all consumer warps have released it. Blocks of a cluster that have tiles of the same rows of C multicast a part of
// A each, and those of the same columns some boxes of B. No cluster barrier is needed at the end: all blocks have as
// many K tiles, consumers wait for all parts of all K tiles, and stages are released to other blocks only if they are
// refilled, which waits for all releases. So nothing is in flight to a block that has exited.
#define DEFINE_OWN_WGMMA(NAME, TRANSPOSES_RIGHT) \
  DEFINE_RS_WGMMA(NAME, TRANSPOSES_RIGHT, OWN_COLUMNS, TILE_M / 2, OWN_NAMES, OWN_SUMS, OWN_LEFT, OWN_RIGHT, OWN_ADD)
DEFINE_OWN_WGMMA(issue_wgmma, ", 0")

// Behind the maps of the classes are those with smaller boxes, for the last part of each.
__constant__ __align__(128) TensorMap a_maps[CLASSES * (1 + (LAST_PART < PART))] = {A_MAPS};

// Returns whether a tile has a row of A in bounds from this one on; the first tile of a cluster has its first row.
__device__ __forceinline__ bool has_row(const Tile& tile, int row_offset) {
  return (CLUSTER_M == 1 && row_offset == 0) || tile.row(row_offset) < M;
}

// Returns the blocks of the cluster that have tiles of the same rows, as a mask.
__device__ __forceinline__ unsigned blocks_of_rows() {
  unsigned blocks = 0;
#pragma unroll
  for (int i = 0; i < CLUSTER_N; ++i) blocks |= 1u << (down_in_cluster(blockIdx.x) + i * CLUSTER_M + first_of_range());
  return blocks;
}

// Returns the rank in the cluster of the number-th block with which this one exchanges operands: its column, then its
// row.
__device__ __forceinline__ unsigned multicast_peer(unsigned number) {
  const unsigned down = down_in_cluster(blockIdx.x), across = across_in_cluster(blockIdx.x), first = first_of_range();
  if (CLUSTER_N == 1 || number < CLUSTER_M) return first + across * CLUSTER_M + number;
  return first + (number - CLUSTER_M + (number - CLUSTER_M >= across)) * CLUSTER_M + down;
}

// Main loop of a producer warp; the first one loads A too.
__device__ __forceinline__ void produce_tiles(const SharedStorage& smem, const Item* a, const Item* b, int warp) {
  PipelineState state = {0, 1};
  const bool chosen = elect_one(), both = warp == 0;
  Boxes boxes = {{}, warp};
#pragma unroll 1
  for (unsigned number = blockIdx.x; number < TILES; number += gridDim.x) {
    const Tile tile = tile_of(number);
    if (!tile.exists()) continue;
    boxes.find(tile, b);
    // The rows of a class are a matrix that starts at the aligned address at or before the first of them.
    const Item* const matrix = a + static_cast<size_t>(tile.matrix) * A_STRIDE +
                               static_cast<size_t>(tile.row_class) * (BY_CLASS ? K : 0) - tile.shift;
    const int first = first_k_tile(), end = first + tile.k_tiles(), part = across_in_cluster(blockIdx.x) * PART;
    int of_a = 0;
#pragma unroll
    for (int i = 0; i < TILE_M; i += PART)
      of_a += both && has_row(tile, i) ? (is_last_part(tile, i) ? LAST_PART : PART) * CHUNK * 2 : 0;
    const TensorMap& map = a_maps[tile.row_class + (is_last_part(tile, part) ? CLASSES : 0)];
#pragma unroll 1
    for (int k_tile = first; k_tile < end; ++k_tile) {
      const unsigned full = smem.full + state.stage * 8, to = smem.stages + state.stage * STAGE_BYTES;
      barrier_wait(smem.empty + state.stage * 8, state.parity);
      if (chosen) {
        barrier_arrive_expect_tx(full, of_a + boxes.bytes(tile, k_tile));
        if (both && has_row(tile, part))
          tma_load<CLUSTER_N>(to + part * 128, map, matrix, k_tile * CHUNK, tile.first + part, full,
                              blocks_of_rows());
        boxes.copy(tile, k_tile, to + A_BYTES, full);
      }
      __syncwarp();
      state.next();
    }
  }
}

// Sets elements of the first step outside of `first` to `end` along K to 0.
__device__ __forceinline__ void mask_k(Left& left, int first, int end) {
#pragma unroll
  for (int word = 0; word < 4; ++word) {
    const int k = threadIdx.x % 4 * 2 + word / 2 * 8;
    left[0][word] &= (k >= first && k < end ? 0xffffu : 0u) | (k + 1 >= first && k + 1 < end ? 0xffff0000u : 0u);
  }
}

// Keeps the compiler from overwriting registers before the wgmma that read them are complete.
__device__ __forceinline__ void fence_left_operand(const Left& left) {
#ifndef AUTOTUNE_EMULATE
#pragma unroll
  for (int i = 0; i < CHUNK / DEPTH * 4; ++i) asm volatile("" ::"r"(left[i / 4][i % 4]) : "memory");
#endif
}

// Sets the `count` elements before the rows of a class to 0, so that they do not contribute to sums.
__device__ __forceinline__ void zero_prefix(unsigned stage, int count, ConsumerBarrier& consumers) {
  for (int row = static_cast<int>(threadIdx.x); row < TILE_M; row += CONSUMER_THREADS) {
    unsigned short* const to =
        static_cast<unsigned short*>(__cvta_shared_to_generic(stage + row * 128 + row % 8 * 16));
    for (int i = 0; i < count; ++i) to[i] = 0;
  }
  fence_proxy_async();
  consumers.sync();
}

struct Consumer {
  const SharedStorage& smem;
  PipelineState state, before;
  Lines lines;
  descriptor right;
  int refills;  // K tiles from the next on whose stages are refilled

  __device__ __forceinline__ void load(Left& left) {
    barrier_wait(smem.full + state.stage * 8, state.parity);
    lines.load(left, smem.stages + state.stage * STAGE_BYTES);
  }

  // Issues the wgmma of the first STEPS steps of a K tile, waits for those of the previous one, which read
  // `before_left`, and releases its stage.
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

  // Releases the stage of the previous K tile.
  __device__ __forceinline__ void release_stage() {
    const unsigned lane = threadIdx.x % 32;
    cluster_barrier_arrive<MULTICAST_PEERS>(
        smem.empty + before.stage * 8, multicast_peer(lane),
        lane < MULTICAST_PEERS && (MULTICAST_PEERS == 1 || refills > 0));
    if (MULTICAST_PEERS > 1) --refills;
  }

  // Main loop over the K tiles of a tile: while one is multiplied, the left operand of the next is loaded.
  __device__ __forceinline__ void mainloop(float (&sum)[WORDS], const Tile& tile) {
    const int from = first_k_tile(), behind = WHOLE_K_TILES - from;
    const int whole = SPLIT == 1 || behind < K_TILES ? behind : K_TILES;
    const bool remainder = tile.k_tiles() > whole;
    Left left, other;
    lines.find(tile, from == 0);
    load(left);
    if (MOST_BEFORE > 0) {
      mask_k(left, from == 0 ? tile.shift : 0, DEPTH);
      lines.find(tile, false);
    }
#pragma unroll 1
    for (int k_tile = 0; k_tile < whole - 1; k_tile += 2) {
      begin<CHUNK / DEPTH>(sum, left, other, k_tile == 0);
      load(other);
      begin<CHUNK / DEPTH>(sum, other, left, false);
      if (k_tile + 2 < whole || remainder) load(left);
    }
    if (whole % 2 > 0) {
      begin<CHUNK / DEPTH>(sum, left, other, whole == 1);
      if (remainder) load(other);
    }
    if (REMAINDER_STEPS > 0 && remainder) {
      if (!TRANSPOSE_B) {
        // The compiler would serialise all wgmma if their operands changed while they are in flight.
        wgmma_wait<0>();
        if (whole % 2 > 0) mask_k(other, 0, K + tile.shift - WHOLE_K_TILES * CHUNK);
        else mask_k(left, 0, K + tile.shift - WHOLE_K_TILES * CHUNK);
      }
      if (whole % 2 > 0) begin<REMAINDER_STEPS>(sum, other, left, false);
      else begin<REMAINDER_STEPS>(sum, left, other, whole == 0);
    }
    wgmma_wait<0>();
    fence_left_operand(left);
    fence_left_operand(other);
    fence_accumulators(sum);
    release_stage();
  }
};

// Offset of an element in a staging buffer. Where rows are aligned alike, the four words of a vector are rotated by one
// for every two rows, as lanes store columns a vector apart, which would conflict in banks.
constexpr bool SWIZZLED = BY_CLASS || N % 2 == 0;

__device__ __forceinline__ int staging_offset(int row, int column) {
  return row * PITCH + column / 8 * 16 + (column / 2 + SWIZZLED * (row / 2)) % 4 * 4 + column % 2 * 2;
}

// Offsets of a thread's two columns of a row in a staging buffer; they are stored as one word if that is aligned.
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

// Coalesced stores of staged rows to C: a thread stores one aligned vector of each of some rows, and one element before
// or after the whole vectors of each of others. Rows of a tile that differ by a multiple of 8 are aligned alike.
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

  // Undoes the rotation of a vector of one of the thread's rows, which is the same for all of them.
  __device__ __forceinline__ uint4 unswizzled(uint4 x) const {
    if (SWIZZLED && vector_row / 2 % 2) x = make_uint4(x.y, x.z, x.w, x.x);
    if (SWIZZLED && vector_row / 4 % 2) x = make_uint4(x.z, x.w, x.x, x.y);
    return x;
  }

  // Writes the rows of a staging buffer that are in bounds; the first is row `row_offset` of the tile.
  __device__ __forceinline__ void write(const Tile& tile, unsigned smem, int row_offset) const {
    const int rows = OWN_M - row_offset < BATCH_ROWS ? OWN_M - row_offset : BATCH_ROWS;
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

// Returns how many K tiles the block loads after this tile, or at least STAGES if these are more.
__device__ __forceinline__ int k_tiles_behind(unsigned number) {
  int k_tiles = 0;
#pragma unroll 1
  for (number += gridDim.x; number < TILES && k_tiles < STAGES; number += gridDim.x) {
    const Tile tile = tile_of(number);
    if (tile.exists()) k_tiles += tile.k_tiles();
  }
  return k_tiles;
}

// Consumer warpgroup: main loop and epilogue of its tiles.
__device__ __forceinline__ void consume_tiles(const SharedStorage& smem, EPILOGUE_PARAMETERS half_bits* __restrict__ out) {
  const int pair = threadIdx.x % 4 * 2;
  Consumer consumer = {smem, {0, 0}, {0, 0}, {}, make_descriptor(smem.stages, 0), 0};
  ConsumerBarrier consumers = {smem.consumers, 0};
  unsigned next_buffer = smem.results;
#pragma unroll 1
  for (unsigned number = blockIdx.x; number < TILES; number += gridDim.x) {
    Tile tile = tile_of(number);
    if (!tile.exists()) continue;
    if (tile.shift > 0 && first_k_tile() == 0) {
      barrier_wait(smem.full + consumer.state.stage * 8, consumer.state.parity);
      zero_prefix(smem.stages + consumer.state.stage * STAGE_BYTES, tile.shift, consumers);
    }
    if (MULTICAST_PEERS > 1) consumer.refills = tile.k_tiles() + k_tiles_behind(number) - STAGES;
    float sum[WORDS];
    consumer.mainloop(sum, tile);
    const size_t matrix = static_cast<size_t>(tile.matrix) * M * N;
#if CLUSTER_REDUCE
    float own[1][OWN_M / 2];
    reduce_in_cluster(own, reinterpret_cast<float (&)[1][WORDS]>(sum), smem.stages, smem.sent, threadIdx.x);
    float* const results = own[0];
    tile.first += static_cast<int>(blockIdx.z) * OWN_M;
#else
    float* const results = sum;
#endif
#if FOLLOWS
    const EpilogueArgs epilogue = {bias, RESIDUAL ? residual + matrix : residual, scale, shift};
#endif
    const Writer writer(out + matrix, tile);
    // Of a thread's two rows; rows of a tile that differ by a multiple of 8 are aligned alike.
    const Target targets[2] = {{tile, pair}, {tile, pair + 1}};
    const int swapped = Lines::swapped(tile);
#pragma unroll
    for (int row_offset = 0; row_offset < OWN_M; row_offset += BATCH_ROWS) {
#pragma unroll
      for (int j = 0; j < BATCH_ROWS; j += 8) {
        if (row_offset + j >= OWN_M) break;
        float* const quad = results + (row_offset + j) / 2;
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

#if CLUSTER_M * CLUSTER_N * SPLIT > 1
#define CLUSTER_DIMS __cluster_dims__(CLUSTER_M * CLUSTER_N, 1, SPLIT)
#else
#define CLUSTER_DIMS
#endif

extern "C" __global__ void CLUSTER_DIMS __launch_bounds__(THREADS, RESIDENT) gemm_unaligned(
    const Item* __restrict__ a, const Item* __restrict__ b, EPILOGUE_PARAMETERS half_bits* __restrict__ out) {
  extern __shared__ float4 shared_memory[];
  const SharedStorage smem = shared_storage_of(shared_memory);
  if (threadIdx.x / 32 == CONSUMER_THREADS / 32) {
    const int lane = threadIdx.x % 32;
    if (lane < LINE_CLASSES && MISALIGNMENTS == 1) prefetch_tensor_map(b_maps[lane]);
    if (lane < CLASSES) prefetch_tensor_map(a_maps[lane]);
  }
  if (threadIdx.x == 0) {
#pragma unroll
    for (int stage = 0; stage < STAGES; ++stage) {
      barrier_init(smem.full + stage * 8, PRODUCER_WARPS);
      barrier_init(smem.empty + stage * 8, MULTICAST_PEERS * GROUPS * 4);
    }
    barrier_init(smem.consumers, GROUPS * 4);
#if CLUSTER_REDUCE
    barrier_init(smem.sent, 1);
#endif
    fence_mbarrier_init();
#if CLUSTER_REDUCE
    barrier_arrive_expect_tx(smem.sent, (SPLIT - 1) * sent_bytes<1, WORDS>());
#endif
  }
  __syncthreads();
#if CLUSTER_M * CLUSTER_N * SPLIT > 1
  cluster_arrive();
  cluster_wait();
#endif
  if (threadIdx.x < CONSUMER_THREADS) {
    if (MOVE_REGISTERS) warpgroup_reg_alloc<CONSUMER_REGISTERS>();
    consume_tiles(smem, EPILOGUE_ARGUMENTS out);
  } else {
    if (MOVE_REGISTERS) warpgroup_reg_dealloc<PRODUCER_REGISTERS>();
    const int warp = __shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x - CONSUMER_THREADS) / 32, 0);
    if (warp < PRODUCER_WARPS) {
      // The previous kernel, if any, writes A, which the first of these warps loads: the others need not wait.
      if (warp == 0) wait_on_dependent_grids();
      produce_tiles(smem, a, b, warp);
    }
  }
}
