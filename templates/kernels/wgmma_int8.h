// wgmma of 8-bit integers with int32 accumulators. Each 16-bit item holds two integers, so panels and descriptors are
// those of 16-bit floats in wgmma.h; one wgmma spans 32 integers along K, and both operands are K-major, or the left one
// is in registers, laid out as for `mma.sync`. The left one has no sign where DATA_SIGNED is 0.
typedef int Sum;
#if defined(DATA_SIGNED) && !DATA_SIGNED
#define LEFT_BYTES "u8"
typedef unsigned char LeftByte;
#else
#define LEFT_BYTES "s8"
typedef signed char LeftByte;
#endif
#undef DEFINE_WGMMA
#undef DEFINE_RS_WGMMA
#ifdef AUTOTUNE_EMULATE
#define DEFINE_WGMMA(NAME, TRANSPOSES, COLUMNS, WORDS, NAMES, SUMS, LEFT, RIGHT, ADD) \
  static inline void NAME(int (&sum)[WORDS], descriptor left, descriptor right, bool add) { \
    emulate_wgmma(sum, left, right, add); \
  }

template <int WORDS>
static inline void emulate_wgmma(int (&sum)[WORDS], descriptor left, descriptor right, bool add) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
  for (int word = 0; word < WORDS; ++word) {
    const int row = warp * 16 + lane / 4 + word / 2 % 2 * 8, column = word / 4 * 8 + lane % 4 * 2 + word % 2;
    int total = add ? sum[word] : 0;
    for (int k = 0; k < DEPTH; ++k) {
      const int a = *operand_item(left, false, row, k), b = *operand_item(right, false, column, k);
      total += static_cast<LeftByte>(a) * static_cast<signed char>(b) +
               static_cast<LeftByte>(a >> 8) * static_cast<signed char>(b >> 8);
    }
    sum[word] = total;
  }
}

#define DEFINE_RS_WGMMA(NAME, COLUMNS, WORDS, NAMES, SUMS, LEFT, RIGHT, ADD) \
  static inline void NAME(int (&sum)[WORDS], const unsigned (&left)[4], descriptor right, bool add) { \
    emulate_rs_wgmma(sum, left, right, add); \
  }

static inline int dot_of_pairs(unsigned a, unsigned b) {
  return static_cast<LeftByte>(a) * static_cast<signed char>(b) +
         static_cast<LeftByte>(a >> 8) * static_cast<signed char>(b >> 8);
}

template <int WORDS>
static inline void emulate_rs_wgmma(int (&sum)[WORDS], const unsigned (&left)[4], descriptor right, bool add) {
  const int lane = threadIdx.x % 32;
  for (int half = 0; half < 2; ++half) {
    unsigned row[DEPTH];
    for (int k = 0; k < DEPTH; k += 2) {
      const unsigned four = __shfl_sync(0xffffffffu, left[k / 8 * 2 + half], lane / 4 * 4 + k / 2 % 4);
      row[k] = four & 0xffff, row[k + 1] = four >> 16;
    }
    for (int i = 0; i < WORDS / 2; ++i) {
      const int word = i / 2 * 4 + half * 2 + i % 2, column = i / 2 * 8 + lane % 4 * 2 + i % 2;
      int total = add ? sum[word] : 0;
      for (int k = 0; k < DEPTH; ++k) total += dot_of_pairs(row[k], *operand_item(right, false, column, k));
      sum[word] = total;
    }
  }
}

template <int WORDS> static inline void fence_accumulators(int (&sum)[WORDS]) {}
#else
#define DEFINE_RS_WGMMA(NAME, COLUMNS, WORDS, NAMES, SUMS, LEFT, RIGHT, ADD) \
  __device__ __forceinline__ void NAME( \
      int (&sum)[WORDS], const unsigned (&left)[4], descriptor right, bool add) { \
    asm volatile( \
        "{ .reg .pred add;\nsetp.ne.b32 add, " ADD ", 0;\n" \
        "wgmma.mma_async.sync.aligned.m64n" COLUMNS "k32.s32." LEFT_BYTES ".s8 {" NAMES "}, {" LEFT "}, " RIGHT ", add; }" \
        : SUMS \
        : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "l"(right), \
          "r"(static_cast<int>(add))); \
  }

#define DEFINE_WGMMA(NAME, TRANSPOSES, COLUMNS, WORDS, NAMES, SUMS, LEFT, RIGHT, ADD) \
  __device__ __forceinline__ void NAME( \
      int (&sum)[WORDS], descriptor left, descriptor right, bool add) { \
    asm volatile( \
        "{ .reg .pred add;\nsetp.ne.b32 add, " ADD ", 0;\n" \
        "wgmma.mma_async.sync.aligned.m64n" COLUMNS "k32.s32." LEFT_BYTES ".s8 {" NAMES "}, " LEFT ", " RIGHT ", add; }" \
        : SUMS \
        : "l"(left), "l"(right), "r"(static_cast<int>(add))); \
  }

template <int WORDS>
__device__ __forceinline__ void fence_accumulators(int (&sum)[WORDS]) {
#pragma unroll
  for (int i = 0; i < WORDS; ++i) asm volatile("" : "+r"(sum[i])::"memory");
}
#endif
