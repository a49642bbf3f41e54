// GELU's approximation by tanh is GELU with another erf (Hendrycks and Gimpel, "Gaussian Error Linear Units", 2016):
// for y = x / sqrt(2) it is tanh(sqrt(2 / pi) * (x + 0.044715 * x^3)), which is 1 - 2 / (1 + e^(2 * ...)).
__device__ __forceinline__ float erf_by_tanh(float y) {
  return 1.0f - 2.0f / (1.0f + expf(2.25675833f * y * fmaf(0.08943f * y, y, 1.0f)));
}
#define erff(y) erf_by_tanh(y)
