// Warp-specialised GEMM for Hopper: C[M, N] = A[M, K] B[K, N] of 16-bit floats, or of floats as TF32, accumulated in
// float32; operands.h says how A and B are stored. With INT8 each 16-bit item holds two 8-bit integers, K counts items,
// and C and the accumulators are int32. C has C_M rows and C_N columns.
//
// A block computes a tile of TILE_M x TILE_N of C over one of SPLIT ranges of K; with a SCHEDULE it is persistent,
// and a block loops over tiles. One thread of the producer warpgroup loads K tiles of A and B by TMA
// into a pipeline of STAGES stages in shared memory; each consumer warpgroup multiplies FRAGS_M * 64 rows of a tile by
// all its columns (wgmma). A stage has two mbarriers: `full`, completed when its TMA loads have arrived, and `empty`,
// when all consumer warps have released it. With SCHEDULE 2 two consumers of GROUPS warpgroups alternate between tiles
// (ping-pong): one runs its epilogue while the other runs its main loop. Clusters are CLUSTER_M x CLUSTER_N tiles: each
// block loads a part of B for the blocks of its column and a part of A for those of its row (multicast). With SPLIT,
// partial sums are written as threads hold them and reduced by gemm_tma_reduce.cu, or within a cluster
// (CLUSTER_REDUCE). With SWAP_AB the kernel computes the transposed product: M and N are the columns and rows of C, C_M
// and C_N stay.
//
// Blocks of a cluster write to each other's shared memory, which lives until the block exits, yet no cluster barrier is
// needed at the end: all blocks have as many tiles and K tiles, and a remote write is either a part of a K tile or a
// release of a stage. Consumers wait for all parts of all K tiles, and stages are released to other blocks only if they
// are refilled, which waits for all releases. So nothing is in flight to a block that has exited.

// Byte offset, within an operand's stage of TILE rows or columns, of row or column `across` at index `k` along K.
template <bool ALONG_K, int TILE>
__device__ __forceinline__ constexpr int bytes_to(int across, int k) {
  return ALONG_K ? k / PANEL * TILE * 128 + k % PANEL * static_cast<int>(sizeof(Item)) + across * 128
                 : across / PANEL * CHUNK * 128 + across % PANEL * static_cast<int>(sizeof(Item)) + k * 128;
}

// Returns which of JOINED groups has the item at index `k` of a K tile, and its row in B.
__device__ __forceinline__ constexpr int group_of(int k) { return k % PANEL / (PANEL / JOINED); }
__device__ __forceinline__ constexpr int row_of(int k) {
  return JOINED == 1 ? k : k / PANEL * (PANEL / JOINED) + k % (PANEL / JOINED);
}

#if A_FROM_REGISTERS && INT8
// Address of the vector whose address a thread passes to ldmatrix, which transposes pairs of integers: 16 neighbours at
// one place along K, in a panel with a row for each place.
typedef unsigned LeftOperand;

__device__ __forceinline__ LeftOperand left_operand(unsigned stages, int group) {
  const int row = group * FRAGS_M * 64 + threadIdx.x / 32 % 4 * 16, k = place_across(threadIdx.x % 32);
  // Of two fragments of a warpgroup the second is half a row further.
  return stages + row / 128 * (CHUNK * 256) + k * 128 + (row % 128 / 16 ^ k % 8) * 16;
}

// Issues the wgmma of K items FROM to TO of a K tile, A from registers.
template <int FROM, int TO>
__device__ __forceinline__ void issue_wgmmas(
    Sum (&sum)[FRAGS_M][WORDS], LeftOperand left, descriptor right, bool add) {
  constexpr int STEPS = (TO - FROM) / DEPTH;
  unsigned words[STEPS][FRAGS_M][4];
#pragma unroll
  for (int step = 0; step < STEPS; ++step)
#pragma unroll
    for (int i = 0; i < FRAGS_M; ++i)
      load_left_across(words[step][i], (left ^ i * 64) + (FROM + step * DEPTH) * 256, threadIdx.x % 32);
  wgmma_fence();
#pragma unroll
  for (int step = 0; step < STEPS; ++step)
#pragma unroll
    for (int i = 0; i < FRAGS_M; ++i)
      issue_wgmma(sum[i], words[step][i],
                  right + descriptor_offset(bytes_to<B_ALONG_K, TILE_N>(0, FROM + step * DEPTH)), add || FROM + step > 0);
}
#elif A_FROM_REGISTERS
// Address of a thread's words of the left operand, stored with one row of a panel for each k. wgmma takes items k and k
// + 4 of each 8; every other four lanes load the latter first, which avoids bank conflicts.
typedef unsigned LeftOperand;

__device__ __forceinline__ unsigned load_shared(unsigned at) {
#ifdef AUTOTUNE_EMULATE
  return *static_cast<const unsigned*>(__cvta_shared_to_generic(at));
#else
  unsigned word;
  asm volatile("ld.shared.b32 %0, [%1];" : "=r"(word) : "r"(at) : "memory");
  return word;
#endif
}

__device__ __forceinline__ LeftOperand left_operand(unsigned stages, int group) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4, k = lane % 4 + lane / 16 * 4;
  const int column = warp % 2 * 16 + lane / 4;
  return stages + bytes_to<A_ALONG_K, TILE_M>(group * FRAGS_M * 64 + warp / 2 * 32, k) + (column * 4 ^ k * 16);
}

// Issues the wgmma of K items FROM to TO of a K tile, A from registers.
template <int FROM, int TO>
__device__ __forceinline__ void issue_wgmmas(
    Sum (&sum)[FRAGS_M][WORDS], LeftOperand left, descriptor right, bool add) {
  constexpr int STEPS = (TO - FROM) / DEPTH;
  unsigned words[STEPS][FRAGS_M][4];
  const bool later_first = threadIdx.x % 32 >= 16;
#pragma unroll
  for (int step = 0; step < STEPS; ++step)
#pragma unroll
    for (int i = 0; i < FRAGS_M; ++i) {
      const unsigned at = bytes_to<A_ALONG_K, TILE_M>(i * 64, FROM + step * DEPTH);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const unsigned first = load_shared((left ^ half * 32) + at);
        const unsigned second = load_shared((left ^ half * 32 ^ (4 * 128 + 4 * 16)) + at);
        words[step][i][half] = later_first ? second : first, words[step][i][2 + half] = later_first ? first : second;
      }
    }
  wgmma_fence();
#pragma unroll
  for (int step = 0; step < STEPS; ++step)
#pragma unroll
    for (int i = 0; i < FRAGS_M; ++i)
      issue_wgmma(sum[i], words[step][i],
                  right + descriptor_offset(bytes_to<B_ALONG_K, TILE_N>(0, FROM + step * DEPTH)),
                    add || FROM + step > 0);
}
#else
typedef descriptor LeftOperand;

__device__ __forceinline__ LeftOperand left_operand(unsigned stages, int group) {
  return make_descriptor(stages + group * bytes_to<A_ALONG_K, TILE_M>(FRAGS_M * 64, 0), A_ALONG_K ? 0 : CHUNK * 128);
}

// Issues the wgmma of K items FROM to TO of a K tile.
template <int FROM, int TO>
__device__ __forceinline__ void issue_wgmmas(
    Sum (&sum)[FRAGS_M][WORDS], LeftOperand left, descriptor right, bool add) {
#pragma unroll
  for (int k = FROM; k < TO; k += DEPTH) {
#pragma unroll
    for (int i = 0; i < FRAGS_M; ++i)
      issue_wgmma(reinterpret_cast<Sum (&)[WORDS / JOINED]>(sum[i][group_of(k) * (WORDS / JOINED)]),
                  left + descriptor_offset(bytes_to<A_ALONG_K, TILE_M>(i * 64, k)),
                  right + descriptor_offset(bytes_to<B_ALONG_K, TILE_N>(group_of(k) * (TILE_N / JOINED), row_of(k))),
                  add || row_of(k) > 0);
  }
}
#endif

#if CONV && defined(GROUP_CO) && JOINED == 1 && TAP_RUN > GROUP_CI
// Sets what a K tile of pixels has of the channels of the next group to 0: filters are zeros there, but the product of a
// zero and an infinity would be a NaN. A warpgroup does so for the rows that it reads, of which others may be clearing
// the same; in the emulator each warp does, which has no barrier of a warpgroup.
__device__ __forceinline__ void clear_next_group(unsigned stage, int number, int k_tile) {
  // Barriers from the first on are free; those before are of `consumer_sync` and of epilogues.
  constexpr int FIRST_BARRIER = 8, PANELS = TAP_RUN / PANEL;
  constexpr int FIRST = GROUP_CI % PANEL * ITEM_BYTES / 16, VECTORS = 8 - FIRST;
  constexpr int ROWS = SWAP_AB ? TILE_N : FRAGS_M * 64, PANEL_ROWS = SWAP_AB ? TILE_N : TILE_M;
  const unsigned rows = stage + (SWAP_AB ? A_BYTES : number % GROUPS * (ROWS * 128));
#ifdef AUTOTUNE_EMULATE
  const int thread = threadIdx.x % 32, threads = 32;
#else
  const int thread = threadIdx.x % 128, threads = 128;
#endif
  const int first = (static_cast<int>(blockIdx.z) * K_TILES + k_tile) * (CHUNK / PANEL);
#pragma unroll
  for (int panel = 0; panel < CHUNK / PANEL; ++panel) {
    if ((first + panel) % PANELS != PANELS - 1) continue;
    char* const begin = static_cast<char*>(__cvta_shared_to_generic(rows + panel * (PANEL_ROWS * 128)));
    for (int i = thread; i < ROWS * VECTORS; i += threads) {
      const int row = i / VECTORS, vector = FIRST + i % VECTORS;
      *reinterpret_cast<uint4*>(begin + row * 128 + (vector ^ row % 8) * 16) = make_uint4(0, 0, 0, 0);
    }
  }
  fence_proxy_async();
#ifdef AUTOTUNE_EMULATE
  __syncwarp();
#else
  asm volatile("bar.sync %0, 128;" ::"r"(number + FIRST_BARRIER) : "memory");
#endif
}
#define CLEAR_NEXT_GROUP(stage, number, k_tile) clear_next_group(stage, number, k_tile)
#else
#define CLEAR_NEXT_GROUP(stage, number, k_tile)
#endif

// Returns the offset of a stage, in units of the left operand.
__device__ __forceinline__ LeftOperand stage_offset(int stage) {
  return (A_FROM_REGISTERS ? STAGE_BYTES : descriptor_offset(STAGE_BYTES)) * static_cast<LeftOperand>(stage);
}

// Returns how many K tiles of an output tile are in stages that are refilled: all but the block's last STAGES.
__device__ __forceinline__ int refilled(unsigned at, int k_tiles) {
  const unsigned tiles = PERSISTENT ? (TILES - 1 - at) / gridDim.x : 0;
  return k_tiles - STAGES + static_cast<int>(tiles < STAGES ? tiles : STAGES) * k_tiles;
}

// Releases a stage to the producers that fill it; k_tile is -1 before the first. Where it is not refilled, only the
// epilogue of this block may wait for it.
__device__ __forceinline__ void release_stage(const SharedStorage& smem, int stage, int k_tile, int refills) {
  const unsigned lane = threadIdx.x % 32, to = k_tile < refills ? multicast_peer(lane) : first_of_range() + blockIdx.x % CLUSTER_BLOCKS;
  const bool awaited = CLUSTER_BLOCKS == 1 || k_tile < refills || (ORDERED > 0 && !PERSISTENT);
  cluster_barrier_arrive<MULTICAST_PEERS>(smem.empty + stage * 8, to, lane < MULTICAST_PEERS && k_tile >= 0 && awaited);
}

// Main loop over the K tiles of an output tile. An mbarrier tells a phase only from the one before, so a consumer waits
// for its first K tile when the other has received its last. The first `refills` K tiles are in stages that are
// refilled. The wait for the previous wgmma, which releases its stage, is in the middle of a K tile, so that the tensor
// cores always have wgmma queued. Warpgroups take the last ORDERED K tiles one after another. `number` is that of the
// warpgroup.
__device__ __forceinline__ void mainloop(
    Sum (&sum)[FRAGS_M][WORDS], const SharedStorage& smem, PipelineState& state,
    OrderedBarrier<(CONSUMERS > 1)>& pingpong, OrderedBarrier<(ORDERED > 0)>& order,
    LeftOperand left, descriptor right, int number, int k_tiles, int refills) {
  pingpong.acquire();
  int before = state.stage;
#pragma unroll 1
  for (int k_tile = 0; k_tile < k_tiles; ++k_tile) {
    if (ORDERED > 0 && k_tile == k_tiles - ORDERED) order.acquire();
    barrier_wait(smem.full + state.stage * 8, state.parity);
    CLEAR_NEXT_GROUP(smem.stages + state.stage * STAGE_BYTES, number, k_tile);
    if (A_FROM_REGISTERS) wgmma_wait<1>();
    else wgmma_fence();
    const LeftOperand here = left + stage_offset(state.stage);
    const descriptor stage = descriptor_offset(STAGE_BYTES) * static_cast<descriptor>(state.stage);
    const bool add = BIAS_FIRST || RESIDUAL_FIRST || k_tile > 0;
    issue_wgmmas<0, CHUNK / 2>(sum, here, right + stage, add);
    wgmma_commit();
    wgmma_wait<1>();
    release_stage(smem, before, k_tile - 1, refills);
    before = state.stage;
    state.next();
    issue_wgmmas<CHUNK / 2, CHUNK>(sum, here, right + stage, add);
    wgmma_commit();
    if (k_tile == k_tiles - 1) pingpong.release(), order.release();
  }
  wgmma_wait<0>();
#pragma unroll
  for (int i = 0; i < FRAGS_M; ++i) fence_accumulators(sum[i]);
  release_stage(smem, before, k_tiles - 1, refills);
}

#if SPLIT > 1 && !CLUSTER_REDUCE
typedef FourSums Written;

// Writes the partial sums of this range of K, 512 contiguous bytes per warp.
__device__ __forceinline__ void store_partial(
    FourSums* __restrict__ parts, const Sum (&sum)[FRAGS_M][WORDS], unsigned tile, int thread) {
  FourSums* const to = parts + (static_cast<size_t>(blockIdx.z) * TILES + tile) * (TILE_M * TILE_N / 4) + thread;
#pragma unroll
  for (int i = 0; i < FRAGS_M; ++i)
#pragma unroll
    for (int j = 0; j < WORDS / 4; ++j)
      to[(i * (WORDS / 4) + j) * (GROUPS * 128)] =
          {sum[i][j * 4], sum[i][j * 4 + 1], sum[i][j * 4 + 2], sum[i][j * 4 + 3]};
}
#else
typedef Finished Written;
#endif

#if SWAP_AB && BIAS_FIRST
#define INIT_ACCUMULATORS(sum) init_accumulators_swapped(sum, bias, tile.m + row + lane / 4)
#elif BIAS_FIRST
#define INIT_ACCUMULATORS(sum) init_accumulators(sum, bias, tile.n, lane)
#elif RESIDUAL_FIRST
#define INIT_ACCUMULATORS(sum) clear_accumulators(sum)
#else
#define INIT_ACCUMULATORS(sum)
#endif

// Consumer warpgroup: main loop and epilogue of its tiles.
__device__ __forceinline__ void consume_tiles(
    const SharedStorage& smem, EPILOGUE_PARAMETERS Written* __restrict__ out, int number) {
  const int consumer = CONSUMERS == 1 ? 0 : number / GROUPS, group = number - consumer * GROUPS;
  const int lane = threadIdx.x % 32;
  const int row = group * FRAGS_M * 64 + threadIdx.x / 32 % 4 * 16, k_tiles = k_tiles_here();
  const LeftOperand left = left_operand(smem.stages, group);
  const descriptor right = make_descriptor(smem.stages + A_BYTES, B_ALONG_K ? 0 : CHUNK * 128);
#if SWAP_AB && SMEM_EPILOGUE
  EpilogueBuffers buffers = {smem.buffers + number * GROUP_BYTES, smem.groups + number * 8, number, 0, 0};
#elif SMEM_EPILOGUE
  unsigned own_buffer = smem.buffers + (threadIdx.x / 32 - 4) * RESULT_BYTES;
#if !STAGED && C_N % 8 == 0
  EpilogueBuffers buffers = {own_buffer, 0};
#endif
#endif
  PipelineState state = {0, 0};
  state.skip(consumer * K_TILES);
  OrderedBarrier<(CONSUMERS > 1)> pingpong = {
      smem.pingpong_barriers + consumer * 8, smem.pingpong_barriers + (consumer + 1) % CONSUMERS * 8, consumer == 0};
  const unsigned order_barriers = smem.order_barriers + consumer * (GROUPS * 8);
  OrderedBarrier<(ORDERED > 0)> order = {
      order_barriers + group * 8, order_barriers + (group + 1) % GROUPS * 8, group == 0};
#pragma unroll 1
  for (unsigned at = blockIdx.x + consumer * gridDim.x; at < TILES; at += CONSUMERS * gridDim.x) {
    const Tile tile = tile_of(at);
    Sum sum[FRAGS_M][WORDS];
    INIT_ACCUMULATORS(sum);
#if RESIDUAL_FIRST
    add_residual(sum, residual + static_cast<size_t>(tile.matrix) * C_M * C_N, tile.m + row + lane / 4,
                 tile.n + lane % 4 * 2);
#endif
#if REQUANTISED && (SPLIT == 1 || CLUSTER_REDUCE)
    const RequantiseArgs epilogue = {REQUANTISATION RESIDUAL_POINTER};
    ResidualBoxes others;
    load_residual(others, epilogue.residual, tile.m + row, tile.n + CLUSTER_REDUCE * blockIdx.z * WRITTEN_N, lane);
#endif
    mainloop(sum, smem, state, pingpong, order, left, right, number, k_tiles, refilled(at, k_tiles));
#if SPLIT > 1 && !CLUSTER_REDUCE
    store_partial(out, sum, at, threadIdx.x - 128);
#else
    if (BEHIND_COPIES && !PERSISTENT) launch_dependent_grids();
    const size_t matrix = static_cast<size_t>(tile.matrix) * C_M * C_N;
#if FOLLOWS
    const EpilogueArgs epilogue = {bias, RESIDUAL ? residual + matrix : residual, scale, shift};
#elif !REQUANTISED
    const EpilogueArgs epilogue = {};
#endif
#if CLUSTER_REDUCE
    Sum own[FRAGS_M][WORDS / SPLIT];
    reduce_in_cluster(own, sum, smem.stages, smem.sent, threadIdx.x - 128);
    const int first = tile.n + blockIdx.z * WRITTEN_N;
#if SWAP_AB && SMEM_EPILOGUE
    write_swapped(out + matrix, own, tile.m + group * FRAGS_M * 64, first, lane, buffers);
#elif REQUANTISED
    write_finished(out, own, others, own_buffer, tile.m + row, first, lane, epilogue);
#else
#pragma unroll
    for (int i = 0; i < FRAGS_M; ++i)
#if SWAP_AB
      write_across(out + matrix, own[i], tile.m + row + i * 64 + lane / 4, first + lane % 4 * 2, epilogue);
#elif SMEM_EPILOGUE
      write_boxes(out + matrix, own[i], tile.m + row + i * 64, first, lane, buffers);
#else
      write_pairs(out + matrix, own[i], tile.m + row + i * 64 + lane / 4, first + lane % 4 * 2, epilogue);
#endif
#endif
#else
#if SMEM_EPILOGUE
    // The epilogue reuses the pipeline's buffers: all wgmma that read them must be done.
    if (!PERSISTENT && ORDERED == 0) consumer_sync(smem);
    if (!PERSISTENT && ORDERED > 0) {
      const unsigned free_buffer = acquire_epilogue_buffer(smem, state, group);
#if SWAP_AB
      buffers.at = free_buffer;
#else
      own_buffer = free_buffer + threadIdx.x / 32 % 4 * RESULT_BYTES;
#if !STAGED && C_N % 8 == 0
      buffers.at = own_buffer;
#endif
#endif
    }
#endif
#if SWAP_AB && SMEM_EPILOGUE
    write_swapped(out + matrix, sum, tile.m + group * FRAGS_M * 64, tile.n, lane, buffers);
#elif REQUANTISED && STAGED
    write_finished(out, sum, others, own_buffer, tile.m + row, tile.n, lane, epilogue);
#elif STAGED
    write_finished(out + matrix, sum, own_buffer, tile.m + row, tile.n, lane, epilogue);
#else
#pragma unroll
    for (int i = 0; i < FRAGS_M; ++i)
#if SMEM_EPILOGUE && C_N % 8 > 0
      write_strips(out + matrix, sum[i], own_buffer, tile.m + row + i * 64, tile.n, lane);
#elif SMEM_EPILOGUE
      write_boxes(out + matrix, sum[i], tile.m + row + i * 64, tile.n, lane, buffers);
#elif SWAP_AB
      write_across(out + matrix, sum[i], tile.m + row + i * 64 + row_of_lane(lane), tile.n + lane % 4 * 2, epilogue);
#else
      write_pairs(out + matrix, sum[i], tile.m + row + i * 64 + row_of_lane(lane), tile.n + lane % 4 * 2, epilogue);
#endif
#endif
#endif
#endif
    if (!PERSISTENT) break;
    if (CONSUMERS > 1) state.skip((CONSUMERS - 1) * K_TILES);
  }
#if SMEM_EPILOGUE && !STAGED && C_N % 8 == 0
  if (elect_one()) tma_store_wait<0>();
#endif
}

#if CLUSTER_REDUCE
#define CLUSTER_DIMS __cluster_dims__(CLUSTER_M * CLUSTER_N, 1, SPLIT)
#elif CLUSTER_M * CLUSTER_N > 1
#define CLUSTER_DIMS __cluster_dims__(CLUSTER_M * CLUSTER_N, 1, 1)
#else
#define CLUSTER_DIMS
#endif
#if CONV
#define MAPS_PARAMETER , TensorMap *__restrict__ maps
#define MAPS_ARGUMENT , maps
#else
#define MAPS_PARAMETER
#define MAPS_ARGUMENT
#endif
#if REQUANTISED
#define EPILOGUE_ARGUMENTS REQUANTISATION RESIDUAL_POINTER,
#elif FOLLOWS
#define EPILOGUE_ARGUMENTS bias, residual, scale, shift,
#else
#define EPILOGUE_ARGUMENTS
#endif

extern "C" __global__ void CLUSTER_DIMS __launch_bounds__(THREADS, RESIDENT) gemm_tma(
    const Item* __restrict__ a, const Item* __restrict__ b,
    EPILOGUE_PARAMETERS Written* __restrict__ out MAPS_PARAMETER) {
  extern __shared__ float4 shared_memory[];
  const SharedStorage smem = shared_storage_of(shared_memory);
  const Sources from = sources(a, b MAPS_ARGUMENT);
  if (threadIdx.x < 32 && elect_one()) produce_prologue(smem, from);
  if (threadIdx.x / 32 == 1 && elect_one()) init_other_barriers(smem);
  __syncthreads();
#if CLUSTER_M * CLUSTER_N > 1 || CLUSTER_REDUCE
  cluster_arrive();
  cluster_wait();
#endif
  // The compiler takes what the first lane broadcasts as uniform, and so branches, stages and descriptors that depend on
  // it: uniform instructions compute them, where each wgmma waited for copies from vector registers.
  const int warpgroup = __shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x) / 128, 0);
  if (warpgroup == 0) {
    if (MOVE_REGISTERS) warpgroup_reg_dealloc<PRODUCER_REGISTERS>();
    if (threadIdx.x < 32) produce_tiles(smem, from);
  } else {
    if (MOVE_REGISTERS) warpgroup_reg_alloc<CONSUMER_REGISTERS>();
    consume_tiles(smem, EPILOGUE_ARGUMENTS out, CONSUMERS * GROUPS == 1 ? 0 : warpgroup - 1);
  }
}
