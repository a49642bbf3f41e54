// The activation that ends an epilogue on tensor cores; LAST has the values of ACTIVATION in epilogue.h, and 5 for
// GELU's approximation by tanh. For 16-bit results GELU and SiLU use the approximate instructions ex2 and rcp, whose
// error is below the rounding of the result; for negative x there is no cancellation. GELU's approximation by tanh is x
// / (1 + e^(-2 u)), with u as in erf_by_tanh.h.
#if TF32
__device__ __forceinline__ float gelu(float x) { return 0.5f * x * (1.0f + erff(x * 0.70710678118654752f)); }

__device__ __forceinline__ float silu(float x) { return x / (1.0f + expf(-x)); }

__device__ __forceinline__ float gelu_by_tanh(float x) {
  return x / (1.0f + expf(-1.59576912f * x * fmaf(0.044715f * x, x, 1.0f)));
}
#else
__device__ __forceinline__ float inverse(float x) {
#ifdef AUTOTUNE_EMULATE
  return 1.0f / x;
#else
  float inverted;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverted) : "f"(x));
  return inverted;
#endif
}

constexpr float LOG2_E = 1.44269504f;

// GELU is x times the standard normal distribution function, whose value at -|x| is computed as a power of two with a
// polynomial as its exponent. The polynomial's error is at most 5e-5 for float16 (2e-4 for bfloat16) in the range where
// results are not rounded to 0.
__device__ __forceinline__ float gelu(float x) {
#if BFLOAT16
  const float away = fminf(fabsf(x), 13.3f);
  float power = fmaf(away, 2.6468713e-8f, -1.69721575e-6f);
  power = fmaf(fmaf(power, away, 4.68761666e-5f), away, -7.36594553e-4f);
  power = fmaf(fmaf(power, away, 7.37754625e-3f), away, -0.0506777515f);
  power = fmaf(fmaf(power, away, -0.462962318f), away, -1.14894037f);
  power = fmaf(power, away, -1.00019242f);
#else
  const float away = fminf(fabsf(x), 5.75f);
  float power = fmaf(away, 2.45447932e-5f, -6.36131075e-4f);
  power = fmaf(fmaf(power, away, 7.34547237e-3f), away, -0.0515952648f);
  power = fmaf(fmaf(power, away, -0.460770569f), away, -1.15039609f);
  power = fmaf(power, away, -1.00004898f);
#endif
  return fmaf(-away, exp2_approx(power), larger(x, 0.0f));
}

__device__ __forceinline__ float silu(float x) { return x * inverse(1.0f + exp2_approx(-LOG2_E * x)); }

__device__ __forceinline__ float gelu_by_tanh(float x) {
  return x * inverse(1.0f + exp2_approx(-1.59576912f * LOG2_E * x * fmaf(0.044715f * x, x, 1.0f)));
}
#endif

__device__ __forceinline__ float last_step(float x) {
#if LAST == 1
  return larger(x, 0.0f);
#elif LAST == 2
  return smaller(larger(x, 0.0f), 6.0f);
#elif LAST == 3
  return silu(x);
#elif LAST == 4
  return gelu(x);
#elif LAST == 5
  return gelu_by_tanh(x);
#elif LAST == 6
  return activation_function(x);
#else
  return x;
#endif
}
