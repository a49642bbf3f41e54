// The larger and the smaller of two floats; NaN where one is NaN, as in the networks that other programs run. By these
// instructions that takes no longer than fmaxf.
#ifndef HAVE_MAXIMUM
#define HAVE_MAXIMUM
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800 && !defined(AUTOTUNE_EMULATE)
__device__ __forceinline__ float larger(float a, float b) {
  float found;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(found) : "f"(a), "f"(b));
  return found;
}
__device__ __forceinline__ float smaller(float a, float b) {
  float found;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(found) : "f"(a), "f"(b));
  return found;
}
#else
__device__ __forceinline__ float larger(float a, float b) { return a > b || a != a ? a : b; }
__device__ __forceinline__ float smaller(float a, float b) { return a < b || a != a ? a : b; }
#endif
#endif
