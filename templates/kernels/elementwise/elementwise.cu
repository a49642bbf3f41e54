// An elementwise function of several arrays with broadcasting. A thread computes UNROLL vectors of VEC neighbours, and
// loads all operands before it computes the first. LOAD_OPERANDS loads those of the elements from `at` on, and
// EXPRESSION is the function of the operands `x(i)`.
#define x(i) values[u][i][j]
#if SIZE < 1073741824
typedef unsigned Index;
#else
typedef size_t Index;
#endif

// Whether the vector from `at` on is whole: the last one of all may not be.
__device__ __forceinline__ bool is_inside(Index at) { return SIZE % VEC == 0 || at + VEC <= SIZE; }

// Loads VEC neighbours of an operand that is as large as the result.
__device__ __forceinline__ void load_whole(float (&to)[VEC], const Element* from, Index at) {
  if (is_inside(at)) {
    load_elements<VEC>(to, from);
    return;
  }
#pragma unroll
  for (int j = 0; j < VEC; ++j) {
    float one[1] = {0};
    if (at + j < SIZE) load_elements<1>(one, from + j);
    to[j] = one[0];
  }
}

// Loads the elements of VEC neighbours of the result by their offsets: beyond the last one that.
template <typename Offset>
__device__ __forceinline__ void load_places(float (&to)[VEC], const Element* from, Index at, Offset offset) {
#pragma unroll
  for (int j = 0; j < VEC; ++j) {
    float one[1];
    load_elements<1>(one, from + offset(at + j < SIZE ? at + j : SIZE - 1));
    to[j] = one[0];
  }
}

// Loads VEC neighbours in a row of an operand, or one element that is broadcast.
__device__ __forceinline__ void load_each(float (&to)[VEC], const Element* from) {
  load_elements<VEC>(to, from);
}
__device__ __forceinline__ void load_broadcast(float (&to)[VEC], const Element* from) {
  float one[1];
  load_elements<1>(one, from);
#pragma unroll
  for (int j = 0; j < VEC; ++j) to[j] = one[0];
}

extern "C" __global__ void __launch_bounds__(THREADS) elementwise(PARAMETERS) {
  const Index begin = static_cast<Index>(blockIdx.x) * (THREADS * VEC * UNROLL) + threadIdx.x * VEC;
  float values[UNROLL][OPERANDS][VEC];
#pragma unroll
  for (int u = 0; u < UNROLL; ++u) {
    const Index at = begin + u * (THREADS * VEC);
    if (at < SIZE) {
      LOAD_OPERANDS;
    }
  }
#pragma unroll
  for (int u = 0; u < UNROLL; ++u) {
    const Index at = begin + u * (THREADS * VEC);
    if (at >= SIZE) break;
    float result[VEC];
#pragma unroll
    for (int j = 0; j < VEC; ++j) result[j] = EXPRESSION;
    if (is_inside(at)) {
      store_elements<VEC>(out + at, result);
      continue;
    }
#pragma unroll
    for (int j = 0; j < VEC; ++j) {
      const float one[1] = {result[j]};
      if (at + j < SIZE) store_elements<1>(out + at + j, one);
    }
  }
}
