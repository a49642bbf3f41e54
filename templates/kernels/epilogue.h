// What follows a sum: activation((sum * ALPHA + bias + residual) * scale + shift), each part where it was
// asked for by BIAS, RESIDUAL, AFFINE and ACTIVATION. Bias, scale and shift have a number a channel, the
// residual is as large as the output. They are floats, or with ELEMENT, which elements.h is for, 16-bit
// floats. With KEPT, for floats only, the sum before AFFINE is written too, to an array as large as the
// output. With SHIFT a shift follows without a scale.
#ifdef ELEMENT
typedef Element Rested;
#define LOAD_RESTED load_elements<FLOATS>
__device__ __forceinline__ float rested(const Rested* from) {
  float value[1];
  load_elements<1>(value, from);
  return value[0];
}
#else
typedef float Rested;
#define LOAD_RESTED load_vector<FLOATS>
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

__device__ __forceinline__ float activated(float x) {
#if ACTIVATION == 1  // relu
  return fmaxf(x, 0.0f);
#elif ACTIVATION == 2  // relu6
  return fminf(fmaxf(x, 0.0f), 6.0f);
#elif ACTIVATION == 3  // silu
  return x / (1.0f + expf(-x));
#elif ACTIVATION == 4  // gelu
  return 0.5f * x * (1.0f + erff(x * 0.70710678118654752f));
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
