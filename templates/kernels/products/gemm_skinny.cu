// C[M, N] = A[M, K] B[K, N] of few rows of 16-bit floats on Hopper's tensor cores: what counts is how fast B comes.
// Operands have changed places, as with SWAPPED in gemm_tma.cu, whose names and ring these are: rows of tiles are
// columns of C, and one tile has all of its rows, so that nothing of B is read twice. A cluster of SPLIT blocks has a
// tile, each a range of K; they add up their sums through each other's shared memory.
constexpr int ADDERS = GROUPS * 128, PITCH = TILE_M + 4, QUARTERS = TILE_N * TILE_M / 4;
static_assert(TILE_N * PITCH * 4 <= STAGES * SLOT_BYTES, "sums beyond the ring");

// How many bytes behind its begin an operand of TILE rows or columns has what is `k` further along K.
template <bool ALONG_K, int TILE>
__device__ __forceinline__ constexpr int bytes_to(int k) {
  return ALONG_K ? k / PANEL * TILE * 128 + k % PANEL * 2 : k * 128;
}

// Multiplies all chunks of this block. A slot is free when the products of the chunk after it are in line.
__device__ __forceinline__ void multiply(float (&sum)[WORDS], const Room& room, int group) {
  const descriptor left = describe(
      room.slots + (A_ALONG_K ? group * 64 * 128 : group * CHUNK * 128), A_ALONG_K ? 0 : CHUNK * 128);
  const descriptor right = describe(room.slots + A_BYTES, B_ALONG_K ? 0 : CHUNK * 128);
  Place place = {0, 0};
  const int chunks = chunks_here();
  int before = 0;
#pragma unroll 1
  for (int chunk = 0; chunk < chunks; ++chunk) {
    barrier_wait(room.full + place.slot * 8, place.parity);
    products_fence();
    const descriptor slot = further(SLOT_BYTES) * static_cast<descriptor>(place.slot);
#pragma unroll
    for (int k = 0; k < CHUNK; k += DEPTH)
      begin_product(sum, left + slot + further(bytes_to<A_ALONG_K, TILE_M>(k)),
                    right + slot + further(bytes_to<B_ALONG_K, TILE_N>(k)), chunk > 0 || k > 0);
    products_commit();
    products_wait<1>();
    if (chunk > 0 && threadIdx.x % 32 == 0) barrier_arrive(room.empty + before * 8);
    before = place.slot;
    place.next();
  }
  products_wait<0>();
  sums_are_new(sum);
}

// Puts sums where the ring was, of each row of C one after another.
__device__ __forceinline__ void keep_sums(float* kept, const float (&sum)[WORDS], int group, int lane) {
  float* const to = kept + group * 64 + threadIdx.x / 32 % 4 * 16 + lane / 4 + lane % 4 * 2 * PITCH;
#pragma unroll
  for (int i = 0; i < WORDS; ++i) to[(i / 4 * 8 + i % 2) * PITCH + i / 2 % 2 * 8] = sum[i];
}

// The four sums at one place in the block of a rank.
__device__ __forceinline__ void read_part(float (&part)[4], const float* own, int rank) {
#if SPLIT > 1
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

// Adds up the parts of this block's share of the tile, four columns of C at a time, finishes and writes them.
__device__ __forceinline__ void add_and_write(
    half_bits* __restrict__ out, const float* kept, int m0, int n0, int thread, const EpilogueArgs& epilogue) {
  for (int i = thread * SPLIT + static_cast<int>(blockIdx.z); i < QUARTERS; i += ADDERS * SPLIT) {
    const int n = i / (TILE_M / 4), m = i % (TILE_M / 4) * 4;
    if (n0 + n >= C_M || m0 + m >= C_N) continue;
    float part[SPLIT][4], total[4] = {0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll
    for (int rank = 0; rank < SPLIT; ++rank) read_part(part[rank], kept + n * PITCH + m, rank);
#pragma unroll
    for (int rank = 0; rank < SPLIT; ++rank)
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

extern "C" __global__ void CLUSTER_SHAPE __launch_bounds__(THREADS, RESIDENT) gemm_skinny(
    const Item* __restrict__ a, const Item* __restrict__ b, EPILOGUE_PARAMETERS half_bits* __restrict__ out) {
  extern __shared__ float4 shared_memory[];
  const Room room = room_of(shared_memory);
  const Tile tile = tile_of(blockIdx.x);
  const int thread = threadIdx.x, lane = thread % 32;
  float sum[WORDS];
  // The last warp copies.
  const Sources from = sources(a, b);
  if (thread >= ADDERS && elected()) begin_copies(room, from);
  if (thread < 32 && elected()) make_other_barriers(room);
  __syncthreads();
  if (thread >= ADDERS) copy_tiles(room, from);
  else multiply(sum, room, thread / 128);
  // All that was copied has been multiplied.
  __syncthreads();
  float* const kept = static_cast<float*>(__cvta_shared_to_generic(room.slots));
  if (thread < ADDERS) keep_sums(kept, sum, thread / 128, lane);
#if SPLIT > 1
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
  if (thread < ADDERS) add_and_write(out + matrix, kept, tile.m, tile.n, thread, epilogue);
#if SPLIT > 1
  // Others may still read here.
  cluster_sync();
#endif
}
