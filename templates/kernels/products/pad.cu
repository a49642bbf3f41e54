// Padded copies of matrices of 16-bit elements, floats as two of them: ROWS_FROM rows of FROM elements become ROWS_TO rows
// of TO elements, a multiple of 8, with zeros beyond. A thread stores a vector of eight elements, combined by funnel shifts from the two
// aligned vectors that it straddles. One launch pads both operands of a product.
constexpr int PAD_THREADS = 256;

#if TF32
typedef float PadItem;
#else
typedef unsigned short PadItem;
#endif

// 32-bit indices where these suffice.
template <bool SMALL> struct Index { typedef long long type; };
template <> struct Index<true> { typedef unsigned type; };

// Shifts eight elements from index `skipped` on to the front, and sets those from index `count` on to 0.
__device__ __forceinline__ void shift_together(unsigned (&word)[8], int skipped, int count) {
#pragma unroll
  for (int i = 0; i < 6; ++i) word[i] = skipped & 4 ? word[i + 2] : word[i];
#pragma unroll
  for (int i = 0; i < 5; ++i) word[i] = skipped & 2 ? word[i + 1] : word[i];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    word[i] = __funnelshift_r(word[i], word[i + 1], skipped % 2 * 16);
    word[i] &= count > 2 * i + 1 ? 0xffffffffu : count > 2 * i ? 0xffffu : 0u;
  }
}

template <int FROM, int TO, int ROWS_FROM, int ROWS_TO, int COUNT>
struct Rows {
  static constexpr long long VECTORS = static_cast<long long>(COUNT) * ROWS_TO * (TO / 8);
  static constexpr int BLOCKS = static_cast<int>((VECTORS - 1) / PAD_THREADS) + 1;

  static __device__ __forceinline__ void copy(
      const PadItem* __restrict__ items, PadItem* __restrict__ padded, int block) {
    const unsigned short* const from = reinterpret_cast<const unsigned short*>(items);
    unsigned short* const to = reinterpret_cast<unsigned short*>(padded);
    typedef typename Index<(VECTORS < (1ll << 30))>::type Number;
    const Number i = static_cast<Number>(block) * PAD_THREADS + threadIdx.x;
    if (i >= VECTORS) return;
    const Number row = i / (TO / 8), inside = row % ROWS_TO;
    const int column = static_cast<int>(i - row * (TO / 8)) * 8;
    const long long start = static_cast<long long>(row / ROWS_TO * ROWS_FROM + inside) * FROM;
    const unsigned short* const source = from + start + column;
    const unsigned long long address = reinterpret_cast<unsigned long long>(source);
    const char* const at = reinterpret_cast<const char*>(source) - address % 16;
    const char* const end = reinterpret_cast<const char*>(from + static_cast<long long>(COUNT) * ROWS_FROM * FROM);
    const int count = inside < ROWS_FROM ? FROM - column : 0;
    int skipped = static_cast<int>(address % 16) / 2;
    unsigned word[8] = {};
    if (count > 0 && at + 32 <= end) {
      const uint4 low = *reinterpret_cast<const uint4*>(at), high = *reinterpret_cast<const uint4*>(at + 16);
      word[0] = low.x, word[1] = low.y, word[2] = low.z, word[3] = low.w;
      word[4] = high.x, word[5] = high.y, word[6] = high.z, word[7] = high.w;
    } else {  // a vector here would be read beyond the array: elements are loaded one by one
      skipped = 0;
#pragma unroll
      for (int j = 0; j < 8; ++j)
        if (j < count) word[j / 2] |= static_cast<unsigned>(source[j]) << j % 2 * 16;
    }
    shift_together(word, skipped, count);
    *reinterpret_cast<uint4*>(to + i * 8) = make_uint4(word[0], word[1], word[2], word[3]);
  }
};

typedef Rows<A_ROW, A_LONG, A_ROWS, A_ALL, A_COUNT> RowsOfA;
typedef Rows<B_ROW, B_LONG, B_ROWS, B_ALL, B_COUNT> RowsOfB;

#if PAD_A && PAD_B
extern "C" __global__ void __launch_bounds__(PAD_THREADS) pad(
    const PadItem* __restrict__ a, PadItem* __restrict__ padded_a,
    const PadItem* __restrict__ b, PadItem* __restrict__ padded_b) {
  launch_dependent_grids();
  const int block = static_cast<int>(blockIdx.x);
  if (block < RowsOfA::BLOCKS) RowsOfA::copy(a, padded_a, block);
  else RowsOfB::copy(b, padded_b, block - RowsOfA::BLOCKS);
}
#elif PAD_A
extern "C" __global__ void __launch_bounds__(PAD_THREADS) pad(
    const PadItem* __restrict__ a, PadItem* __restrict__ padded_a) {
  launch_dependent_grids();
  RowsOfA::copy(a, padded_a, static_cast<int>(blockIdx.x));
}
#else
extern "C" __global__ void __launch_bounds__(PAD_THREADS) pad(
    const PadItem* __restrict__ b, PadItem* __restrict__ padded_b) {
  launch_dependent_grids();
  RowsOfB::copy(b, padded_b, static_cast<int>(blockIdx.x));
}
#endif
