// Rows of a table by index; an index out of bounds is clamped.
struct alignas(BYTES* V) Vector {
  unsigned char at[BYTES * V];
};

extern "C" __global__ void __launch_bounds__(THREADS) take_rows(
    const Vector* __restrict__ table, const Index* __restrict__ index, Vector* __restrict__ out) {
  constexpr int VECTORS = COLUMNS / V;
#pragma unroll
  for (int u = 0; u < UNROLL; ++u) {
    const size_t at = (static_cast<size_t>(blockIdx.x) * UNROLL + u) * THREADS + threadIdx.x;
    if (at >= static_cast<size_t>(COUNT) * VECTORS) return;
    long long row = index[at / VECTORS];
    row = row < 0 ? 0 : row < TABLE_ROWS ? row : TABLE_ROWS - 1;
    out[at] = table[static_cast<size_t>(row) * VECTORS + at % VECTORS];
  }
}
