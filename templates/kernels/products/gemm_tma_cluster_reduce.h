// Split-K within a cluster: the SPLIT blocks of a tile form a cluster, and each reduces its share of the tile's columns
// from the partial sums that the others send through distributed shared memory, over the pipeline's buffers.
#if CLUSTER_REDUCE
constexpr int OWN_N = TILE_N / SPLIT, OWN_WORDS = OWN_N / 2;
static_assert(TILE_N % (8 * SPLIT) == 0, "a block must reduce whole fragments");
// Bytes sent by one block: vectors of all threads are interleaved.
constexpr int SENT_BYTES = GROUPS * 128 * FRAGS_M * OWN_WORDS * 4;

__device__ __forceinline__ void reduce_in_cluster(
    Sum (&own)[FRAGS_M][OWN_WORDS], const Sum (&sum)[FRAGS_M][WORDS], const SharedStorage& smem) {
  constexpr int VECTORS = OWN_WORDS / 4, PITCH = GROUPS * 128 * 16;
  const unsigned thread = threadIdx.x - 128, here = blockIdx.z;
  // All blocks are done with their pipelines; producer threads have exited or will.
  cluster_arrive();
  cluster_wait();
#pragma unroll
  for (unsigned rank = 0; rank < SPLIT; ++rank) {
    if (rank == here) {
#pragma unroll
      for (int i = 0; i < FRAGS_M; ++i)
#pragma unroll
        for (int j = 0; j < OWN_WORDS; ++j) own[i][j] = sum[i][rank * OWN_WORDS + j];
      continue;
    }
    const unsigned peer = here < rank ? here : here - 1;
    const unsigned block = rank * CLUSTER_BLOCKS + blockIdx.x % CLUSTER_BLOCKS;
    const unsigned to = remote_address(smem.stages + peer * SENT_BYTES + thread * 16, block);
    const unsigned barrier = remote_address(smem.sent, block);
#pragma unroll
    for (int i = 0; i < FRAGS_M; ++i)
#pragma unroll
      for (int j = 0; j < VECTORS; ++j) {
        const Sum* const four = sum[i] + rank * OWN_WORDS + j * 4;
        send(to + (i * VECTORS + j) * PITCH, barrier, four[0], four[1], four[2], four[3]);
      }
  }
  barrier_wait(smem.sent, 0);
  const char* const from = static_cast<char*>(__cvta_shared_to_generic(smem.stages)) + thread * 16;
#pragma unroll
  for (int peer = 0; peer < SPLIT - 1; ++peer)
#pragma unroll
    for (int i = 0; i < FRAGS_M; ++i)
#pragma unroll
      for (int j = 0; j < VECTORS; ++j) {
        const float4 four = *reinterpret_cast<const float4*>(from + peer * SENT_BYTES + (i * VECTORS + j) * PITCH);
        Sum* const to = own[i] + j * 4;
        to[0] += four.x, to[1] += four.y, to[2] += four.z, to[3] += four.w;
      }
}
#endif
