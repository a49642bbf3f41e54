// Inclusive prefix sums of few long rows: reduce-then-scan. A block owns one of SPLIT ranges of a row, of PER_SPLIT
// elements: `range_sums` writes the sum of a range to `partial`; `scan` starts from the sum of the ranges before its
// own, and loops over tiles as in scan.cu. The last vector of a single row may be partial.
constexpr int WARPS = THREADS / 32;
constexpr int SWEEP = THREADS * VEC;
constexpr int TOTALS = ITEMS * WARPS;
constexpr int OWN = (TOTALS + 31) / 32;  // totals of each thread of that warp

__device__ __forceinline__ int end_of(int begin) {
  return begin + PER_SPLIT < DEPTH ? begin + PER_SPLIT : DEPTH;
}

// The first column of the last tile of a range. Sums go backwards from there, since `scan` reads first what was read
// last and is still in the cache.
__device__ __forceinline__ int last_tile(int first, int end) {
  return first + (end - first - 1) / (ITEMS * SWEEP) * (ITEMS * SWEEP);
}

// Loads VEC neighbours from `column` on, zeros beyond the end.
__device__ __forceinline__ void load_columns(
    float (&v)[VEC], const Element* __restrict__ from, int column, int end) {
#pragma unroll
  for (int j = 0; j < VEC; ++j) v[j] = 0.0f;
  if (DEPTH % VEC == 0 ? column < end : column + VEC <= end) {
    load_elements<VEC>(v, from + column);
  } else if (DEPTH % VEC > 0) {
#pragma unroll
    for (int j = 0; j < VEC; ++j) {
      float one[1] = {0.0f};
      if (column + j < end) load_elements<1>(one, from + column + j);
      v[j] = one[0];
    }
  }
}

__device__ __forceinline__ void store_columns(
    Element* __restrict__ to, const float (&v)[VEC], int column, int end) {
  if (DEPTH % VEC == 0 ? column < end : column + VEC <= end) {
    store_elements<VEC>(to + column, v);
  } else if (DEPTH % VEC > 0) {
#pragma unroll
    for (int j = 0; j < VEC; ++j) {
      const float one[1] = {v[j]};
      if (column + j < end) store_elements<1>(to + column + j, one);
    }
  }
}

// Sum over the lanes of a warp, in all of them.
__device__ __forceinline__ float reduce_warp(float value) {
#pragma unroll
  for (int mask = 16; mask > 0; mask /= 2) value += __shfl_xor_sync(0xffffffffu, value, mask);
  return value;
}

// Inclusive scan over the lanes of a warp.
__device__ __forceinline__ float scan_warp(float value, int lane) {
#pragma unroll
  for (int distance = 1; distance < 32; distance *= 2) {
    const float before = __shfl_up_sync(0xffffffffu, value, distance);
    if (lane >= distance) value += before;
  }
  return value;
}

extern "C" __global__ void __launch_bounds__(THREADS) range_sums(
    const Element* __restrict__ data, float* __restrict__ partial) {
  __shared__ float warp_sums[WARPS];
  const int first = blockIdx.x * PER_SPLIT, end = end_of(first);
  const Element* const from = data + static_cast<size_t>(blockIdx.y) * DEPTH;
  float sum = 0.0f;
  launch_dependent_grids();
#pragma unroll 1
  for (int begin = last_tile(first, end); begin >= first; begin -= ITEMS * SWEEP) {
    float v[ITEMS][VEC];
#pragma unroll
    for (int i = 0; i < ITEMS; ++i)
      load_columns(v[i], from, begin + i * SWEEP + threadIdx.x * VEC, end);
#pragma unroll
    for (int i = 0; i < ITEMS; ++i)
#pragma unroll
      for (int j = 0; j < VEC; ++j) sum += v[i][j];
  }
  sum = reduce_warp(sum);
  if (threadIdx.x % 32 == 0) warp_sums[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x >= 32) return;
  sum = reduce_warp(threadIdx.x < WARPS ? warp_sums[threadIdx.x] : 0.0f);
  if (threadIdx.x == 0) partial[blockIdx.y * SPLIT + blockIdx.x] = sum;
}

extern "C" __global__ void __launch_bounds__(THREADS) scan(
    const Element* __restrict__ data, const float* __restrict__ partial,
    Element* __restrict__ out) {
  __shared__ float totals[TOTALS + 1];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int first = blockIdx.x * PER_SPLIT, end = end_of(first);
  const Element* const from = data + static_cast<size_t>(blockIdx.y) * DEPTH;
  Element* const to = out + static_cast<size_t>(blockIdx.y) * DEPTH;
  float carried = 0.0f;
  wait_on_dependent_grids();
#pragma unroll
  for (int part = lane; part < SPLIT; part += 32)
    if (part < static_cast<int>(blockIdx.x)) carried += partial[blockIdx.y * SPLIT + part];
  carried = reduce_warp(carried);
#pragma unroll 1
  for (int begin = first; begin < end; begin += ITEMS * SWEEP) {
    float v[ITEMS][VEC], before[ITEMS];
#pragma unroll
    for (int i = 0; i < ITEMS; ++i)
      load_columns(v[i], from, begin + i * SWEEP + threadIdx.x * VEC, end);
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
      store_columns(to, v[i], column, end);
    }
    carried += totals[TOTALS - 1];
    if (begin + ITEMS * SWEEP < end) __syncthreads();
  }
}
