// The last step of what follows products by wgmma, LAST as epilogue.h has ACTIVATION. Of 16-bit floats GELU and SiLU
// are a good deal shorter by the hardware's own powers and quotients, whose last bits are lost where the result is
// rounded. The integral that GELU takes is by Abramowitz and Stegun, "Handbook of Mathematical Functions", 1964,
// 7.1.26: its error is below 1.5e-7, and for negative x nothing cancels.
#if TF32
__device__ __forceinline__ float gelu(float x) { return 0.5f * x * (1.0f + erff(x * 0.70710678118654752f)); }

__device__ __forceinline__ float silu(float x) { return x / (1.0f + expf(-x)); }
#else
__device__ __forceinline__ float power_of_two(float x) {
#ifdef AUTOTUNE_EMULATE
  return exp2f(x);
#else
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
  return power;
#endif
}

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

__device__ __forceinline__ float gelu(float x) {
  const float away = fminf(fabsf(x), 32.0f), t = inverse(fmaf(away, 0.3275911f * 0.70710678f, 1.0f));
  float half_tail = fmaf(t, 0.5f * 1.061405429f, 0.5f * -1.453152027f);
  half_tail = fmaf(half_tail, t, 0.5f * 1.421413741f);
  half_tail = fmaf(half_tail, t, 0.5f * -0.284496736f);
  half_tail = fmaf(half_tail, t, 0.5f * 0.254829592f) * t * power_of_two(-0.5f * LOG2_E * away * away);
  return fmaf(-away, half_tail, x < 0.0f ? 0.0f : x);
}

__device__ __forceinline__ float silu(float x) { return x * inverse(1.0f + power_of_two(-LOG2_E * x)); }
#endif

__device__ __forceinline__ float last_step(float x) {
#if LAST == 1
  return fmaxf(x, 0.0f);
#elif LAST == 2
  return fminf(fmaxf(x, 0.0f), 6.0f);
#elif LAST == 3
  return silu(x);
#elif LAST == 4
  return gelu(x);
#else
  return x;
#endif
}
