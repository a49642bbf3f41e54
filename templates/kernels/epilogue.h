// What follows a sum: activation((sum * ALPHA + bias + residual) * scale + shift), each part where it was
// asked for by BIAS, RESIDUAL, AFFINE and ACTIVATION. Bias, scale and shift have a number a channel, the
// residual is as large as the output. They are floats, or with ELEMENT, which elements.h is for, 16-bit
// floats. With KEPT, for floats only, the sum before AFFINE is written too, to an array as large as the
// output. With SHIFT a shift follows without a scale.
#ifdef ELEMENT
typedef Element Rested;
#define LOAD_RESTED load_elements<FLOATS>
#define LOAD_PAIR load_elements<2>
__device__ __forceinline__ float rested(const Rested* from) {
  float value[1];
  load_elements<1>(value, from);
  return value[0];
}
#else
typedef float Rested;
#define LOAD_RESTED load_vector<FLOATS>
#define LOAD_PAIR load_vector<2>
__device__ __forceinline__ float rested(const Rested* from) { return *from; }
#endif

struct Rest {
  const Rested *bias, *residual, *scale, *shift;
#ifdef KEPT
  Rested* kept;
#endif
};

#ifdef KEPT
#define KEPT_PARAMETER Rested* __restrict__ kept,
#define KEPT_POINTER , kept
#else
#define KEPT_PARAMETER
#define KEPT_POINTER
#endif

// Of 16-bit floats GELU and SiLU are a good deal shorter by the hardware's own powers and quotients, whose last
// bits are lost where the result is rounded. The integral that GELU takes is by Abramowitz and Stegun, "Handbook
// of Mathematical Functions", 1964, 7.1.26: its error is below 1.5e-7, and for negative x nothing cancels.
#if defined(ELEMENT) && ELEMENT > 0
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
#else
__device__ __forceinline__ float gelu(float x) {
  return 0.5f * x * (1.0f + erff(x * 0.70710678118654752f));
}

__device__ __forceinline__ float silu(float x) { return x / (1.0f + expf(-x)); }
#endif

__device__ __forceinline__ float activated(float x) {
#if ACTIVATION == 1  // relu
  return fmaxf(x, 0.0f);
#elif ACTIVATION == 2  // relu6
  return fminf(fmaxf(x, 0.0f), 6.0f);
#elif ACTIVATION == 3  // silu
  return silu(x);
#elif ACTIVATION == 4  // gelu
  return gelu(x);
#else
  return x;
#endif
}

// Finishes FLOATS neighbours of the output from `at` on; those of `channel`, where APART is 0, or of the
// channels from there on, where it is 1.
template <int APART, int FLOATS, class Place>
__device__ __forceinline__ void finish(
    float (&sums)[FLOATS], const Rest& rest, int channel, Place at) {
#ifdef KEPT
  float before[FLOATS];
#endif
#if RESIDUAL
  float others[FLOATS];
  LOAD_RESTED(others, rest.residual + at);
#endif
#pragma unroll
  for (int v = 0; v < FLOATS; ++v) {
#ifdef ALPHA
    sums[v] *= ALPHA;
#endif
#if BIAS
    sums[v] += rested(rest.bias + channel + APART * v);
#endif
#if RESIDUAL
    sums[v] += others[v];
#endif
#ifdef KEPT
    before[v] = sums[v];
#endif
#if AFFINE
    sums[v] = fmaf(sums[v], rested(rest.scale + channel + APART * v),
                   rested(rest.shift + channel + APART * v));
#endif
#ifdef SHIFT
    sums[v] += rested(rest.shift + channel + APART * v);
#endif
    sums[v] = activated(sums[v]);
  }
#ifdef KEPT
  store_vector<FLOATS>(rest.kept + at, before);
#endif
}
