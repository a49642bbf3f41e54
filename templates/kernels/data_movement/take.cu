// Rows of a table by index; an index out of bounds is clamped. A thread takes UNROLL vectors, whose indices are all loaded
// before the first of them, and which are all loaded before the first is stored.
struct alignas(BYTES* V) Vector {
  unsigned char at[BYTES * V];
};

#if COUNT * (COLUMNS / V) < 1073741824
typedef unsigned Place;
#else
typedef size_t Place;
#endif

extern "C" __global__ void __launch_bounds__(THREADS) take_rows(
    const Vector* __restrict__ table, const Index* __restrict__ index, Vector* __restrict__ out) {
  constexpr Place VECTORS = COLUMNS / V, ALL = COUNT * VECTORS;
  const Place first = static_cast<Place>(blockIdx.x) * (UNROLL * THREADS) + threadIdx.x;
  Index rows[UNROLL];
  Vector taken[UNROLL];
#pragma unroll
  for (int u = 0; u < UNROLL; ++u)
    if (first + u * THREADS < ALL) rows[u] = index[(first + u * THREADS) / VECTORS];
#pragma unroll
  for (int u = 0; u < UNROLL; ++u) {
    const Place at = first + u * THREADS;
    if (at >= ALL) break;
    const Index row = rows[u] < 0 ? 0 : rows[u] < TABLE_ROWS ? rows[u] : TABLE_ROWS - 1;
    taken[u] = table[static_cast<size_t>(row) * VECTORS + at % VECTORS];
  }
#pragma unroll
  for (int u = 0; u < UNROLL; ++u) {
    const Place at = first + u * THREADS;
    if (at < ALL) out[at] = taken[u];
  }
}
