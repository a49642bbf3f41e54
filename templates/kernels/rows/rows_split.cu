// Maps of few long rows (`row_maps.h`), in two passes. A block has one of SPLIT ranges of a row, of PER_SPLIT elements:
// `row_states` writes the state of a range to `partial`; `rows` combines the states of its row, in every warp, and
// writes its range.
constexpr int WARPS = THREADS / 32;
constexpr int SWEEP = THREADS * VEC;
constexpr int ITEMS = 4;

// Loads a thread's vectors of the columns from `begin` on; returns their number.
__device__ __forceinline__ int load_items(
    float (&v)[ITEMS][VEC], const Element* __restrict__ from, int begin, int end) {
  const int remaining = end - begin - static_cast<int>(threadIdx.x) * VEC;
  const int items = remaining > 0 ? (remaining + SWEEP - 1) / SWEEP : 0;
#pragma unroll
  for (int i = 0; i < ITEMS; ++i)
    if (i < items) load_elements<VEC>(v[i], from + begin + i * SWEEP + threadIdx.x * VEC);
  return items;
}

__device__ __forceinline__ int end_of(int begin) {
  return begin + PER_SPLIT < DEPTH ? begin + PER_SPLIT : DEPTH;
}

extern "C" __global__ void __launch_bounds__(THREADS) row_states(
    const Element* __restrict__ data, float* __restrict__ partial) {
  __shared__ MAP::State warp_states[WARPS];
  const int row = blockIdx.y, first = blockIdx.x * PER_SPLIT, end = end_of(first);
  const Element* const from = data + static_cast<size_t>(row) * DEPTH;
  float v[ITEMS][VEC];
  MAP::State state = MAP::identity();
  launch_dependent_grids();
  // Backwards, since `rows` reads first what was read last and is still in the cache.
#pragma unroll 1
  for (int begin = first + (end - first - 1) / (ITEMS * SWEEP) * (ITEMS * SWEEP); begin >= first; begin -= ITEMS * SWEEP)
    MAP::absorb(state, v, load_items(v, from, begin, end));
  state = reduce_warps<MAP, WARPS>(state, warp_states);
  if (threadIdx.x > 0) return;
#pragma unroll
  for (int w = 0; w < Words<MAP::State>::EACH; ++w)
    partial[(row * SPLIT + blockIdx.x) * Words<MAP::State>::EACH + w] =
        reinterpret_cast<const float*>(&state)[w];
}

extern "C" __global__ void __launch_bounds__(THREADS) rows(
    const Element* __restrict__ data, const Element* __restrict__ gain,
    const Element* __restrict__ shift, const float* __restrict__ partial,
    Element* __restrict__ out) {
  const int row = blockIdx.y, first = blockIdx.x * PER_SPLIT, end = end_of(first);
  const Element* const from = data + static_cast<size_t>(row) * DEPTH;
  Element* const to = out + static_cast<size_t>(row) * DEPTH;
  MAP::State state = MAP::identity();
  wait_on_dependent_grids();
#pragma unroll
  for (int part = threadIdx.x % 32; part < SPLIT; part += 32) {
    MAP::State other;
#pragma unroll
    for (int w = 0; w < Words<MAP::State>::EACH; ++w)
      reinterpret_cast<float*>(&other)[w] =
          partial[(row * SPLIT + part) * Words<MAP::State>::EACH + w];
    state = MAP::combine(state, other);
  }
  const MAP::Final final = MAP::final(reduce_lanes<MAP, 32>(state));
#pragma unroll 1
  for (int begin = first; begin < end; begin += ITEMS * SWEEP) {
    float v[ITEMS][VEC];
    const int items = load_items(v, from, begin, end);
#pragma unroll
    for (int i = 0; i < ITEMS; ++i)
      if (i < items) {
        const int column = begin + i * SWEEP + threadIdx.x * VEC;
#pragma unroll
        for (int j = 0; j < VEC; ++j) v[i][j] = MAP::map(v[i][j], final);
        gain_and_shift(v[i], gain, shift, row, column);
        store_elements<VEC>(to + column, v[i]);
      }
  }
}
