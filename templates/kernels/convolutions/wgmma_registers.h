// wgmma (sm_90a) with the left operand in registers, in the fragment layout of `multiply_add`. The right operand is in
// shared memory without swizzle, as core matrices of eight columns with 16 bytes along K each. The two strides between
// core matrices are free, so a convolution's input tile is the operand as it is: the next tap starts at another cell.

// Returns the descriptor of an operand at `at`, with a stride of `across` bytes between core matrices along N. The
// stride along K comes from `along`.
__device__ __forceinline__ descriptor describe_cells(unsigned at, unsigned across) {
  return static_cast<descriptor>(across >> 4) << 32 | (at & 0x3ffff) >> 4;
}

__device__ __forceinline__ constexpr descriptor along(int cells) { return static_cast<descriptor>(cells) << 16; }

// Names of the operands of an instruction, four by four.
#define FOURS_2 "%0, %1, %2, %3, %4, %5, %6, %7"
#define FOURS_4 FOURS_2 ", %8, %9, %10, %11, %12, %13, %14, %15"
#define FOURS_5 FOURS_4 ", %16, %17, %18, %19"
#define FOURS_6 FOURS_5 ", %20, %21, %22, %23"
#define FOURS_7 FOURS_6 ", %24, %25, %26, %27"
#define FOURS_8 FOURS_7 ", %28, %29, %30, %31"
#define FOURS_10 FOURS_8 ", %32, %33, %34, %35, %36, %37, %38, %39"
#define FOURS_12 FOURS_10 ", %40, %41, %42, %43, %44, %45, %46, %47"
#define FOURS_14 FOURS_12 ", %48, %49, %50, %51, %52, %53, %54, %55"
#define SUMS_8(i) SUMS_4(i), SUMS_4(i + 4)
#define SUMS_20(i) SUMS_16(i), SUMS_4(i + 16)
#define SUMS_24(i) SUMS_16(i), SUMS_8(i + 16)
#define SUMS_28(i) SUMS_24(i), SUMS_4(i + 24)
#define SUMS_40(i) SUMS_20(i), SUMS_20(i + 20)
#define SUMS_56(i) SUMS_28(i), SUMS_28(i + 28)

#ifdef AUTOTUNE_EMULATE
template <int WORDS>
static inline void issue_wgmma(float (&sum)[WORDS], const unsigned (&left)[4], descriptor right, bool add) {
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
      for (int k = 0; k < DEPTH; ++k) total += row[k] * packed_item(right, column, k);
      sum[word] = total;
    }
  }
}
#else
DEFINE_RS_WGMMA(issue_wgmma, ", 0", "16", 8, FOURS_2, SUMS_8(0), "%8, %9, %10, %11", "%12", "%13")
DEFINE_RS_WGMMA(issue_wgmma, ", 0", "32", 16, FOURS_4, SUMS_16(0), "%16, %17, %18, %19", "%20", "%21")
DEFINE_RS_WGMMA(issue_wgmma, ", 0", "40", 20, FOURS_5, SUMS_20(0), "%20, %21, %22, %23", "%24", "%25")
DEFINE_RS_WGMMA(issue_wgmma, ", 0", "48", 24, FOURS_6, SUMS_24(0), "%24, %25, %26, %27", "%28", "%29")
DEFINE_RS_WGMMA(issue_wgmma, ", 0", "56", 28, FOURS_7, SUMS_28(0), "%28, %29, %30, %31", "%32", "%33")
DEFINE_RS_WGMMA(issue_wgmma, ", 0", "64", 32, FOURS_8, SUMS_32(0), "%32, %33, %34, %35", "%36", "%37")
DEFINE_RS_WGMMA(issue_wgmma, ", 0", "80", 40, FOURS_10, SUMS_40(0), "%40, %41, %42, %43", "%44", "%45")
DEFINE_RS_WGMMA(issue_wgmma, ", 0", "96", 48, FOURS_12, SUMS_48(0), "%48, %49, %50, %51", "%52", "%53")
DEFINE_RS_WGMMA(issue_wgmma, ", 0", "112", 56, FOURS_14, SUMS_56(0), "%56, %57, %58, %59", "%60", "%61")
#endif
