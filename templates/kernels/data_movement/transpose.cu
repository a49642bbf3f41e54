// Permutes the axes of an array of elements of BYTES bytes.
//
// Where the last axis moves, each block has a tile of the plane of two axes: COLUMNS, along which the input is
// contiguous, and ROWS, along which the output is; of small planes it has PLANES. A thread loads V x V elements in
// vectors, TIMES of them below one another, and transposes each in registers. It stores them directly, or with STAGED
// through shared memory, so that stores are coalesced; shared memory is swizzled against bank conflicts.
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
constexpr int DOWN = LANES_Y * TIMES, TILE_X = LANES_X * V, TILE_Y = DOWN * V, LANES = LANES_X * LANES_Y;
constexpr int TILES_X = (COLUMNS + TILE_X - 1) / TILE_X, TILES_Y = (ROWS + TILE_Y - 1) / TILE_Y;
constexpr int BANKS = 128 / (BYTES * V), MASK = (DOWN < BANKS ? DOWN : BANKS) - 1;

extern "C" __global__ void __launch_bounds__(THREADS) transpose(
    const Element* __restrict__ data, Element* __restrict__ out) {
  const int plane = blockIdx.x / (TILES_X * TILES_Y) * PLANES + threadIdx.x / LANES;
  const Index tile_x = blockIdx.x % TILES_X, tile_y = blockIdx.x / TILES_X % TILES_Y;
  const int tid = threadIdx.x % LANES, x = tid % LANES_X, y = tid / LANES_X;
  const Element* const from = data + static_cast<size_t>(IN_OFFSET);
  Element* const to = out + static_cast<size_t>(OUT_OFFSET);
  const Index column = tile_x * TILE_X + x * V, row = tile_y * TILE_Y + y * V;
  const bool exists = (BATCH % PLANES == 0 || plane < BATCH) && column < COLUMNS;
  Vector read[TIMES][V];
#pragma unroll
  for (int t = 0; t < TIMES; ++t)
    if (exists && row + t * (LANES_Y * V) < ROWS) {
#pragma unroll
      for (int i = 0; i < V; ++i)
        read[t][i] = *reinterpret_cast<const Vector*>(
            from + static_cast<size_t>(row + t * (LANES_Y * V) + i) * IN_PITCH + column);
    }
#if STAGED
  __shared__ Vector tiles[PLANES][TILE_X][DOWN];
  auto& tile = tiles[threadIdx.x / LANES];
#endif
#pragma unroll
  for (int t = 0; t < TIMES; ++t) {
    Vector transposed[V];
#pragma unroll
    for (int j = 0; j < V; ++j)
#pragma unroll
      for (int i = 0; i < V; ++i) transposed[j].at[i] = read[t][i].at[j];
    if (!exists || row + t * (LANES_Y * V) >= ROWS) continue;
#pragma unroll
    for (int j = 0; j < V; ++j)
#if STAGED
      tile[x * V + j][(y + t * LANES_Y) ^ (x & MASK)] = transposed[j];
#else
      *reinterpret_cast<Vector*>(
          to + static_cast<size_t>(column + j) * OUT_PITCH + row + t * (LANES_Y * V)) = transposed[j];
#endif
  }
#if STAGED
  __syncthreads();
#pragma unroll
  for (int i = 0; i < TIMES * V; ++i) {
    const int c = (i * LANES + tid) / DOWN, r = (i * LANES + tid) % DOWN;
    const Index at_column = tile_x * TILE_X + c, at_row = tile_y * TILE_Y + r * V;
    if ((BATCH % PLANES == 0 || plane < BATCH) && at_column < COLUMNS && at_row < ROWS)
      *reinterpret_cast<Vector*>(to + static_cast<size_t>(at_column) * OUT_PITCH + at_row) =
          tile[c][r ^ (c / V & MASK)];
  }
#endif
}
#else
// The last axis stays: a thread copies TIMES vectors of it.
extern "C" __global__ void __launch_bounds__(THREADS) transpose(
    const Element* __restrict__ data, Element* __restrict__ out) {
  constexpr Index VECTORS = COLUMNS / V;
  const Index first = static_cast<Index>(blockIdx.x) * (THREADS * TIMES) + threadIdx.x;
  Vector read[TIMES];
#pragma unroll
  for (int t = 0; t < TIMES; ++t) {
    const Index at = first + t * THREADS, plane = at / VECTORS, column = at % VECTORS * V;
    if (plane < BATCH)
      read[t] = *reinterpret_cast<const Vector*>(data + static_cast<size_t>(IN_OFFSET) + column);
  }
#pragma unroll
  for (int t = 0; t < TIMES; ++t) {
    const Index at = first + t * THREADS, plane = at / VECTORS, column = at % VECTORS * V;
    if (plane < BATCH)
      *reinterpret_cast<Vector*>(out + static_cast<size_t>(OUT_OFFSET) + column) = read[t];
  }
}
#endif
