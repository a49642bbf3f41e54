// Splits floats into three bfloat16 each, whose sum they are: the nearest bfloat16, that nearest to the difference, and
// the remaining difference; a float32 has a significand of 24 bits, a bfloat16 of 8. Infinities, NaNs and floats with
// bits below the smallest bfloat16 cannot be split, and sums of products of 2^56 and more could overflow.
constexpr float TOO_LARGE = 72057594037927936.0f;  // 2^56

// Statistics of the floats that were split: the largest magnitude, and bits below the third bfloat16.
struct SplitStatistics {
  float top;
  unsigned low;
  // Forces the update here: compilers defer it, and keep all floats in registers until then.
  __device__ __forceinline__ void force_update() {
#ifndef AUTOTUNE_EMULATE
    asm volatile("" : "+f"(top), "+r"(low));
#endif
  }
  __device__ __forceinline__ bool unsplittable() const { return !(top < TOO_LARGE) || (low & 0xffffu) != 0; }
};

struct Pieces {
  unsigned word[3];
};

// Splits two neighbours along K.
__device__ __forceinline__ Pieces split(float low, float high, SplitStatistics& statistics) {
  Pieces pieces;
  statistics.top = fmaxf(statistics.top, fmaxf(fabsf(low), fabsf(high)));
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    pieces.word[i] = pack_pair(low, high);
    low -= __uint_as_float(pieces.word[i] << 16);
    high -= __uint_as_float(pieces.word[i] & 0xffff0000u);
  }
  pieces.word[2] = __byte_perm(__float_as_uint(low), __float_as_uint(high), 0x7632);
  statistics.low |= __float_as_uint(low) | __float_as_uint(high);
#ifdef AUTOTUNE_EMULATE
  if (low != low || high != high) statistics.low |= 1;  // a NaN of the device has all of these bits set
#endif
  return pieces;
}
