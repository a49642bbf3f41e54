// wgmma (sm_90a) of 16-bit floats, or of floats as TF32, with float32 accumulators, and descriptors of shared-memory
// operands.
//
// Operands are in panels: rows of 128 bytes, PANEL items, with the 128-byte swizzle: the index of a 16-byte vector is
// XORed with the row modulo 8, so that neither copies nor wgmma have bank conflicts. Panels are aligned to 1024 bytes.
// Rows are contiguous along K (K-major) or, of 16-bit floats, across it (MN-major).
typedef unsigned short half_bits;
typedef unsigned long long descriptor;
constexpr int PANEL = 128 / sizeof(Item);

// Returns the descriptor of an operand at `at`: groups of eight rows are 1024 bytes apart, and panels that one wgmma
// spans `panel_bytes`.
__device__ __forceinline__ descriptor make_descriptor(unsigned at, unsigned panel_bytes) {
  constexpr descriptor SWIZZLE_128 = 1ull << 62;
  return SWIZZLE_128 | (1024ull >> 4) << 32 | static_cast<descriptor>(panel_bytes >> 4) << 16 |
         (at & 0x3ffff) >> 4;
}

// Increment of a descriptor for an operand `bytes` later.
__device__ __forceinline__ constexpr descriptor descriptor_offset(int bytes) { return bytes >> 4; }

#if TF32
#define WGMMA_TYPES "k8.f32.tf32.tf32 "
#elif BFLOAT16
#define WGMMA_TYPES "k16.f32.bf16.bf16 "
#else
#define WGMMA_TYPES "k16.f32.f16.f16 "
#endif
#define NAMES_10(tens) \
  "%" tens "0, %" tens "1, %" tens "2, %" tens "3, %" tens "4, " \
  "%" tens "5, %" tens "6, %" tens "7, %" tens "8, %" tens "9, "
#define NAMES_30 NAMES_10("") NAMES_10("1") NAMES_10("2")
#define NAMES_60 NAMES_30 NAMES_10("3") NAMES_10("4") NAMES_10("5")
#define NAMES_90 NAMES_60 NAMES_10("6") NAMES_10("7") NAMES_10("8")
#define NAMES_120 NAMES_90 NAMES_10("9") NAMES_10("10") NAMES_10("11")
#define SUMS_4(i) "+f"(sum[i]), "+f"(sum[i + 1]), "+f"(sum[i + 2]), "+f"(sum[i + 3])
#define SUMS_16(i) SUMS_4(i), SUMS_4(i + 4), SUMS_4(i + 8), SUMS_4(i + 12)
#define SUMS_32(i) SUMS_16(i), SUMS_16(i + 16)
#define SUMS_64(i) SUMS_32(i), SUMS_32(i + 32)
#define SUMS_48(i) SUMS_32(i), SUMS_16(i + 32)
#define SUMS_96(i) SUMS_64(i), SUMS_32(i + 64)
#define SUMS_128(i) SUMS_64(i), SUMS_64(i + 64)

// Issues sum = left * right, plus sum if `add`: 64 x COLUMNS accumulators, 32 bytes along K. Of each 8 columns a thread
// holds lane % 4 * 2 and the next, in rows lane / 4 (words 0 and 1) and lane / 4 + 8 (2 and 3) of its warp's 16.
// TRANSPOSES is ", 0, 0" for K-major operands, with a 1 for a left or right operand that is MN-major (imm-trans-a and
// -b); TF32 has none.
#ifdef AUTOTUNE_EMULATE
#define DEFINE_WGMMA(NAME, TRANSPOSES, COLUMNS, WORDS, NAMES, SUMS, LEFT, RIGHT, ADD) \
  static inline void NAME(float (&sum)[WORDS], descriptor left, descriptor right, bool add) { \
    emulate_wgmma(sum, left, right, add, "" TRANSPOSES); \
  }
#else
#define DEFINE_WGMMA(NAME, TRANSPOSES, COLUMNS, WORDS, NAMES, SUMS, LEFT, RIGHT, ADD) \
  __device__ __forceinline__ void NAME( \
      float (&sum)[WORDS], descriptor left, descriptor right, bool add) { \
    asm volatile( \
        "{ .reg .pred add;\nsetp.ne.b32 add, " ADD ", 0;\n" \
        "wgmma.mma_async.sync.aligned.m64n" COLUMNS WGMMA_TYPES "{" NAMES "}, " LEFT ", " RIGHT \
        ", add, 1, 1" TRANSPOSES "; }" \
        : SUMS \
        : "l"(left), "l"(right), "r"(static_cast<int>(add))); \
  }
#endif
#define DEFINE_WGMMAS(NAME, TRANSPOSES) \
  DEFINE_WGMMA(NAME, TRANSPOSES, "64", 32, NAMES_30 "%30, %31", SUMS_32(0), "%32", "%33", "%34") \
  DEFINE_WGMMA(NAME, TRANSPOSES, "96", 48, NAMES_30 NAMES_10("3") "%40, %41, %42, %43, %44, %45, %46, %47", \
                 SUMS_48(0), "%48", "%49", "%50") \
  DEFINE_WGMMA(NAME, TRANSPOSES, "128", 64, NAMES_60 "%60, %61, %62, %63", SUMS_64(0), "%64", "%65", \
                 "%66") \
  DEFINE_WGMMA(NAME, TRANSPOSES, "192", 96, NAMES_90 "%90, %91, %92, %93, %94, %95", SUMS_96(0), "%96", \
                 "%97", "%98") \
  DEFINE_WGMMA(NAME, TRANSPOSES, "256", 128, \
                 NAMES_120 "%120, %121, %122, %123, %124, %125, %126, %127", SUMS_128(0), "%128", \
                 "%129", "%130")

// The same with the left operand in registers, laid out as for `multiply_add` and not to be written before the wgmma
// completes; TRANSPOSES_RIGHT is ", 0" if the right operand is K-major, else ", 1".
#ifdef AUTOTUNE_EMULATE
#define DEFINE_RS_WGMMA(NAME, TRANSPOSES_RIGHT, COLUMNS, WORDS, NAMES, SUMS, LEFT, RIGHT, ADD) \
  static inline void NAME(float (&sum)[WORDS], const unsigned (&left)[4], descriptor right, bool add) { \
    emulate_rs_wgmma(sum, left, right, add, TRANSPOSES_RIGHT); \
  }
#else
#define DEFINE_RS_WGMMA(NAME, TRANSPOSES_RIGHT, COLUMNS, WORDS, NAMES, SUMS, LEFT, RIGHT, ADD) \
  __device__ __forceinline__ void NAME( \
      float (&sum)[WORDS], const unsigned (&left)[4], descriptor right, bool add) { \
    asm volatile( \
        "{ .reg .pred add;\nsetp.ne.b32 add, " ADD ", 0;\n" \
        "wgmma.mma_async.sync.aligned.m64n" COLUMNS WGMMA_TYPES "{" NAMES "}, {" LEFT "}, " RIGHT \
        ", add, 1, 1" TRANSPOSES_RIGHT "; }" \
        : SUMS \
        : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "l"(right), \
          "r"(static_cast<int>(add))); \
  }
#endif

#ifdef AUTOTUNE_EMULATE
// Address of an item of an operand: row or column `across`, index `k` along K.
static inline Item* operand_item(descriptor d, bool transposed, int across, int k) {
  const unsigned begin = (d & 0x3fff) << 4, eight_rows = (d >> 32 & 0x3fff) << 4;
  const unsigned panels = (d >> 16 & 0x3fff) << 4, size = sizeof(Item);
  const int row = transposed ? k : across, column = transposed ? across : k;
  const unsigned plain = begin + row / 8 * eight_rows + row % 8 * 128 + column * size +
                         (transposed ? column / PANEL * (panels - 128) : 0);
  return static_cast<Item*>(__cvta_shared_to_generic(plain ^ (plain >> 7 & 7) << 4));
}

static inline float value_of(const Item* item) {
#if TF32
  return __uint_as_float(__float_as_uint(*item) & ~0x1fffu);
#else
  return float_of(*item);
#endif
}

template <int WORDS>
static inline void emulate_wgmma(
    float (&sum)[WORDS], descriptor left, descriptor right, bool add, const char* transposes) {
  const bool left_transposed = transposes[0] && transposes[2] == '1', right_transposed = transposes[0] && transposes[5] == '1';
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
  for (int word = 0; word < WORDS; ++word) {
    const int row = warp * 16 + lane / 4 + word / 2 % 2 * 8, column = word / 4 * 8 + lane % 4 * 2 + word % 2;
    float total = add ? sum[word] : 0.0f;
    for (int k = 0; k < DEPTH; ++k)
      total += value_of(operand_item(left, left_transposed, row, k)) *
               value_of(operand_item(right, right_transposed, column, k));
    sum[word] = total;
  }
}

template <int WORDS>
static inline void emulate_rs_wgmma(
    float (&sum)[WORDS], const unsigned (&left)[4], descriptor right, bool add, const char* transposes_right) {
  const int lane = threadIdx.x % 32;
  for (int half = 0; half < 2; ++half) {
    float row[DEPTH];
    for (int pair = 0; pair < DEPTH / 2; ++pair) {
      const unsigned word = __shfl_sync(0xffffffffu, left[pair / 4 * 2 + half], lane / 4 * 4 + pair % 4);
      row[2 * pair] = float_of(word & 0xffff), row[2 * pair + 1] = float_of(word >> 16);
    }
    for (int i = 0; i < WORDS / 2; ++i) {
      const int word = i / 2 * 4 + half * 2 + i % 2, column = i / 2 * 8 + lane % 4 * 2 + i % 2;
      float total = add ? sum[word] : 0.0f;
      for (int k = 0; k < DEPTH; ++k)
        total += row[k] * value_of(operand_item(right, transposes_right[2] == '1', column, k));
      sum[word] = total;
    }
  }
}

static inline void wgmma_fence() {}
static inline void wgmma_commit() {}
// All lanes of a warp wait together.
template <int PENDING> static inline void wgmma_wait() { __syncwarp(); }
template <int WORDS> static inline void fence_accumulators(float (&sum)[WORDS]) {}
#else
// Orders register accesses before the wgmma that follow.
__device__ __forceinline__ void wgmma_fence() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

__device__ __forceinline__ void wgmma_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

// Waits until at most PENDING committed groups of wgmma are in flight.
template <int PENDING>
__device__ __forceinline__ void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory");
}

// Keeps the compiler from moving reads of accumulators before the wait.
template <int WORDS>
__device__ __forceinline__ void fence_accumulators(float (&sum)[WORDS]) {
#pragma unroll
  for (int i = 0; i < WORDS; ++i) asm volatile("" : "+f"(sum[i])::"memory");
}
#endif
