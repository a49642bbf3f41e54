// How sums of products of 8-bit integers become results: (sum - DATA_ZERO * weights) * scale + shift within LOW and
// HIGH, where `weights` is the sum of the weights of a channel. Floats with OUT_FLOAT; else rounded, halves to even, in
// int8 with OUT_SIGNED or in uint8, plus OUT_ZERO.
#if OUT_FLOAT
typedef float Result;
#else
typedef unsigned char Result;
#endif

struct Requantisation {
  const int* weights;
  const float *scale, *shift;
};

__device__ __forceinline__ float requantised(int sum, const Requantisation& end, int channel) {
  const int centred = DATA_ZERO ? sum - DATA_ZERO * end.weights[channel] : sum;
  const float value = fmaf(static_cast<float>(centred), end.scale[channel], end.shift[channel]);
  return fmaxf(fminf(value, HIGH), LOW);
}

// Returns a result that is a whole number as the byte that is stored.
__device__ __forceinline__ unsigned byte_of(float value) { return (__float2int_rn(value) + OUT_ZERO) & 0xff; }

// Writes the results of NUMBERS neighbouring channels from `channel` on; `at` is a multiple of NUMBERS.
template <int NUMBERS>
__device__ __forceinline__ void write_results(
    Result* out, size_t at, const int (&sums)[NUMBERS], const Requantisation& end, int channel) {
  float value[NUMBERS];
#pragma unroll
  for (int i = 0; i < NUMBERS; ++i) value[i] = requantised(sums[i], end, channel + i);
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
