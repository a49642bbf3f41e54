// Softmax of an array [OUTER, DEPTH, INNER] along its middle axis, as a map (`row_maps.h`) of the columns of each plane.
// A block has THREADS vectors of WIDTH neighbouring columns, across planes too, with ROWS threads each. With KEEP a
// column stays in registers between its one read and its one write; without, a second pass reads it again. With SPLIT > 1
// a column is split into ranges of PER_SPLIT rows, one a block: `column_states` writes the state of a range to `partial`,
// and `columns` combines those of a column.
constexpr int COLUMNS = THREADS * WIDTH;
constexpr int EACH_ROW = (PER_SPLIT + ROWS - 1) / ROWS, ITEMS = KEEP ? EACH_ROW : EACH_ROW < 8 ? EACH_ROW : 8;
constexpr long long EVERY = static_cast<long long>(OUTER) * INNER;

// The columns and rows of a thread.
struct Place {
  long long column;
  size_t first;
  int begin, end;

  __device__ __forceinline__ Place() {
    column = (static_cast<long long>(blockIdx.x) * THREADS + threadIdx.x) * WIDTH;
    first = active() ? static_cast<size_t>(column / INNER) * DEPTH * INNER + column % INNER : 0;
    begin = blockIdx.y * PER_SPLIT;
    end = begin + PER_SPLIT < DEPTH ? begin + PER_SPLIT : DEPTH;
  }
  __device__ __forceinline__ bool active() const { return column < EVERY; }
};

typedef MAP::State Shared[ROWS][COLUMNS];

// Loads a thread's elements of its columns from `begin` on; returns their number. Beyond the last row that is loaded
// again: without conditions all loads are in flight together.
__device__ __forceinline__ int load_items(
    float (&v)[WIDTH][ITEMS][1], const Element* __restrict__ from, int begin, int end) {
  const int first = begin + static_cast<int>(threadIdx.y), remaining = end - first;
#pragma unroll
  for (int i = 0; i < ITEMS; ++i) {
    const int row = first + i * ROWS;
    float read[WIDTH];
    load_elements<WIDTH>(read, from + static_cast<size_t>(row < end ? row : end - 1) * INNER);
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

// Adds the rows of a range that a thread has; returns the number of those it loaded last.
__device__ __forceinline__ int absorb_range(
    MAP::State (&states)[WIDTH], float (&v)[WIDTH][ITEMS][1], const Element* __restrict__ data, const Place& place) {
  int items = 0;
#pragma unroll 1
  for (int begin = place.begin; begin < place.end; begin += ITEMS * ROWS) {
    items = load_items(v, data + place.first, begin, place.end);
#pragma unroll
    for (int w = 0; w < WIDTH; ++w) MAP::absorb(states[w], v[w], items);
  }
  return items;
}

// Combines the states of the threads of a column, in all of them: by halves, as each step computes powers.
__device__ __forceinline__ void combine_threads(MAP::State (&states)[WIDTH], Shared& others) {
  if (ROWS == 1) return;
#pragma unroll
  for (int w = 0; w < WIDTH; ++w) others[threadIdx.y][w * THREADS + threadIdx.x] = states[w];
#pragma unroll
  for (int half = ROWS / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.y < half)
#pragma unroll
      for (int w = 0; w < WIDTH; ++w) {
        MAP::State& own = others[threadIdx.y][w * THREADS + threadIdx.x];
        own = MAP::combine(own, others[threadIdx.y + half][w * THREADS + threadIdx.x]);
      }
  }
  __syncthreads();
#pragma unroll
  for (int w = 0; w < WIDTH; ++w) states[w] = others[0][w * THREADS + threadIdx.x];
}

#if SPLIT > 1
// The state of a range of a column, in `partial`.
__device__ __forceinline__ size_t state_of(int range, long long column) {
  return (range * EVERY + column) * Words<MAP::State>::EACH;
}

extern "C" __global__ void __launch_bounds__(THREADS * ROWS) column_states(
    const Element* __restrict__ data, float* __restrict__ partial) {
  __shared__ Shared others;
  const Place place;
  float v[WIDTH][ITEMS][1];
  MAP::State states[WIDTH];
#pragma unroll
  for (int w = 0; w < WIDTH; ++w) states[w] = MAP::identity();
  launch_dependent_grids();
  absorb_range(states, v, data, place);
  combine_threads(states, others);
  if (threadIdx.y > 0 || !place.active()) return;
#pragma unroll
  for (int w = 0; w < WIDTH; ++w)
#pragma unroll
    for (int word = 0; word < Words<MAP::State>::EACH; ++word)
      partial[state_of(blockIdx.y, place.column + w) + word] = reinterpret_cast<const float*>(&states[w])[word];
}

// Adds the states of the ranges of a thread's columns that it has.
__device__ __forceinline__ void absorb_states(
    MAP::State (&states)[WIDTH], const float* __restrict__ partial, const Place& place) {
  wait_on_dependent_grids();
  if (!place.active()) return;
#pragma unroll 4
  for (int range = threadIdx.y; range < SPLIT; range += ROWS)
#pragma unroll
    for (int w = 0; w < WIDTH; ++w) {
      MAP::State other;
#pragma unroll
      for (int word = 0; word < Words<MAP::State>::EACH; ++word)
        reinterpret_cast<float*>(&other)[word] = partial[state_of(range, place.column + w) + word];
      states[w] = MAP::combine(states[w], other);
    }
}
#endif

extern "C" __global__ void __launch_bounds__(THREADS * ROWS) columns(
    const Element* __restrict__ data, Element* __restrict__ out, const float* __restrict__ partial) {
  __shared__ Shared others;
  const Place place;
  float v[WIDTH][ITEMS][1];
  MAP::State states[WIDTH];
#pragma unroll
  for (int w = 0; w < WIDTH; ++w) states[w] = MAP::identity();
#if SPLIT > 1
  absorb_states(states, partial, place);
#else
  const int items = absorb_range(states, v, data, place);
#endif
  combine_threads(states, others);
  if (!place.active()) return;
  MAP::Final final[WIDTH];
#pragma unroll
  for (int w = 0; w < WIDTH; ++w) final[w] = MAP::final(states[w]);
#if KEEP
  store_items(out + place.first, v, final, 0, items);
#else
#pragma unroll 1
  for (int begin = place.begin; begin < place.end; begin += ITEMS * ROWS) {
    const int loaded = load_items(v, data + place.first, begin, place.end);
    store_items(out + place.first, v, final, begin, loaded);
  }
#endif
}
