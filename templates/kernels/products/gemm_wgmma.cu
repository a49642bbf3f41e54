// Warp-specialised GEMM for Hopper: C[M, N] = A[M, K] B[K, N] of 16-bit floats, or of floats as TF32, accumulated in
// float32; operands.h says how A and B are stored. C has C_M rows and C_N columns.
//
// A block computes a tile of TILE_M x TILE_N of C over one of SPLIT ranges of K. The producer warpgroup copies K tiles
// of A and B by cp.async into a pipeline of STAGES stages in shared memory; each consumer warpgroup multiplies FRAGS_M
// * 64 rows of the tile by all its columns. A stage has two mbarriers: `full`, completed when its copies have arrived,
// and `empty`, when all consumer warps have released it.

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

#if CONV
// Input coordinates of an output pixel: row and column in its image, and the offset of the first channel there in all
// images. Pixels beyond the last are outside of all images.
struct Window {
  long long offset;
  int y, x;
};
#endif

struct SharedStorage {
  Item* stages;
  unsigned full, empty;
#if CONV
  const Window* windows;
#endif
  __device__ __forceinline__ Item* stage(PipelineState state) const {
    return stages + static_cast<size_t>(state.stage) * (A_SIZE + B_SIZE);
  }
};

struct Corner {
  int m, n;
};

// Rasterisation in bands of BAND tiles along M, so that concurrent tiles share rows and columns of the operands in L2.
__device__ __forceinline__ Corner corner_of(int tile) {
  const int band = tile / (BAND * BLOCKS_N), first = band * BAND;
  const bool all = BLOCKS_M % BAND == 0 || BLOCKS_M - first >= BAND;
  const int height = all ? BAND : BLOCKS_M - first;
  const int inside = tile - first * BLOCKS_N;
  return {(first + inside % height) * TILE_M, inside / height * TILE_N};
}

// Tags K-major (true) and MN-major (false) operands.
template <bool ALONG_K> struct Side {};

// Copies a panel of ROWS rows, filling with zeros. A thread copies one 16-byte column of rows with the same swizzle.
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

// Copies a K tile of an operand of `extent` rows or columns, from `first` on.
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

// Gathers the K tile of A of an implicit GEMM (im2col); a thread copies the same vector of every 16th row.
__device__ __forceinline__ void copy_im2col(
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
                    reinterpret_cast<const float*>(from + window.offset), valid);
    }
  }
}
#endif

__device__ __forceinline__ void copy_k_tile(
    Item* stage, const SharedStorage& smem, const Item* a, const Item* b, Corner corner, int k0, int k_end, int tid) {
#if CONV
  copy_im2col(stage, a, smem.windows, k0, k_end, tid);
#else
  copy_operand<TILE_M, WHOLE_M>(Side<A_ALONG_K>(), stage, a, M, corner.m, k0, k_end, tid);
#endif
  copy_operand<TILE_N, WHOLE_N>(Side<B_ALONG_K>(), stage + A_SIZE, b, N, corner.n, k0, k_end, tid);
}

__device__ __forceinline__ void produce(
    const SharedStorage& smem, const Item* a, const Item* b, Corner corner, int k_begin, int k_end) {
  PipelineState state = {0, 1};
#pragma unroll 1
  for (int k_tile = 0; k_tile < K_TILES; ++k_tile) {
    barrier_wait(smem.empty + state.stage * 8, state.parity);
    copy_k_tile(smem.stage(state), smem, a, b, corner, k_begin + k_tile * CHUNK, k_end, threadIdx.x);
    copy_arrive(smem.full + state.stage * 8);
    state.next();
  }
  copy_commit();
  copy_wait<0>();
}

// Byte offset, within an operand's stage of TILE rows or columns, of row or column `across` at index `k` along K.
template <bool ALONG_K, int TILE>
__device__ __forceinline__ constexpr int bytes_to(int across, int k) {
  return ALONG_K ? k / PANEL * TILE * 128 + k % PANEL * static_cast<int>(sizeof(Item)) + across * 128
                 : across / PANEL * CHUNK * 128 + k * 128;
}

// Issues the wgmma of a K tile.
__device__ __forceinline__ void issue_k_tile(
    float (&sum)[FRAGS_M][WORDS], descriptor left, descriptor right, bool add) {
  wgmma_fence();
#pragma unroll
  for (int k = 0; k < CHUNK; k += DEPTH) {
#pragma unroll
    for (int i = 0; i < FRAGS_M; ++i)
      issue_wgmma(sum[i], left + descriptor_offset(bytes_to<A_ALONG_K, TILE_M>(i * 64, k)),
                    right + descriptor_offset(bytes_to<B_ALONG_K, TILE_N>(0, k)), add || k > 0);
  }
  wgmma_commit();
}

__device__ __forceinline__ void mainloop(
    float (&sum)[FRAGS_M][WORDS], const SharedStorage& smem, int group, bool signals) {
  const unsigned begin = shared_address(smem.stages);
  const descriptor left =
      make_descriptor(begin + group * bytes_to<A_ALONG_K, TILE_M>(FRAGS_M * 64, 0), A_ALONG_K ? 0 : CHUNK * 128);
  const descriptor right = make_descriptor(begin + static_cast<int>(sizeof(Item)) * A_SIZE, B_ALONG_K ? 0 : CHUNK * 128);
  PipelineState state = {0, 0};
  int before = 0;
#pragma unroll 1
  for (int k_tile = 0; k_tile < K_TILES; ++k_tile) {
    barrier_wait(smem.full + state.stage * 8, state.parity);
    fence_proxy_async();
    const descriptor stage = descriptor_offset(STAGE_BYTES) * static_cast<descriptor>(state.stage);
    issue_k_tile(sum, left + stage, right + stage, BIAS_FIRST || k_tile > 0);
    // The wgmma of this K tile are in flight; those of the previous one are complete, and its stage is released.
    wgmma_wait<1>();
    if (signals && k_tile > 0) barrier_arrive(smem.empty + before * 8);
    before = state.stage;
    state.next();
  }
  wgmma_wait<0>();
#pragma unroll
  for (int i = 0; i < FRAGS_M; ++i) fence_accumulators(sum[i]);
}

extern "C" __global__ void CLUSTER_SHAPE __launch_bounds__(THREADS, RESIDENT) gemm_wgmma(
    const Item* __restrict__ a, const Item* __restrict__ b,
    EPILOGUE_PARAMETERS Finished* __restrict__ out) {
  extern __shared__ float4 shared_memory[];
  const unsigned begin = shared_address(shared_memory), unaligned = begin % 1024;
  SharedStorage smem;
  constexpr unsigned ITEM = sizeof(Item);
  smem.stages = reinterpret_cast<Item*>(shared_memory) + (unaligned ? 1024 - unaligned : 0) / ITEM;
  smem.full = shared_address(smem.stages) + STAGES * STAGE_BYTES;
  smem.empty = smem.full + STAGES * 8;
#if SPLIT > 1 || CONV
  char* const behind = reinterpret_cast<char*>(smem.stages) + STAGES * (STAGE_BYTES + 16);
#endif
#if SPLIT > 1
  float* const received = reinterpret_cast<float*>(behind + CONV * TILE_M * 16);
  const unsigned sent = shared_address(received) + PART_BYTES;
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
  // A consumer warp does this, while producers compute their addresses.
  if (threadIdx.x == THREADS - 32) {
#pragma unroll
    for (int stage = 0; stage < STAGES; ++stage) {
      barrier_init(smem.full + stage * 8, 128);
      barrier_init(smem.empty + stage * 8, GROUPS * 4);
    }
#if SPLIT > 1
    barrier_init(sent, 1);
    barrier_arrive_expect_tx(sent, PART_BYTES);
    fence_mbarrier_init();
#endif
  }
#if CONV
  Window* const windows = reinterpret_cast<Window*>(behind);
  for (int i = threadIdx.x; i < TILE_M; i += THREADS) windows[i] = window_of(corner.m + i);
  smem.windows = windows;
#endif
  __syncthreads();
  const int k_begin = blockIdx.z * K_PER_SPLIT;
  const int k_end = k_begin + K_PER_SPLIT < K ? k_begin + K_PER_SPLIT : K;
#if SPLIT > 1
  cluster_arrive();  // others may write to this block's shared memory from now on
#endif
  if (group == 0) {
    if (MOVE_REGISTERS) warpgroup_reg_dealloc<PRODUCER_REGISTERS>();
    wait_on_dependent_grids();
    produce(smem, a, b, corner, k_begin, k_end);
#if SPLIT > 1
    cluster_wait();
#endif
  } else {
    if (MOVE_REGISTERS) warpgroup_reg_alloc<CONSUMER_REGISTERS>();
    const int row = corner.m + (group - 1) * FRAGS_M * 64 + threadIdx.x / 32 % 4 * 16 + lane / 4;
    float sum[FRAGS_M][WORDS];
#if BIAS_FIRST
    init_accumulators(sum, bias, corner.n, lane);
#endif
    mainloop(sum, smem, group - 1, lane == 0);
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
    send_parts(sum, shared_address(received), sent, rank, tid);
    barrier_wait(sent, 0);
#pragma unroll
    for (int own = 0; own < SPLIT; ++own) {
      if (own != rank) continue;
      add_parts_of_others(sum, received, own, tid);
      write_units(out, sum, own, row, corner.n, lane, epilogue);
    }
#else
    write_units(out, sum, 0, row, corner.n, lane, epilogue);
#endif
  }
}
