// Inclusive prefix sums of a tile, ITEMS vectors for each of THREADS threads: every warp scans its elements by shuffles,
// the totals of all warps and items go to shared memory, and one warp scans those. Vectors are aligned in memory, whether
// they divide rows or not.
constexpr int WARPS = THREADS / 32;
constexpr int SWEEP = THREADS * VEC;
constexpr int TOTALS = ITEMS * WARPS;
constexpr int OWN = (TOTALS + 31) / 32;  // totals of each thread of that warp
constexpr int TILE = ITEMS * SWEEP;
#define RAGGED (DEPTH % VEC > 0)

// The column of the first aligned vector of a row: 0, or up to VEC - 1 before the row.
__device__ __forceinline__ int first_column(int row) {
  return RAGGED ? -static_cast<int>(static_cast<long long>(row) * DEPTH % VEC) : 0;
}

// Loads a vector of the columns from `column` on, zeros from `end` on.
__device__ __forceinline__ void load_columns(
    Value (&v)[VEC], const Element* __restrict__ from, int column, int end) {
#pragma unroll
  for (int j = 0; j < VEC; ++j) v[j] = 0;
  if (RAGGED ? column < end && column + VEC <= DEPTH : column < end) {
    load_elements<VEC>(v, from + column);
  } else if (RAGGED) {
#pragma unroll
    for (int j = 0; j < VEC; ++j) {
      Value one[1] = {0};
      if (column + j < end) load_elements<1>(one, from + column + j);
      v[j] = one[0];
    }
  }
}

// Loads a tile, whose columns begin at `begin`; zeros are outside of the row. A whole one is loaded without conditions,
// so that all loads are in flight together; where vectors do not divide rows, its first one may begin with the end of the
// row before.
__device__ __forceinline__ void load_tile(
    Value (&v)[ITEMS][VEC], const Element* __restrict__ from, int begin, int end) {
  const int own = begin + static_cast<int>(threadIdx.x) * VEC;
  if (RAGGED && begin + TILE <= end) {
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) load_elements<VEC>(v[i], from + own + i * SWEEP);
  } else {
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) load_columns(v[i], from, own + i * SWEEP, end);
  }
#pragma unroll
  for (int j = 0; j < VEC - 1; ++j)
    if (RAGGED && own + j < 0) v[0][j] = 0;
}

// Stores a vector; elements of one that is partly outside of the row one by one.
__device__ __forceinline__ void store_columns(
    Element* __restrict__ to, const Value (&v)[VEC], int column, int end) {
  if (RAGGED ? column >= 0 && column < end && column + VEC <= DEPTH : column < end) {
    store_elements<VEC>(to + column, v);
  } else if (RAGGED) {
#pragma unroll
    for (int j = 0; j < VEC; ++j) {
      const Value one[1] = {v[j]};
      if (column + j >= 0 && column + j < end) store_elements<1>(to + column + j, one);
    }
  }
}

// Inclusive scan over the lanes of a warp.
__device__ __forceinline__ Value scan_warp(Value value, int lane) {
#pragma unroll
  for (int distance = 1; distance < 32; distance *= 2) {
    const Value before = __shfl_up_sync(0xffffffffu, value, distance);
    if (lane >= distance) value += before;
  }
  return value;
}

// Scans each vector of a tile in place. Before it are, of its warp, `before`, and of the warps before that one,
// `sum_before`; `totals` are TOTALS values in shared memory, the last of which becomes the sum of the tile.
__device__ __forceinline__ void scan_tile(Value (&v)[ITEMS][VEC], Value (&before)[ITEMS], Value* totals) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#pragma unroll
  for (int i = 0; i < ITEMS; ++i) {
#pragma unroll
    for (int j = 1; j < VEC; ++j) v[i][j] += v[i][j - 1];
    const Value through = scan_warp(v[i][VEC - 1], lane);
    const Value earlier = __shfl_up_sync(0xffffffffu, through, 1);
    before[i] = lane > 0 ? earlier : Value(0);
    if (lane == 31) totals[i * WARPS + warp] = through;
  }
  __syncthreads();
  if (warp == 0) {
    Value own[OWN];
#pragma unroll
    for (int t = 0; t < OWN; ++t) {
      own[t] = lane * OWN + t < TOTALS ? totals[lane * OWN + t] : Value(0);
      if (t > 0) own[t] += own[t > 0 ? t - 1 : 0];
    }
    const Value through = scan_warp(own[OWN - 1], lane);
    const Value earlier = __shfl_up_sync(0xffffffffu, through, 1);
    __syncwarp();
#pragma unroll
    for (int t = 0; t < OWN; ++t)
      if (lane * OWN + t < TOTALS) totals[lane * OWN + t] = own[t] + (lane > 0 ? earlier : Value(0));
  }
  __syncthreads();
}

__device__ __forceinline__ Value sum_before(const Value* totals, int i) {
  const int index = i * WARPS + threadIdx.x / 32;
  return index > 0 ? totals[index > 0 ? index - 1 : 0] : Value(0);
}
