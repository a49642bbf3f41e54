#ifdef AUTOTUNE_EMULATE
static inline void wgmma_fence() {}
static inline void wgmma_commit() {}
template <int PENDING> static inline void wgmma_wait() {}
template <int COUNT> static inline void wgmma_sums(float&) {}
static inline void wgmma_show() {}
template <class T> static inline float wgmma_value(T item) { return (float)item; }
static inline float wgmma_value(float item) {
  return __uint_as_float(__float_as_uint(item) & ~0x1fffu);
}
// Returns an item of an operand: of the row or column `across`, the one `k` along the reduction.
template <int TURNED, class T>
static inline float wgmma_item(const T* tile, int begin, int panel, int across, int k) {
  constexpr int LENGTH = 128 / sizeof(T), VECTOR = 16 / sizeof(T), ITEM = sizeof(T);
  const int row = TURNED ? k : across, column = TURNED ? across : k;
  const int plain = begin + column / LENGTH * (panel / ITEM) + row * LENGTH + column % LENGTH;
  return wgmma_value(tile[plain ^ (plain / LENGTH & 7) * VECTOR]);
}
#else
// Describes an operand that begins some bytes after a tile: eight rows are 1024 bytes before the
// next eight, a panel is so many before the next, and vectors are exchanged. Operands of a tile
// differ by a sum only.
static __device__ __forceinline__ unsigned long long wgmma_operand(
    const void* tile, unsigned begin, int panel) {
  const unsigned place = (unsigned)__cvta_generic_to_shared(tile) & 0x3ffff;
  const unsigned long long layout = 1ull << 62 | 1024ull >> 4 << 32;
  return (layout | (unsigned long long)(panel >> 4) << 16 | place >> 4) + (begin >> 4);
}

// Orders what threads did to their sums before the instructions that follow.
static __device__ __forceinline__ void wgmma_fence() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

static __device__ __forceinline__ void wgmma_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

// Waits until at most so many groups of instructions are still at work.
template <int PENDING>
static __device__ __forceinline__ void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory");
}

// Keeps the compiler from reading sums before a wait, which it does not know to concern them.
template <int COUNT>
static __device__ __forceinline__ void wgmma_sums(float& first) {
  float* const sum = &first;
#pragma unroll
  for (int i = 0; i < COUNT; ++i) asm volatile("" : "+f"(sum[i])::"memory");
}

// Makes stores to shared memory visible to instructions, which read it by another way.
static __device__ __forceinline__ void wgmma_show() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
#endif
