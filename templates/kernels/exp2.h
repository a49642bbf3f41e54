// Two to the power of x; denormal results are flushed to zero.
__device__ __forceinline__ float exp2_approx(float x) {
#ifdef AUTOTUNE_EMULATE
  return exp2f(x);
#else
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#endif
}
