// Functions of expressions (elementwise/expression.py). Results of 16 bits have a sigmoid by approximate instructions,
// whose error is below their rounding.
__device__ __forceinline__ float sigmoid_of(float v) {
#if FAST_FUNCTIONS
  return __fdividef(1.0f, 1.0f + __expf(-v));
#else
  return 1.0f / (1.0f + expf(-v));
#endif
}
__device__ __forceinline__ float relu_of(float v) { return larger(v, 0.0f); }
__device__ __forceinline__ float gelu_of(float v) { return 0.5f * v * (1.0f + erff(v * 0.70710678118654752f)); }
