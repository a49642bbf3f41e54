// Inclusive prefix sums of few long rows: reduce-then-scan. A block owns one of SPLIT ranges of a row, of PER_SPLIT
// elements: `range_sums` writes the sum of a range to `partial`; `scan` starts from the sum of the ranges before its
// own, and loops over tiles. Ranges begin at aligned vectors, and the last one ends with the row.
__device__ __forceinline__ int end_of(int begin) {
  return blockIdx.x + 1 < SPLIT && begin + PER_SPLIT < DEPTH ? begin + PER_SPLIT : DEPTH;
}

// The first column of the last tile of a range. Sums go backwards from there, since `scan` reads first what was read
// last and is still in the cache.
__device__ __forceinline__ int last_tile(int first, int end) {
  return first + (end - first - 1) / TILE * TILE;
}

// Sum over the lanes of a warp, in all of them.
__device__ __forceinline__ Value reduce_warp(Value value) {
#pragma unroll
  for (int mask = 16; mask > 0; mask /= 2) value += __shfl_xor_sync(0xffffffffu, value, mask);
  return value;
}

extern "C" __global__ void __launch_bounds__(THREADS) range_sums(
    const Element* __restrict__ data, Value* __restrict__ partial) {
  __shared__ Value warp_sums[WARPS];
  const int first = first_column(blockIdx.y) + static_cast<int>(blockIdx.x) * PER_SPLIT, end = end_of(first);
  const Element* const from = data + static_cast<size_t>(blockIdx.y) * DEPTH;
  Value sum = 0;
  launch_dependent_grids();
#pragma unroll 1
  for (int begin = last_tile(first, end); begin >= first; begin -= TILE) {
    Value v[ITEMS][VEC];
    load_tile(v, from, begin, end);
#pragma unroll
    for (int i = 0; i < ITEMS; ++i)
#pragma unroll
      for (int j = 0; j < VEC; ++j) sum += v[i][j];
  }
  sum = reduce_warp(sum);
  if (threadIdx.x % 32 == 0) warp_sums[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x >= 32) return;
  sum = reduce_warp(threadIdx.x < WARPS ? warp_sums[threadIdx.x] : Value(0));
  if (threadIdx.x == 0) partial[blockIdx.y * SPLIT + blockIdx.x] = sum;
}

extern "C" __global__ void __launch_bounds__(THREADS) scan(
    const Element* __restrict__ data, const Value* __restrict__ partial,
    Element* __restrict__ out) {
  __shared__ Value totals[TOTALS + 1];
  const int first = first_column(blockIdx.y) + static_cast<int>(blockIdx.x) * PER_SPLIT, end = end_of(first);
  const Element* const from = data + static_cast<size_t>(blockIdx.y) * DEPTH;
  Element* const to = out + static_cast<size_t>(blockIdx.y) * DEPTH;
  Value carried = 0;
  wait_on_dependent_grids();
#pragma unroll
  for (int part = threadIdx.x % 32; part < SPLIT; part += 32)
    if (part < static_cast<int>(blockIdx.x)) carried += partial[blockIdx.y * SPLIT + part];
  carried = reduce_warp(carried);
#pragma unroll 1
  for (int begin = first; begin < end; begin += TILE) {
    Value v[ITEMS][VEC], before[ITEMS];
    load_tile(v, from, begin, end);
    scan_tile(v, before, totals);
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) {
      const Value base = carried + sum_before(totals, i) + before[i];
#pragma unroll
      for (int j = 0; j < VEC; ++j) v[i][j] += base;
      store_columns(to, v[i], begin + i * SWEEP + static_cast<int>(threadIdx.x) * VEC, end);
    }
    carried += totals[TOTALS - 1];
    if (begin + TILE < end) __syncthreads();
  }
}
