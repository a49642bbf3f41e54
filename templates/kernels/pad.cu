
// Copies of COUNT matrices of 16-bit numbers with rows of FROM elements to rows of TO, a multiple of 8; what
// is beyond becomes 0, and ROWS_FROM rows are followed by rows of 0.
template <int FROM, int TO, int ROWS_FROM, int ROWS_TO, int COUNT>
__device__ __forceinline__ void copy_rows(
    const unsigned short* __restrict__ from, unsigned short* __restrict__ to) {
  struct alignas(16) Vector {
    unsigned short at[8];
  };
  constexpr int VECTORS = TO / 8;
  const size_t i = static_cast<size_t>(blockIdx.x) * 256 + threadIdx.x;
  if (i >= static_cast<size_t>(COUNT) * ROWS_TO * VECTORS) return;
  const size_t row = i / VECTORS, inside = row % ROWS_TO, source = row / ROWS_TO * ROWS_FROM + inside;
  const int column = static_cast<int>(i % VECTORS) * 8;
  Vector vector;
#pragma unroll
  for (int j = 0; j < 8; ++j)
    vector.at[j] = inside < ROWS_FROM && column + j < FROM ? from[source * FROM + column + j] : 0;
  *reinterpret_cast<Vector*>(to + row * TO + column) = vector;
}

#if PAD_A
extern "C" __global__ void __launch_bounds__(256) pad_a(
    const unsigned short* __restrict__ a, unsigned short* __restrict__ padded) {
  copy_rows<A_ROW, A_LONG, A_ROWS, A_ALL, A_COUNT>(a, padded);
}
#endif

#if PAD_B
extern "C" __global__ void __launch_bounds__(256) pad_b(
    const unsigned short* __restrict__ b, unsigned short* __restrict__ padded) {
  copy_rows<B_ROW, B_LONG, B_ROWS, B_ALL, B_COUNT>(b, padded);
}
#endif
