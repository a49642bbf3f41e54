// An elementwise function of several arrays with broadcasting. A thread computes UNROLL vectors of VEC neighbours, and
// loads all operands before it computes the first. LOAD_OPERANDS loads those of the elements from `at` on, and
// EXPRESSION is the function of the operands `x(i)`.
#define x(i) values[u][i][j]
#if SIZE < 1073741824
typedef unsigned Index;
#else
typedef size_t Index;
#endif

// Loads VEC neighbours, or one element that is broadcast.
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
    store_elements<VEC>(out + at, result);
  }
}
