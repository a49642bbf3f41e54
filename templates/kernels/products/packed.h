// Operands of wgmma that were packed in global memory in the layout that they have in shared memory: bulk copies
// (cp.async.bulk, sm_90a) and matrix descriptors.
//
// The layout is K-major without swizzle: core matrices of eight rows (of the right operand: columns) of 16 bytes, 128
// contiguous bytes each, are contiguous across K, so that neither copies nor wgmma have bank conflicts.

// Returns the descriptor of an operand at `at`, with a stride of `along_k` bytes between core matrices along K.
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

static inline void copy_bytes(unsigned to, const void* from, int bytes, unsigned barrier) {
  memcpy(__cvta_shared_to_generic(to), from, static_cast<size_t>(bytes));
  barrier_complete_tx(barrier, bytes);
}
#else
DEFINE_WGMMAS(issue_packed_wgmma, ", 0, 0")

// Issues a bulk copy to the shared address `to`, which signals the mbarrier by its bytes; addresses and size are
// multiples of 16 bytes.
__device__ __forceinline__ void copy_bytes(unsigned to, const void* from, int bytes, unsigned barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
      "l"(__cvta_generic_to_global(from)), "r"(bytes), "r"(barrier)
      : "memory");
}
#endif
