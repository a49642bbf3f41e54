// Inclusive prefix sums of a tile, ITEMS vectors for each of THREADS threads: every warp scans its elements by shuffles,
// the totals of all warps and items go to shared memory, and one warp scans those.
constexpr int WARPS = THREADS / 32;
constexpr int SWEEP = THREADS * VEC;
constexpr int TOTALS = ITEMS * WARPS;
constexpr int OWN = (TOTALS + 31) / 32;  // totals of each thread of that warp

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
