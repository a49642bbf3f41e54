// Softmax of an array [OUTER, DEPTH, INNER] along its middle axis, as a map (`row_maps.h`) of the columns of each plane.
// A block has THREADS vectors of WIDTH neighbouring columns, across planes too, with ROWS threads each. With KEEP a
// column stays in registers between its one read and its one write; without, a second pass reads it again.
constexpr int COLUMNS = THREADS * WIDTH;
constexpr int EACH_ROW = (DEPTH + ROWS - 1) / ROWS, ITEMS = KEEP ? EACH_ROW : EACH_ROW < 8 ? EACH_ROW : 8;

// Loads a thread's elements of its columns from `begin` on; returns their number. Beyond the last row that is loaded
// again: without conditions all loads are in flight together.
__device__ __forceinline__ int load_items(
    float (&v)[WIDTH][ITEMS][1], const Element* __restrict__ from, int begin) {
  const int first = begin + static_cast<int>(threadIdx.y), remaining = DEPTH - first;
#pragma unroll
  for (int i = 0; i < ITEMS; ++i) {
    const int row = first + i * ROWS;
    float read[WIDTH];
    load_elements<WIDTH>(read, from + static_cast<size_t>(row < DEPTH ? row : DEPTH - 1) * INNER);
#pragma unroll
    for (int w = 0; w < WIDTH; ++w) v[w][i][0] = read[w];
  }
  return remaining > 0 ? (remaining + ROWS - 1) / ROWS : 0;
}

__device__ __forceinline__ void store_items(
    Element* to, const float (&v)[WIDTH][ITEMS][1], const MAP::Final (&final)[WIDTH], int begin, int items) {
#pragma unroll
  for (int i = 0; i < ITEMS; ++i)
    if (i < items) {
      float mapped[WIDTH];
#pragma unroll
      for (int w = 0; w < WIDTH; ++w) mapped[w] = MAP::map(v[w][i][0], final[w]);
      store_elements<WIDTH>(to + static_cast<size_t>(begin + i * ROWS + threadIdx.y) * INNER, mapped);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS * ROWS) columns(
    const Element* __restrict__ data, Element* __restrict__ out) {
  __shared__ MAP::State others[ROWS][COLUMNS];
  const long long column = (static_cast<long long>(blockIdx.x) * THREADS + threadIdx.x) * WIDTH;
  const bool active = column < static_cast<long long>(OUTER) * INNER;
  const size_t first = active ? static_cast<size_t>(column / INNER) * DEPTH * INNER + column % INNER : 0;
  float v[WIDTH][ITEMS][1];
  MAP::State states[WIDTH];
  int items = 0;
#pragma unroll
  for (int w = 0; w < WIDTH; ++w) states[w] = MAP::identity();
#pragma unroll 1
  for (int begin = 0; begin < DEPTH; begin += ITEMS * ROWS) {
    items = load_items(v, data + first, begin);
#pragma unroll
    for (int w = 0; w < WIDTH; ++w) MAP::absorb(states[w], v[w], items);
  }
  if (ROWS > 1) {
#pragma unroll
    for (int w = 0; w < WIDTH; ++w) others[threadIdx.y][w * THREADS + threadIdx.x] = states[w];
    __syncthreads();
#pragma unroll 4
    for (int r = 1; r < ROWS; ++r)
#pragma unroll
      for (int w = 0; w < WIDTH; ++w)
        states[w] = MAP::combine(
            states[w], others[(threadIdx.y + r) % ROWS][w * THREADS + threadIdx.x]);
  }
  if (!active) return;
  MAP::Final final[WIDTH];
#pragma unroll
  for (int w = 0; w < WIDTH; ++w) final[w] = MAP::final(states[w]);
#if KEEP
  store_items(out + first, v, final, 0, items);
#else
#pragma unroll 1
  for (int begin = 0; begin < DEPTH; begin += ITEMS * ROWS) {
    items = load_items(v, data + first, begin);
    store_items(out + first, v, final, begin, items);
  }
#endif
}
