// Permutes the axes of an array of elements of BYTES bytes.
//
// Where the last axis moves, each block has a tile of the plane of two axes: COLUMNS, along which the input is
// contiguous, and ROWS, along which the output is; of small planes it has PLANES. A thread loads V x V elements in
// vectors and transposes them in registers. It stores them directly, or with STAGED through shared memory, so that
// stores are coalesced; shared memory is swizzled against bank conflicts.
#if BYTES == 1
typedef unsigned char Element;
#elif BYTES == 2
typedef unsigned short Element;
#elif BYTES == 4
typedef unsigned Element;
#else
typedef unsigned long long Element;
#endif

struct alignas(BYTES* V) Vector {
  Element at[V];
};

// Arrays of 2^30 elements and more are indexed by 64 bits.
#if ELEMENTS < 1073741824
typedef int Index;
#else
typedef long long Index;
#endif

#if MOVED
constexpr int TILE_X = LANES_X * V, TILE_Y = LANES_Y * V, LANES = LANES_X * LANES_Y;
constexpr int TILES_X = (COLUMNS + TILE_X - 1) / TILE_X, TILES_Y = (ROWS + TILE_Y - 1) / TILE_Y;
constexpr int BANKS = 128 / (BYTES * V), MASK = (LANES_Y < BANKS ? LANES_Y : BANKS) - 1;

extern "C" __global__ void __launch_bounds__(THREADS) transpose(
    const Element* __restrict__ data, Element* __restrict__ out) {
  const int plane = blockIdx.x / (TILES_X * TILES_Y) * PLANES + threadIdx.x / LANES;
  const Index tile_x = blockIdx.x % TILES_X, tile_y = blockIdx.x / TILES_X % TILES_Y;
  const int tid = threadIdx.x % LANES, x = tid % LANES_X, y = tid / LANES_X;
  const Element* const from = data + static_cast<size_t>(IN_OFFSET);
  Element* const to = out + static_cast<size_t>(OUT_OFFSET);
  const Index column = tile_x * TILE_X + x * V, row = tile_y * TILE_Y + y * V;
  const bool exists = BATCH % PLANES == 0 || plane < BATCH, inside = exists && column < COLUMNS && row < ROWS;
  Vector read[V], transposed[V];
  if (inside) {
#pragma unroll
    for (int i = 0; i < V; ++i)
      read[i] = *reinterpret_cast<const Vector*>(
          from + static_cast<size_t>(row + i) * IN_PITCH + column);
#pragma unroll
    for (int j = 0; j < V; ++j)
#pragma unroll
      for (int i = 0; i < V; ++i) transposed[j].at[i] = read[i].at[j];
  }
#if STAGED
  __shared__ Vector tiles[PLANES][TILE_X][LANES_Y];
  auto& tile = tiles[threadIdx.x / LANES];
  if (inside) {
#pragma unroll
    for (int j = 0; j < V; ++j) tile[x * V + j][y ^ (x & MASK)] = transposed[j];
  }
  __syncthreads();
#pragma unroll
  for (int i = 0; i < V; ++i) {
    const int c = (i * LANES + tid) / LANES_Y, r = tid % LANES_Y;
    const Index at_column = tile_x * TILE_X + c, at_row = tile_y * TILE_Y + r * V;
    if (exists && at_column < COLUMNS && at_row < ROWS)
      *reinterpret_cast<Vector*>(to + static_cast<size_t>(at_column) * OUT_PITCH + at_row) =
          tile[c][r ^ (c / V & MASK)];
  }
#else
  if (inside) {
#pragma unroll
    for (int j = 0; j < V; ++j)
      *reinterpret_cast<Vector*>(to + static_cast<size_t>(column + j) * OUT_PITCH + row) =
          transposed[j];
  }
#endif
}
#else
// The last axis stays: a thread copies a vector of it.
extern "C" __global__ void __launch_bounds__(THREADS) transpose(
    const Element* __restrict__ data, Element* __restrict__ out) {
  constexpr Index VECTORS = COLUMNS / V;
  const Index at = static_cast<Index>(blockIdx.x) * THREADS + threadIdx.x;
  const Index plane = at / VECTORS, column = at % VECTORS * V;
  if (plane >= BATCH) return;
  *reinterpret_cast<Vector*>(out + static_cast<size_t>(OUT_OFFSET) + column) =
      *reinterpret_cast<const Vector*>(data + static_cast<size_t>(IN_OFFSET) + column);
}
#endif
