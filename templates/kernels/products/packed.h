// Operands of wgmma that were packed, in global memory already, as they stand in shared memory: copies of a run
// of bytes by TMA (sm_90a), and what tells products where operands are.
//
// Items are neighbours along K. Blocks of eight rows (of the right operand: columns) of 16 bytes, 128 bytes each,
// stand side by side across K, so that neither copies nor products has bank conflicts.

// Describes an operand that begins at `at`; the blocks of the next VECTOR items along K are `along_k` bytes
// further.
__device__ __forceinline__ descriptor make_block_descriptor(unsigned at, unsigned along_k) {
  return (128ull >> 4) << 32 | static_cast<descriptor>(along_k >> 4) << 16 | (at & 0x3ffff) >> 4;
}

#ifdef AUTOTUNE_EMULATE
static inline float packed_item(descriptor d, int across, int k) {
  const unsigned begin = (d & 0x3fff) << 4, along_k = (d >> 16 & 0x3fff) << 4, eight_rows = (d >> 32 & 0x3fff) << 4;
  const unsigned at = begin + k / VECTOR * along_k + across / 8 * eight_rows + across % 8 * 16;
  return float_of(static_cast<Item*>(__cvta_shared_to_generic(at))[k % VECTOR]);
}

template <int WORDS>
static inline void issue_packed_wgmma(float (&sum)[WORDS], descriptor left, descriptor right, bool add) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
  for (int word = 0; word < WORDS; ++word) {
    const int row = warp * 16 + lane / 4 + word / 2 % 2 * 8, column = word / 4 * 8 + lane % 4 * 2 + word % 2;
    float total = add ? sum[word] : 0.0f;
    for (int k = 0; k < DEPTH; ++k) total += packed_item(left, row, k) * packed_item(right, column, k);
    sum[word] = total;
  }
}

static inline void barrier_arrive_expect_tx(unsigned barrier, int) { barrier_arrive(barrier); }

static inline void copy_bytes(unsigned to, const void* from, int bytes, unsigned) {
  memcpy(__cvta_shared_to_generic(to), from, static_cast<size_t>(bytes));
}
#else
DEFINE_WGMMAS(issue_packed_wgmma, ", 0, 0")

// Arrives, and lets the phase last until so many bytes have been copied in it.
__device__ __forceinline__ void barrier_arrive_expect_tx(unsigned barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

// Begins a copy to the shared address `to`, which tells the barrier of the bytes that have arrived; both
// addresses and the size are multiples of 16 bytes.
__device__ __forceinline__ void copy_bytes(unsigned to, const void* from, int bytes, unsigned barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
      "l"(__cvta_generic_to_global(from)), "r"(bytes), "r"(barrier)
      : "memory");
}
#endif
