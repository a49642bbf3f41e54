// Inclusive prefix sums of the rows of a matrix. A block has ROWS rows, with THREADS threads each, and loops over tiles
// of ITEMS vectors a thread: every warp scans its elements by shuffles, the totals of all warps and items go to shared
// memory, and one warp scans those.
constexpr int WARPS = THREADS / 32;
constexpr int SWEEP = THREADS * VEC;
constexpr int TOTALS = ITEMS * WARPS;
constexpr int OWN = (TOTALS + 31) / 32;  // totals of each thread of that warp

// Inclusive scan over the lanes of a warp.
__device__ __forceinline__ float scan_warp(float value, int lane) {
#pragma unroll
  for (int distance = 1; distance < 32; distance *= 2) {
    const float before = __shfl_up_sync(0xffffffffu, value, distance);
    if (lane >= distance) value += before;
  }
  return value;
}

extern "C" __global__ void __launch_bounds__(THREADS * ROWS) scan(
    const Element* __restrict__ data, Element* __restrict__ out) {
  __shared__ float all_totals[ROWS][TOTALS + 1];
  const int row = blockIdx.x * ROWS + threadIdx.y, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const bool active = row < BATCH;
  const Element* const from = data + static_cast<size_t>(active ? row : 0) * DEPTH;
  Element* const to = out + static_cast<size_t>(active ? row : 0) * DEPTH;
  float* const totals = all_totals[threadIdx.y];
  float carried = 0.0f;
#pragma unroll 1
  for (int begin = 0; begin < DEPTH; begin += ITEMS * SWEEP) {
    float v[ITEMS][VEC], before[ITEMS];
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) {
      const int column = begin + i * SWEEP + threadIdx.x * VEC;
#pragma unroll
      for (int j = 0; j < VEC; ++j) v[i][j] = 0.0f;
      if (column < DEPTH) load_elements<VEC>(v[i], from + column);
    }
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) {
#pragma unroll
      for (int j = 1; j < VEC; ++j) v[i][j] += v[i][j - 1];
      const float through = scan_warp(v[i][VEC - 1], lane);
      const float earlier = __shfl_up_sync(0xffffffffu, through, 1);
      before[i] = lane > 0 ? earlier : 0.0f;
      if (lane == 31) totals[i * WARPS + warp] = through;
    }
    __syncthreads();
    if (warp == 0) {
      float own[OWN];
#pragma unroll
      for (int t = 0; t < OWN; ++t) {
        own[t] = lane * OWN + t < TOTALS ? totals[lane * OWN + t] : 0.0f;
        if (t > 0) own[t] += own[t > 0 ? t - 1 : 0];
      }
      const float through = scan_warp(own[OWN - 1], lane);
      const float earlier = __shfl_up_sync(0xffffffffu, through, 1);
      __syncwarp();
#pragma unroll
      for (int t = 0; t < OWN; ++t)
        if (lane * OWN + t < TOTALS) totals[lane * OWN + t] = own[t] + (lane > 0 ? earlier : 0.0f);
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) {
      const int column = begin + i * SWEEP + threadIdx.x * VEC, index = i * WARPS + warp;
      const float base = carried + (index > 0 ? totals[index > 0 ? index - 1 : 0] : 0.0f) + before[i];
#pragma unroll
      for (int j = 0; j < VEC; ++j) v[i][j] += base;
      if (active && column < DEPTH) store_elements<VEC>(to + column, v[i]);
    }
    carried += totals[TOTALS - 1];
    if (begin + ITEMS * SWEEP < DEPTH) __syncthreads();
  }
}
