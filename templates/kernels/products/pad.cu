// Padded copies of matrices of 16-bit elements: ROWS_FROM rows of FROM elements become ROWS_TO rows of TO elements, a
// multiple of 8, with zeros beyond. A thread stores vectors of eight elements, each combined by funnel shifts from the
// two aligned vectors that it straddles. One launch pads both operands of a product.
constexpr int PAD_THREADS = 256, PAD_VECTORS = 2;

struct Vectors {
  unsigned word[8];
};

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
  static constexpr int BLOCKS = static_cast<int>((VECTORS - 1) / (PAD_THREADS * PAD_VECTORS)) + 1;

  static __device__ __forceinline__ void copy(
      const unsigned short* __restrict__ from, unsigned short* __restrict__ to, int block) {
    const char* const end = reinterpret_cast<const char*>(from + static_cast<long long>(COUNT) * ROWS_FROM * FROM);
    typedef typename Index<(VECTORS < (1ll << 30))>::type Number;
    const Number first = static_cast<Number>(block) * (PAD_THREADS * PAD_VECTORS) + threadIdx.x;
    Vectors read[PAD_VECTORS];
    const unsigned short* source[PAD_VECTORS];
    int skipped[PAD_VECTORS], count[PAD_VECTORS];
    bool last[PAD_VECTORS];
#pragma unroll
    for (int v = 0; v < PAD_VECTORS; ++v) {
      const Number i = first + v * PAD_THREADS, row = i / (TO / 8), inside = row % ROWS_TO;
      const int column = static_cast<int>(i - row * (TO / 8)) * 8;
      source[v] = from + static_cast<long long>(row / ROWS_TO * ROWS_FROM + inside) * FROM + column;
      const unsigned long long address = reinterpret_cast<unsigned long long>(source[v]);
      const char* const at = reinterpret_cast<const char*>(source[v]) - address % 16;
      skipped[v] = static_cast<int>(address % 16) / 2;
      count[v] = i < VECTORS && inside < ROWS_FROM ? FROM - column : 0;
      last[v] = at + 32 > end;
      uint4 low = make_uint4(0, 0, 0, 0), high = low;
      if (count[v] > 0 && !last[v]) {
        low = *reinterpret_cast<const uint4*>(at);
        high = *reinterpret_cast<const uint4*>(at + 16);
      }
      read[v].word[0] = low.x, read[v].word[1] = low.y, read[v].word[2] = low.z, read[v].word[3] = low.w;
      read[v].word[4] = high.x, read[v].word[5] = high.y, read[v].word[6] = high.z, read[v].word[7] = high.w;
    }
#pragma unroll
    for (int v = 0; v < PAD_VECTORS; ++v) {
      const Number i = first + v * PAD_THREADS;
      unsigned (&word)[8] = read[v].word;
      if (count[v] > 0 && last[v]) {  // a vector here would be read beyond the array: elements are loaded one by one
        skipped[v] = 0;
#pragma unroll
        for (int j = 0; j < 8; ++j)
          if (j < count[v]) word[j / 2] |= static_cast<unsigned>(source[v][j]) << j % 2 * 16;
      }
      shift_together(word, skipped[v], count[v]);
      if (i < VECTORS) *reinterpret_cast<uint4*>(to + i * 8) = make_uint4(word[0], word[1], word[2], word[3]);
    }
  }
};

typedef Rows<A_ROW, A_LONG, A_ROWS, A_ALL, A_COUNT> RowsOfA;
typedef Rows<B_ROW, B_LONG, B_ROWS, B_ALL, B_COUNT> RowsOfB;

#if PAD_A && PAD_B
extern "C" __global__ void __launch_bounds__(PAD_THREADS) pad(
    const unsigned short* __restrict__ a, unsigned short* __restrict__ padded_a,
    const unsigned short* __restrict__ b, unsigned short* __restrict__ padded_b) {
  launch_dependent_grids();
  const int block = static_cast<int>(blockIdx.x);
  if (block < RowsOfA::BLOCKS) RowsOfA::copy(a, padded_a, block);
  else RowsOfB::copy(b, padded_b, block - RowsOfA::BLOCKS);
}
#elif PAD_A
extern "C" __global__ void __launch_bounds__(PAD_THREADS) pad(
    const unsigned short* __restrict__ a, unsigned short* __restrict__ padded_a) {
  launch_dependent_grids();
  RowsOfA::copy(a, padded_a, static_cast<int>(blockIdx.x));
}
#else
extern "C" __global__ void __launch_bounds__(PAD_THREADS) pad(
    const unsigned short* __restrict__ b, unsigned short* __restrict__ padded_b) {
  launch_dependent_grids();
  RowsOfB::copy(b, padded_b, static_cast<int>(blockIdx.x));
}
#endif
