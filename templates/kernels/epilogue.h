// The epilogue: activation((sum * ALPHA + bias + residual) * scale + shift), with the parts that BIAS, RESIDUAL,
// AFFINE and ACTIVATION ask for. Bias, scale and shift are per channel, the residual has the shape of the output.
// They are floats, or with ELEMENT (elements.h) 16-bit floats. With KEPT, for floats only, the sum before AFFINE is
// written too, to an array of the shape of the output. With SHIFT a shift follows without a scale.
#ifdef ELEMENT
typedef Element EpilogueElement;
#define LOAD_EPILOGUE load_elements<FLOATS>
__device__ __forceinline__ float load_epilogue(const EpilogueElement* from) {
  float value[1];
  load_elements<1>(value, from);
  return value[0];
}
#else
typedef float EpilogueElement;
#define LOAD_EPILOGUE load_vector<FLOATS>
__device__ __forceinline__ float load_epilogue(const EpilogueElement* from) { return *from; }
#endif

struct EpilogueArgs {
  const EpilogueElement *bias, *residual, *scale, *shift;
#ifdef KEPT
  EpilogueElement* kept;
#endif
};

#ifdef KEPT
#define KEPT_PARAMETER EpilogueElement* __restrict__ kept,
#define KEPT_POINTER , kept
#else
#define KEPT_PARAMETER
#define KEPT_POINTER
#endif

__device__ __forceinline__ float activated(float x) {
#if ACTIVATION == 1  // relu
  return larger(x, 0.0f);
#elif ACTIVATION == 2  // relu6
  return smaller(larger(x, 0.0f), 6.0f);
#elif ACTIVATION == 3  // silu
  // A division rounded exactly would call a function for each number, for results that are denormal.
#ifdef ELEMENT
  return __fdividef(x, 1.0f + __expf(-x));
#else
  return __fdividef(x, 1.0f + expf(-x));
#endif
#elif ACTIVATION == 4  // gelu
  return 0.5f * x * (1.0f + erff(x * 0.70710678118654752f));
#elif ACTIVATION == 6  // an expression
  return activation_function(x);
#else
  return x;
#endif
}

// Applies the epilogue to FLOATS neighbours of the output from `at` on: all of `channel`, or with APART of the
// channels from there on.
template <int APART, int FLOATS, class Index>
__device__ __forceinline__ void finish(
    float (&sums)[FLOATS], const EpilogueArgs& epilogue, int channel, Index at) {
#ifdef KEPT
  float before[FLOATS];
#endif
#if RESIDUAL
  float others[FLOATS];
  LOAD_EPILOGUE(others, epilogue.residual + at);
#endif
#pragma unroll
  for (int v = 0; v < FLOATS; ++v) {
#ifdef ALPHA
    sums[v] *= ALPHA;
#endif
#if BIAS
    sums[v] += load_epilogue(epilogue.bias + channel + APART * v);
#endif
#if RESIDUAL
    sums[v] += others[v];
#endif
#ifdef KEPT
    before[v] = sums[v];
#endif
#if AFFINE
    sums[v] = fmaf(sums[v], load_epilogue(epilogue.scale + channel + APART * v),
                   load_epilogue(epilogue.shift + channel + APART * v));
#endif
#ifdef SHIFT
    sums[v] += load_epilogue(epilogue.shift + channel + APART * v);
#endif
    sums[v] = activated(sums[v]);
  }
#ifdef KEPT
  store_vector<FLOATS>(epilogue.kept + at, before);
#endif
}
