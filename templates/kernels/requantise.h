// How sums of products of 8-bit integers become results: (sum - DATA_ZERO * weights) * scale + shift within LOW and
// HIGH, where `weights` is the sum of the weights of a channel. Floats with OUT_FLOAT; else rounded, halves to even, in
// int8 with OUT_SIGNED or in uint8, plus OUT_ZERO. With RESIDUAL sums are first rounded to whole steps within SUM_LOW and
// SUM_HIGH, and bytes of a residual are added: both times their scales, which make steps of the result of them.
#if OUT_FLOAT
typedef float Result;
#else
typedef unsigned char Result;
#endif

typedef unsigned char Added;
#if RESIDUAL
#define RESIDUAL_PARAMETER const Added *__restrict__ residual,
#define RESIDUAL_POINTER , residual
#else
#define RESIDUAL_PARAMETER
#define RESIDUAL_POINTER
#endif
#define REQUANTISE_PARAMETERS \
  const int *__restrict__ weights, const float *__restrict__ scale, const float *__restrict__ shift, RESIDUAL_PARAMETER
#define REQUANTISATION weights, scale, shift

// What is known of some neighbouring channels: DATA_ZERO times the sum of the weights, scale and shift.
template <int NUMBERS>
struct Channels {
  int centre[NUMBERS];
  float scale[NUMBERS], shift[NUMBERS];
};

// Loads what is known of the channels from `channel` on, of which `exist` exist.
template <int NUMBERS>
__device__ __forceinline__ Channels<NUMBERS> channels(
    const int* weights, const float* scale, const float* shift, int channel, int exist) {
  Channels<NUMBERS> found;
#pragma unroll
  for (int i = 0; i < NUMBERS; ++i) {
    const int at = channel + (i < exist ? i : exist - 1);
    found.centre[i] = DATA_ZERO ? DATA_ZERO * weights[at] : 0;
    found.scale[i] = scale[at], found.shift[i] = shift[at];
  }
  return found;
}

// Loads what is known of NUMBERS channels, all of which exist; where there are several, they are even, and begin at an even
// one.
template <int NUMBERS>
__device__ __forceinline__ Channels<NUMBERS> all_channels(
    const int* weights, const float* scale, const float* shift, int channel) {
  if (NUMBERS % 2) return channels<NUMBERS>(weights, scale, shift, channel, NUMBERS);
  Channels<NUMBERS> found;
#pragma unroll
  for (int i = 0; i < NUMBERS / 2; ++i) {
    const float2 scales = reinterpret_cast<const float2*>(scale + channel)[i];
    const float2 shifts = reinterpret_cast<const float2*>(shift + channel)[i];
    const int2 sums = DATA_ZERO ? reinterpret_cast<const int2*>(weights + channel)[i] : make_int2(0, 0);
    found.scale[i * 2] = scales.x, found.scale[i * 2 + 1] = scales.y;
    found.shift[i * 2] = shifts.x, found.shift[i * 2 + 1] = shifts.y;
    found.centre[i * 2] = DATA_ZERO * sums.x, found.centre[i * 2 + 1] = DATA_ZERO * sums.y;
  }
  return found;
}

// Conversions between floats and integers take eight times as long as sums. Whole numbers below 2^22 are the last bits
// of a float of about 1.5 * 2^23, to which a sum with that number rounds, halves to even.
#define MAGIC 12582912.0f

// Returns a sum as a float; of TERMS products of bytes.
__device__ __forceinline__ float float_of_sum(int sum) {
  return TERMS * 255 * 128 < 1 << 22 ? __int_as_float(0x4b400000 + sum) - MAGIC : static_cast<float>(sum);
}

template <int NUMBERS>
__device__ __forceinline__ float requantised(int sum, const Channels<NUMBERS>& end, int i) {
  const float value = fmaf(float_of_sum(sum - end.centre[i]), end.scale[i], end.shift[i]);
#if RESIDUAL
  return fmaxf(fminf(value, SUM_HIGH), SUM_LOW);
#else
  return fmaxf(fminf(value, HIGH), LOW);
#endif
}

#if RESIDUAL
// Returns a rounded sum and a byte of the residual in steps of the result.
__device__ __forceinline__ float with_residual(float sum, unsigned byte) {
  const unsigned without_sign = RESIDUAL_SIGNED ? byte ^ 0x80 : byte;
  const int zero = RESIDUAL_SIGNED ? RESIDUAL_ZERO + 128 : RESIDUAL_ZERO;
  const float other = __int_as_float(0x4b000000 | without_sign) - (8388608.0f + zero);
  const float steps = __fadd_rn(__fadd_rn(sum, MAGIC), -MAGIC);
  return fmaxf(fminf(fmaf(steps, SUM_SCALE, other * RESIDUAL_SCALE), HIGH), LOW);
}
#endif

// Returns a result that is a whole number as the byte that is stored.
__device__ __forceinline__ unsigned byte_of(float value) {
  return (__float_as_int(__fadd_rn(value, MAGIC)) + OUT_ZERO) & 0xff;
}

// Whether limits of results are those of bytes from 0 on, as behind a ReLU.
constexpr bool FROM_ZERO = !OUT_FLOAT && !OUT_SIGNED && OUT_ZERO == 0 && LOW == 0.0f && HIGH >= 255.0f;

// Returns the bytes of two neighbouring sums. Of limits from 0 on the lower one, and 256, are those of a multiplication in
// units of 256, which rounds alike; the upper one is applied to both at once.
__device__ __forceinline__ unsigned bytes_of_two(const int* sums, const Channels<2>& end) {
#if !defined(AUTOTUNE_EMULATE) && __CUDA_ARCH__ >= 900 && !RESIDUAL
  if (FROM_ZERO) {
    unsigned bits[2], pair;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const float sum = float_of_sum(sums[i] - end.centre[i]);
      const float part = __saturatef(fmaf(sum, end.scale[i] * 0.00390625f, end.shift[i] * 0.00390625f));
      bits[i] = __float_as_uint(fmaf(part, 256.0f, MAGIC));
    }
    asm("min.u16x2 %0, %1, %2;" : "=r"(pair) : "r"(__byte_perm(bits[0], bits[1], 0x5410)), "r"(0x00ff00ffu));
    return __byte_perm(pair, 0, 0x4420);
  }
#endif
  return byte_of(requantised(sums[0], end, 0)) | byte_of(requantised(sums[1], end, 1)) << 8;
}

// Loads or stores NUMBERS bytes from `at` on: as a vector of 4 or 8, where ALIGNED says that this divides addresses; else
// the first `exist`, one by one.
template <bool ALIGNED, int NUMBERS>
__device__ __forceinline__ void load_bytes(unsigned (&byte)[NUMBERS], const Added* from, int exist) {
  if (ALIGNED && NUMBERS % 4 == 0) {
    unsigned word[2] = {};
    if (NUMBERS == 8) {
      const uint2 both = *reinterpret_cast<const uint2*>(from);
      word[0] = both.x, word[1] = both.y;
    } else {
      word[0] = *reinterpret_cast<const unsigned*>(from);
    }
#pragma unroll
    for (int i = 0; i < NUMBERS; ++i) byte[i] = word[i / 4 % 2] >> i % 4 * 8 & 0xff;
  } else {
#pragma unroll
    for (int i = 0; i < NUMBERS; ++i) byte[i] = i < exist ? from[i] : 0;
  }
}

template <bool ALIGNED, int NUMBERS>
__device__ __forceinline__ void store_bytes(unsigned char* to, const unsigned (&byte)[NUMBERS], int exist) {
  if (ALIGNED && NUMBERS % 4 == 0) {
    unsigned word[2] = {};
#pragma unroll
    for (int i = 0; i < NUMBERS; ++i) word[i / 4 % 2] |= byte[i] << i % 4 * 8;
    if (NUMBERS == 8) *reinterpret_cast<uint2*>(to) = make_uint2(word[0], word[1]);
    else *reinterpret_cast<unsigned*>(to) = word[0];
  } else {
#pragma unroll
    for (int i = 0; i < NUMBERS; ++i)
      if (i < exist) to[i] = static_cast<unsigned char>(byte[i]);
  }
}

// Writes the results of NUMBERS neighbouring channels, of which `exist` exist; ALIGNED is as above.
template <bool ALIGNED, int NUMBERS>
__device__ __forceinline__ void write_results(
    Result* out, size_t at, const int (&sums)[NUMBERS], const Channels<NUMBERS>& end, int exist,
    const Added* residual = nullptr) {
  float value[NUMBERS];
#pragma unroll
  for (int i = 0; i < NUMBERS; ++i) value[i] = requantised(sums[i], end, i);
#if RESIDUAL
  unsigned others[NUMBERS];
  load_bytes<ALIGNED>(others, residual + at, exist);
#pragma unroll
  for (int i = 0; i < NUMBERS; ++i) value[i] = with_residual(value[i], others[i]);
#endif
#if OUT_FLOAT
#pragma unroll
  for (int i = 0; i < NUMBERS; ++i)
    if (ALIGNED || i < exist) out[at + i] = value[i];
#else
  unsigned byte[NUMBERS];
#pragma unroll
  for (int i = 0; i < NUMBERS; ++i) byte[i] = byte_of(value[i]);
  store_bytes<ALIGNED>(out + at, byte, exist);
#endif
}
