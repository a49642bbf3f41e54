// Products of 8-bit integers by wgmma, with sums in int32. Two integers stand in each 16-bit place of an operand, so
// panels and descriptors are as wgmma.h has them for 16-bit floats; a product takes 32 integers along K, which must be
// neighbours in both operands.
typedef int Sum;
#undef DEFINE_PRODUCT
#ifdef AUTOTUNE_EMULATE
#define DEFINE_PRODUCT(NAME, TURNS, COLUMNS, WORDS, NAMES, SUMS, LEFT, RIGHT, ADD) \
  static inline void NAME(int (&sum)[WORDS], descriptor left, descriptor right, bool add) { \
    emulate_product(sum, left, right, add); \
  }

template <int WORDS>
static inline void emulate_product(int (&sum)[WORDS], descriptor left, descriptor right, bool add) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
  for (int word = 0; word < WORDS; ++word) {
    const int row = warp * 16 + lane / 4 + word / 2 % 2 * 8, column = word / 4 * 8 + lane % 4 * 2 + word % 2;
    int total = add ? sum[word] : 0;
    for (int k = 0; k < DEPTH; ++k) {
      const int a = *operand_item(left, false, row, k), b = *operand_item(right, false, column, k);
      total += static_cast<signed char>(a) * static_cast<signed char>(b) +
               static_cast<signed char>(a >> 8) * static_cast<signed char>(b >> 8);
    }
    sum[word] = total;
  }
}

template <int WORDS> static inline void sums_are_new(int (&sum)[WORDS]) {}
#else
#define DEFINE_PRODUCT(NAME, TURNS, COLUMNS, WORDS, NAMES, SUMS, LEFT, RIGHT, ADD) \
  __device__ __forceinline__ void NAME( \
      int (&sum)[WORDS], descriptor left, descriptor right, bool add) { \
    asm volatile( \
        "{ .reg .pred add;\nsetp.ne.b32 add, " ADD ", 0;\n" \
        "wgmma.mma_async.sync.aligned.m64n" COLUMNS "k32.s32.s8.s8 {" NAMES "}, " LEFT ", " RIGHT ", add; }" \
        : SUMS \
        : "l"(left), "l"(right), "r"(static_cast<int>(add))); \
  }

template <int WORDS>
__device__ __forceinline__ void sums_are_new(int (&sum)[WORDS]) {
#pragma unroll
  for (int i = 0; i < WORDS; ++i) asm volatile("" : "+r"(sum[i])::"memory");
}
#endif
