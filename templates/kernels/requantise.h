// How sums of products of 8-bit integers become results: (sum - DATA_ZERO * weights) * scale + shift within LOW and
// HIGH, where `weights` is the sum of the weights of a channel. Floats with OUT_FLOAT; else rounded, halves to even, in
// int8 with OUT_SIGNED or in uint8, plus OUT_ZERO. With RESIDUAL sums are first rounded to whole steps within SUM_LOW and
// SUM_HIGH, and bytes of a residual are added: both times their scales, which make steps of the result of them.
#if OUT_FLOAT
typedef float Result;
#else
typedef unsigned char Result;
#endif

#if RESIDUAL
#define RESIDUAL_PARAMETER const unsigned char *__restrict__ residual,
#define RESIDUAL_POINTER , residual
#else
#define RESIDUAL_PARAMETER
#define RESIDUAL_POINTER
#endif
#define REQUANTISE_PARAMETERS \
  const int *__restrict__ weights, const float *__restrict__ scale, const float *__restrict__ shift, RESIDUAL_PARAMETER
#define REQUANTISATION {weights, scale, shift RESIDUAL_POINTER}

struct Requantisation {
  const int* weights;
  const float *scale, *shift;
#if RESIDUAL
  const unsigned char* residual;
#endif
};

__device__ __forceinline__ float requantised(int sum, const Requantisation& end, int channel) {
  const int centred = DATA_ZERO ? sum - DATA_ZERO * end.weights[channel] : sum;
  const float value = fmaf(static_cast<float>(centred), end.scale[channel], end.shift[channel]);
#if RESIDUAL
  return fmaxf(fminf(value, SUM_HIGH), SUM_LOW);
#else
  return fmaxf(fminf(value, HIGH), LOW);
#endif
}

#if RESIDUAL
// Returns a rounded sum and a byte of the residual in steps of the result.
__device__ __forceinline__ float with_residual(float sum, unsigned byte) {
#if RESIDUAL_SIGNED
  const int other = static_cast<signed char>(byte);
#else
  const int other = byte;
#endif
  const float added = static_cast<float>(other - RESIDUAL_ZERO) * RESIDUAL_SCALE;
  return fmaxf(fminf(fmaf(rintf(sum), SUM_SCALE, added), HIGH), LOW);
}
#endif

// Returns a result that is a whole number as the byte that is stored.
__device__ __forceinline__ unsigned byte_of(float value) { return (__float2int_rn(value) + OUT_ZERO) & 0xff; }

// Writes the results of NUMBERS neighbouring channels from `channel` on: one, or a multiple of 4, as `at` is then.
template <int NUMBERS>
__device__ __forceinline__ void write_results(
    Result* out, size_t at, const int (&sums)[NUMBERS], const Requantisation& end, int channel) {
  float value[NUMBERS];
#pragma unroll
  for (int i = 0; i < NUMBERS; ++i) value[i] = requantised(sums[i], end, channel + i);
#if RESIDUAL
  unsigned others[(NUMBERS + 3) / 4];
  if (NUMBERS % 4) {
    others[0] = end.residual[at];
  } else {
#pragma unroll
    for (int i = 0; i < NUMBERS / 4; ++i) others[i] = reinterpret_cast<const unsigned*>(end.residual + at)[i];
  }
#pragma unroll
  for (int i = 0; i < NUMBERS; ++i) value[i] = with_residual(value[i], others[i / 4] >> i % 4 * 8 & 0xff);
#endif
#if OUT_FLOAT
#pragma unroll
  for (int i = 0; i < NUMBERS; ++i) out[at + i] = value[i];
#else
  if (NUMBERS % 4) {
#pragma unroll
    for (int i = 0; i < NUMBERS; ++i) out[at + i] = static_cast<Result>(byte_of(value[i]));
  } else {
    unsigned word[(NUMBERS + 3) / 4];
#pragma unroll
    for (int i = 0; i < NUMBERS; ++i)
      word[i / 4] = (i % 4 ? word[i / 4] : 0) | byte_of(value[i]) << i % 4 * 8;
#pragma unroll
    for (int i = 0; i < NUMBERS / 4; ++i) reinterpret_cast<unsigned*>(out + at)[i] = word[i];
  }
#endif
}
