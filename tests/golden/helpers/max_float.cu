static __device__ __forceinline__ float max_float(float a, float b) {
#if !defined(AUTOTUNE_EMULATE) && __CUDA_ARCH__ >= 800
  float found;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(found) : "f"(a), "f"(b));
  return found;
#else
  return a > b || a != a ? a : b;
#endif
}
