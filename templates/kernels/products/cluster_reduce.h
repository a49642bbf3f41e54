// Split-K within a cluster, for gemm_tma.cu and gemm_unaligned.cu: the SPLIT blocks of a tile form a cluster, and each
// reduces its share of every thread's accumulators from the partial sums that the others send through distributed shared
// memory, over the pipeline's buffers.
#if CLUSTER_REDUCE
// Bytes that a block sends to another: of WORDS accumulators of each thread of FRAGS rows of fragments, a share.
template <int FRAGS, int WORDS>
__device__ __forceinline__ constexpr int sent_bytes() { return GROUPS * 128 * FRAGS * (WORDS / SPLIT) * 4; }

// Adds up this block's share. `thread` counts those of all consumers, `sent` is the barrier that counts arriving bytes.
template <class Number, int FRAGS, int WORDS>
__device__ __forceinline__ void reduce_in_cluster(
    Number (&own)[FRAGS][WORDS / SPLIT], const Number (&sum)[FRAGS][WORDS], unsigned buffers, unsigned sent, unsigned thread) {
  constexpr int OWN_WORDS = WORDS / SPLIT, VECTORS = OWN_WORDS / 4, PITCH = GROUPS * 128 * 16;
  constexpr int SENT_BYTES = sent_bytes<FRAGS, WORDS>();
  static_assert(WORDS % (4 * SPLIT) == 0, "a block must reduce whole fragments");
  const unsigned here = blockIdx.z;
  // All blocks are done with their pipelines; producer threads have exited or will.
  cluster_arrive();
  cluster_wait();
#pragma unroll
  for (unsigned rank = 0; rank < SPLIT; ++rank) {
    if (rank == here) {
#pragma unroll
      for (int i = 0; i < FRAGS; ++i)
#pragma unroll
        for (int j = 0; j < OWN_WORDS; ++j) own[i][j] = sum[i][rank * OWN_WORDS + j];
      continue;
    }
    const unsigned peer = here < rank ? here : here - 1;
    const unsigned block = rank * CLUSTER_BLOCKS + blockIdx.x % CLUSTER_BLOCKS;
    // Vectors of all threads are interleaved.
    const unsigned to = remote_address(buffers + peer * SENT_BYTES + thread * 16, block);
    const unsigned barrier = remote_address(sent, block);
#pragma unroll
    for (int i = 0; i < FRAGS; ++i)
#pragma unroll
      for (int j = 0; j < VECTORS; ++j) {
        const float* const four = reinterpret_cast<const float*>(sum[i] + rank * OWN_WORDS + j * 4);
        send(to + (i * VECTORS + j) * PITCH, barrier, four[0], four[1], four[2], four[3]);
      }
  }
  barrier_wait(sent, 0);
  const char* const from = static_cast<char*>(__cvta_shared_to_generic(buffers)) + thread * 16;
#pragma unroll
  for (int peer = 0; peer < SPLIT - 1; ++peer)
#pragma unroll
    for (int i = 0; i < FRAGS; ++i)
#pragma unroll
      for (int j = 0; j < VECTORS; ++j) {
        Number four[4], *const to = own[i] + j * 4;
        *reinterpret_cast<float4*>(four) =
            *reinterpret_cast<const float4*>(from + peer * SENT_BYTES + (i * VECTORS + j) * PITCH);
        to[0] += four[0], to[1] += four[1], to[2] += four[2], to[3] += four[3];
      }
}
#endif
