// How blocks of gemm_tma.cu that took ranges of K add up their sums: those of a tile are a cluster, and each
// joins its share of the tile's columns with what the others send, in shared memory where the ring was.
#if JOINS
constexpr int JOINED_N = TILE_N / SPLIT, JOINED_WORDS = JOINED_N / 2;
static_assert(TILE_N % (8 * SPLIT) == 0, "a share of no whole fragments");
// Of one other block: of each thread some vectors, those of all threads side by side.
constexpr int JOINED_BYTES = GROUPS * 128 * FRAGS_M * JOINED_WORDS * 4;

__device__ __forceinline__ void join_ranges(
    Sum (&own)[FRAGS_M][JOINED_WORDS], const Sum (&sum)[FRAGS_M][WORDS], const Room& room) {
  constexpr int VECTORS = JOINED_WORDS / 4, PITCH = GROUPS * 128 * 16;
  const unsigned thread = threadIdx.x - 128, here = blockIdx.z;
  // All blocks are done with their rings; threads that only copied have ended or will.
  cluster_arrive();
  cluster_wait();
#pragma unroll
  for (unsigned rank = 0; rank < SPLIT; ++rank) {
    if (rank == here) {
#pragma unroll
      for (int i = 0; i < FRAGS_M; ++i)
#pragma unroll
        for (int j = 0; j < JOINED_WORDS; ++j) own[i][j] = sum[i][rank * JOINED_WORDS + j];
      continue;
    }
    const unsigned place = here < rank ? here : here - 1;
    const unsigned to = remote_address(room.slots + place * JOINED_BYTES + thread * 16, rank);
    const unsigned barrier = remote_address(room.joined, rank);
#pragma unroll
    for (int i = 0; i < FRAGS_M; ++i)
#pragma unroll
      for (int j = 0; j < VECTORS; ++j) {
        const Sum* const four = sum[i] + rank * JOINED_WORDS + j * 4;
        send(to + (i * VECTORS + j) * PITCH, barrier, four[0], four[1], four[2], four[3]);
      }
  }
  barrier_wait(room.joined, 0);
  const char* const from = static_cast<char*>(__cvta_shared_to_generic(room.slots)) + thread * 16;
#pragma unroll
  for (int place = 0; place < SPLIT - 1; ++place)
#pragma unroll
    for (int i = 0; i < FRAGS_M; ++i)
#pragma unroll
      for (int j = 0; j < VECTORS; ++j) {
        const float4 four = *reinterpret_cast<const float4*>(from + place * JOINED_BYTES + (i * VECTORS + j) * PITCH);
        Sum* const to = own[i] + j * 4;
        to[0] += four.x, to[1] += four.y, to[2] += four.z, to[3] += four.w;
      }
}
#endif
