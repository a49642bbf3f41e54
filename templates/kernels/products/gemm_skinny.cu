// Skinny GEMM for Hopper: C[M, N] = A[M, K] B[K, N] of 16-bit floats with few rows, bound by loading B. Operands are
// swapped, and the pipeline is that of gemm_tma.cu: rows of a tile are columns of C, and one tile has all rows of C, so
// that B is loaded once. The blocks of a cluster split K, and reduce through distributed shared memory; of more than a
// cluster has, each writes its partial sums, and gemm_skinny_reduce adds them.
constexpr int ADDERS = GROUPS * 128, PITCH = TILE_M + 4, QUARTERS = TILE_N * TILE_M / 4;
static_assert(TILE_N * PITCH * 4 <= STAGES * STAGE_BYTES, "the partial sums exceed the pipeline's buffers");

// Byte offset of index `k` along K within an operand's stage of TILE rows or columns.
template <bool ALONG_K, int TILE>
__device__ __forceinline__ constexpr int bytes_to(int k) {
  return ALONG_K ? k / PANEL * TILE * 128 + k % PANEL * 2 : k * 128;
}

// Main loop over this block's K tiles. A stage is released when the wgmma of the next K tile have been issued.
__device__ __forceinline__ void multiply(float (&sum)[WORDS], const SharedStorage& smem, int group) {
  const descriptor left = make_descriptor(
      smem.stages + (A_ALONG_K ? group * 64 * 128 : group * CHUNK * 128), A_ALONG_K ? 0 : CHUNK * 128);
  const descriptor right = make_descriptor(smem.stages + A_BYTES, B_ALONG_K ? 0 : CHUNK * 128);
  PipelineState state = {0, 0};
  const int k_tiles = k_tiles_here();
  int before = 0;
#pragma unroll 1
  for (int k_tile = 0; k_tile < k_tiles; ++k_tile) {
    barrier_wait(smem.full + state.stage * 8, state.parity);
    wgmma_fence();
    const descriptor stage = descriptor_offset(STAGE_BYTES) * static_cast<descriptor>(state.stage);
#pragma unroll
    for (int k = 0; k < CHUNK; k += DEPTH)
      issue_wgmma(sum, left + stage + descriptor_offset(bytes_to<A_ALONG_K, TILE_M>(k)),
                    right + stage + descriptor_offset(bytes_to<B_ALONG_K, TILE_N>(k)), k_tile > 0 || k > 0);
    wgmma_commit();
    wgmma_wait<1>();
    if (k_tile > 0 && threadIdx.x % 32 == 0) barrier_arrive(smem.empty + before * 8);
    before = state.stage;
    state.next();
  }
  wgmma_wait<0>();
  fence_accumulators(sum);
}

// Stores accumulators over the pipeline's buffers, rows of C contiguous.
__device__ __forceinline__ void store_sums(float* kept, const float (&sum)[WORDS], int group, int lane) {
  float* const to = kept + group * 64 + threadIdx.x / 32 % 4 * 16 + lane / 4 + lane % 4 * 2 * PITCH;
#pragma unroll
  for (int i = 0; i < WORDS; ++i) to[(i / 4 * 8 + i % 2) * PITCH + i / 2 % 2 * 8] = sum[i];
}

// Loads four partial sums at the same offset of the block of a rank.
__device__ __forceinline__ void read_part(float (&part)[4], const float* own, int rank) {
#if CLUSTER
  asm volatile("ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(part[0]), "=f"(part[1]), "=f"(part[2]), "=f"(part[3])
               : "r"(remote_address(shared_address(own), rank))
               : "memory");
#else
  load_vector<4>(part, own);
#endif
}

template <int COUNT>
__device__ __forceinline__ void finish_and_write(
    half_bits* __restrict__ out, float (&sum)[COUNT], int column, size_t at, const EpilogueArgs& epilogue) {
#if FOLLOWS
  finish<1>(sum, epilogue, column, at);
#endif
#pragma unroll
  for (int v = 0; v < COUNT; ++v) sum[v] = last_step(sum[v]);
  store_elements<COUNT>(out + at, sum);
}

// Writes partial sums as they are.
template <int COUNT>
__device__ __forceinline__ void finish_and_write(
    float* __restrict__ out, float (&sum)[COUNT], int, size_t at, const EpilogueArgs&) {
  store_vector<COUNT>(out + at, sum);
}

// Reduces this block's share of the tile, four columns of C at a time, and runs the epilogue.
constexpr int SHARERS = CLUSTER ? SPLIT : 1;
template <class Written>
__device__ __forceinline__ void add_and_write(
    Written* __restrict__ out, const float* kept, int m0, int n0, int thread, const EpilogueArgs& epilogue) {
  for (int i = thread * SHARERS + static_cast<int>(blockIdx.z) % SHARERS; i < QUARTERS; i += ADDERS * SHARERS) {
    const int n = i / (TILE_M / 4), m = i % (TILE_M / 4) * 4;
    if (n0 + n >= C_M || m0 + m >= C_N) continue;
    float part[SHARERS][4], total[4] = {0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll
    for (int rank = 0; rank < SHARERS; ++rank) read_part(part[rank], kept + n * PITCH + m, rank);
#pragma unroll
    for (int rank = 0; rank < SHARERS; ++rank)
#pragma unroll
      for (int v = 0; v < 4; ++v) total[v] += part[rank][v];
    const size_t at = static_cast<size_t>(n0 + n) * C_N + m0 + m;
    if (C_N % 4 == 0) {
      finish_and_write<4>(out, total, m0 + m, at, epilogue);
    } else {
#pragma unroll
      for (int v = 0; v < 4; ++v) {
        float one[1] = {total[v]};
        if (m0 + m + v < C_N) finish_and_write<1>(out, one, m0 + m + v, at + v, epilogue);
      }
    }
  }
}

constexpr size_t RESULTS = static_cast<size_t>(BATCH) * C_M * C_N;
#if SPLIT > 1 && !CLUSTER
typedef float Written;
#else
typedef half_bits Written;
#endif

extern "C" __global__ void CLUSTER_SHAPE __launch_bounds__(THREADS, RESIDENT) gemm_skinny(
    const Item* __restrict__ a, const Item* __restrict__ b, EPILOGUE_PARAMETERS Written* __restrict__ out) {
  extern __shared__ float4 shared_memory[];
  const SharedStorage smem = shared_storage_of(shared_memory);
  const Tile tile = tile_of(blockIdx.x);
  const int thread = threadIdx.x, lane = thread % 32;
  float sum[WORDS];
  // The last warp is the producer.
  const Sources from = sources(a, b);
  if (thread >= ADDERS && elect_one()) produce_prologue(smem, from);
  if (thread < 32 && elect_one()) init_other_barriers(smem);
  __syncthreads();
  if (thread >= ADDERS) produce_tiles(smem, from);
  else multiply(sum, smem, thread / 128);
  // All K tiles have been multiplied: buffers may be reused.
  __syncthreads();
  float* const kept = static_cast<float*>(__cvta_shared_to_generic(smem.stages));
  if (thread < ADDERS) store_sums(kept, sum, thread / 128, lane);
#if CLUSTER
  cluster_sync();
#else
  __syncthreads();
#endif
  const size_t matrix = static_cast<size_t>(tile.matrix) * C_M * C_N;
#if FOLLOWS
  const EpilogueArgs epilogue = {bias, RESIDUAL ? residual + matrix : residual, scale, shift};
#else
  const EpilogueArgs epilogue = {};
#endif
#if SPLIT > 1 && !CLUSTER
  launch_dependent_grids();
  out += blockIdx.z * RESULTS;
#endif
  if (thread < ADDERS) add_and_write(out + matrix, kept, tile.m, tile.n, thread, epilogue);
#if CLUSTER
  // No block may exit while another reads its shared memory.
  cluster_sync();
#endif
}

#if SPLIT > 1 && !CLUSTER
// Adds the partial sums of all ranges of K, R_VEC neighbours a thread.
extern "C" __global__ void __launch_bounds__(REDUCE_THREADS) gemm_skinny_reduce(
    const float* __restrict__ partial, EPILOGUE_PARAMETERS half_bits* __restrict__ out) {
  const size_t i = (static_cast<size_t>(blockIdx.x) * REDUCE_THREADS + threadIdx.x) * R_VEC;
  wait_on_dependent_grids();
  if (i >= RESULTS) return;
  float total[R_VEC];
  add_parts<SPLIT>(total, partial + i, RESULTS);
#if FOLLOWS
  const EpilogueArgs epilogue = {bias, residual, scale, shift};
#else
  const EpilogueArgs epilogue = {};
#endif
  finish_and_write(out, total, static_cast<int>(i % C_N), i, epilogue);
}
#endif
