// Inclusive prefix sums along the middle axis of an array [OUTER, DEPTH, INNER]. A block has THREADS vectors of WIDTH
// neighbouring columns, across planes too, with ROWS threads each, and loops over tiles of ROWS * ITEMS rows: a thread
// sums up a run of ITEMS rows, and reads the sums of the runs before its own from shared memory. With SPLIT > 1 a column
// is split into ranges of PER_SPLIT rows, one a block: `range_sums` writes the sum of a range to `partial`, and `scan`
// starts from those before its own.
constexpr int COLUMNS = THREADS * WIDTH, TILE = ROWS * ITEMS;
constexpr long long EVERY = static_cast<long long>(OUTER) * INNER;

// The columns and rows of a thread.
struct Place {
  long long column;
  size_t first;
  int begin, end;

  __device__ __forceinline__ Place() {
    const long long own = (static_cast<long long>(blockIdx.x) * THREADS + threadIdx.x) * WIDTH;
    column = own < EVERY ? own : EVERY;
    first = own < EVERY ? static_cast<size_t>(own / INNER) * DEPTH * INNER + own % INNER : 0;
    begin = blockIdx.y * PER_SPLIT;
    end = begin + PER_SPLIT < DEPTH ? begin + PER_SPLIT : DEPTH;
  }
  __device__ __forceinline__ bool active() const { return column < EVERY; }
};

typedef Value Shared[ROWS][COLUMNS];

// Writes the sums of a thread's columns where the others of a block read them.
__device__ __forceinline__ void share(Shared& sums, const Value (&own)[WIDTH]) {
#pragma unroll
  for (int w = 0; w < WIDTH; ++w) sums[threadIdx.y][w * THREADS + threadIdx.x] = own[w];
  __syncthreads();
}

// Adds the sums of the threads above, and those of all.
__device__ __forceinline__ void gather(const Shared& sums, Value (&above)[WIDTH], Value (&all)[WIDTH]) {
#pragma unroll 8
  for (int r = 0; r < ROWS; ++r)
#pragma unroll
    for (int w = 0; w < WIDTH; ++w) {
      const Value other = sums[r][w * THREADS + threadIdx.x];
      all[w] += other;
      above[w] += r < static_cast<int>(threadIdx.y) ? other : Value(0);
    }
}

#if SPLIT > 1
constexpr int AT_ONCE = ITEMS;

extern "C" __global__ void __launch_bounds__(THREADS * ROWS) range_sums(
    const Element* __restrict__ data, Value* __restrict__ partial) {
  __shared__ Shared sums;
  const Place place;
  Value own[WIDTH], above[WIDTH], all[WIDTH];
#pragma unroll
  for (int w = 0; w < WIDTH; ++w) own[w] = above[w] = all[w] = 0;
  launch_dependent_grids();
#pragma unroll AT_ONCE
  for (int row = place.begin + static_cast<int>(threadIdx.y); row < place.end; row += ROWS) {
    Value v[WIDTH];
    load_elements<WIDTH>(v, data + place.first + static_cast<size_t>(row) * INNER);
#pragma unroll
    for (int w = 0; w < WIDTH; ++w) own[w] += v[w];
  }
  share(sums, own);
  if (threadIdx.y > 0 || !place.active()) return;
  gather(sums, above, all);
#pragma unroll
  for (int w = 0; w < WIDTH; ++w) partial[blockIdx.y * EVERY + place.column + w] = all[w];
}

// Adds the sums of the ranges before a block's own.
__device__ __forceinline__ void add_ranges(
    const Value* __restrict__ partial, const Place& place, Shared& sums, Value (&carried)[WIDTH]) {
  Value own[WIDTH], above[WIDTH];
#pragma unroll
  for (int w = 0; w < WIDTH; ++w) own[w] = above[w] = 0;
  wait_on_dependent_grids();
  if (place.active())
#pragma unroll 4
    for (int part = threadIdx.y; part < static_cast<int>(blockIdx.y); part += ROWS)
#pragma unroll
      for (int w = 0; w < WIDTH; ++w) own[w] += partial[part * EVERY + place.column + w];
  share(sums, own);
  gather(sums, above, carried);
}
#endif

// Loads the run of a thread; beyond the last row of its range, that one. Returns how many rows there are.
__device__ __forceinline__ int load_run(
    Value (&v)[ITEMS][WIDTH], const Element* __restrict__ from, int first, int end) {
#pragma unroll
  for (int i = 0; i < ITEMS; ++i)
    load_elements<WIDTH>(v[i], from + static_cast<size_t>(first + i < end ? first + i : end - 1) * INNER);
  return end - first;
}

extern "C" __global__ void __launch_bounds__(THREADS * ROWS) scan(
    const Element* __restrict__ data, Element* __restrict__ out, const Value* __restrict__ partial) {
  __shared__ Shared sums[2];
  const Place place;
  Value carried[WIDTH];
#pragma unroll
  for (int w = 0; w < WIDTH; ++w) carried[w] = 0;
#if SPLIT > 1
  add_ranges(partial, place, sums[1], carried);
#endif
  int turn = 0;
#pragma unroll 1
  for (int begin = place.begin; begin < place.end; begin += TILE, turn ^= 1) {
    const int first = begin + static_cast<int>(threadIdx.y) * ITEMS;
    Value v[ITEMS][WIDTH], before[WIDTH];
    const int items = load_run(v, data + place.first, first, place.end);
#pragma unroll
    for (int i = 1; i < ITEMS; ++i)
#pragma unroll
      for (int w = 0; w < WIDTH; ++w) v[i][w] += v[i - 1][w];
#pragma unroll
    for (int w = 0; w < WIDTH; ++w) before[w] = carried[w];
    share(sums[turn], v[ITEMS - 1]);
    gather(sums[turn], before, carried);
    if (!place.active()) continue;
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) {
#pragma unroll
      for (int w = 0; w < WIDTH; ++w) v[i][w] += before[w];
      if (i < items)
        store_elements<WIDTH>(out + place.first + static_cast<size_t>(first + i) * INNER, v[i]);
    }
  }
}
