// Softmax over the rows of a matrix, float32. A block takes ROWS rows, each by THREADS threads.
// With KEEP a row stays in registers between its one read and its one write; without, the maximum
// and the sum are found in one sweep that rescales as it goes, and a second sweep reads again.
constexpr int WARPS = THREADS / 32;
constexpr int SWEEP = THREADS * VEC;
constexpr int ITEMS = (COLUMNS + SWEEP - 1) / SWEEP;
constexpr float LOG2E = 1.44269504088896341f;
#define LOWEST (-3.402823466e+38f)

struct Maximum {
  static __device__ __forceinline__ float of(float a, float b) { return fmaxf(a, b); }
};
struct Sum {
  static __device__ __forceinline__ float of(float a, float b) { return a + b; }
};

// Combines the values of one row's threads; every thread gets the result. `warp_values` is one row of
// shared memory for as many warps as a row has.
template <class Combine>
__device__ __forceinline__ float over_row(float value, float* warp_values) {
#pragma unroll
  for (int mask = 16; mask > 0; mask /= 2)
    value = Combine::of(value, __shfl_xor_sync(0xffffffffu, value, mask));
  if (WARPS > 1) {
    __syncthreads();
    if (threadIdx.x % 32 == 0) warp_values[threadIdx.x / 32] = value;
    __syncthreads();
    value = warp_values[0];
#pragma unroll
    for (int w = 1; w < WARPS; ++w) value = Combine::of(value, warp_values[w]);
  }
  return value;
}

extern "C" __global__ void __launch_bounds__(THREADS * ROWS) softmax(
    const float* __restrict__ data, float* __restrict__ out) {
  __shared__ float warp_values[ROWS][WARPS];
  const int row = blockIdx.x * ROWS + threadIdx.y;
  const bool active = row < BATCH;
  const float* const from = data + static_cast<size_t>(active ? row : 0) * COLUMNS;
  float* const to = out + static_cast<size_t>(active ? row : 0) * COLUMNS;
  const int first = threadIdx.x * VEC;
  float* const shared = warp_values[threadIdx.y];

#if KEEP
  float v[ITEMS][VEC];
  float top = LOWEST;
#pragma unroll
  for (int i = 0; i < ITEMS; ++i) {
    const int column = i * SWEEP + first;
    if (column < COLUMNS) {
      load_vector<VEC>(v[i], from + column);
    } else {
#pragma unroll
      for (int j = 0; j < VEC; ++j) v[i][j] = LOWEST;
    }
  }
#pragma unroll
  for (int i = 0; i < ITEMS; ++i)
#pragma unroll
    for (int j = 0; j < VEC; ++j) top = fmaxf(top, v[i][j]);
  top = over_row<Maximum>(top, shared);
  float sum = 0.0f;
#pragma unroll
  for (int i = 0; i < ITEMS; ++i) {
#pragma unroll
    for (int j = 0; j < VEC; ++j) v[i][j] = exp2f((v[i][j] - top) * LOG2E);
    if (i * SWEEP + first < COLUMNS) {
#pragma unroll
      for (int j = 0; j < VEC; ++j) sum += v[i][j];
    }
  }
  const float scale = 1.0f / over_row<Sum>(sum, shared);
#pragma unroll
  for (int i = 0; i < ITEMS; ++i) {
    const int column = i * SWEEP + first;
#pragma unroll
    for (int j = 0; j < VEC; ++j) v[i][j] *= scale;
    if (active && column < COLUMNS) store_vector<VEC>(to + column, v[i]);
  }
#else
  float top = LOWEST, sum = 0.0f, v[VEC];
#pragma unroll 4
  for (int column = first; column < COLUMNS; column += SWEEP) {
    load_vector<VEC>(v, from + column);
    float higher = top;
#pragma unroll
    for (int j = 0; j < VEC; ++j) higher = fmaxf(higher, v[j]);
    sum *= exp2f((top - higher) * LOG2E);
    top = higher;
#pragma unroll
    for (int j = 0; j < VEC; ++j) sum += exp2f((v[j] - top) * LOG2E);
  }
  const float highest = over_row<Maximum>(top, shared);
  const float scale = 1.0f / over_row<Sum>(sum * exp2f((top - highest) * LOG2E), shared);
#pragma unroll 4
  for (int column = first; column < COLUMNS; column += SWEEP) {
    load_vector<VEC>(v, from + column);
#pragma unroll
    for (int j = 0; j < VEC; ++j) v[j] = exp2f((v[j] - highest) * LOG2E) * scale;
    if (active) store_vector<VEC>(to + column, v);
  }
#endif
}
