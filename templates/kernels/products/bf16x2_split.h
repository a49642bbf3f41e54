// Splits floats into two bfloat16 each, with whose sum they agree to 16 bits: the nearest bfloat16, and that nearest to
// the difference. TF32 has 11 bits. Of infinities the difference is a NaN, and sums of products of 2^56 and more could
// overflow; NaNs have NaNs for pieces, and bits below the smallest bfloat16 count nothing.
constexpr float TOO_LARGE = 72057594037927936.0f;  // 2^56

// Statistics of the floats that were split: the largest magnitude.
struct SplitStatistics {
  float top;
  // Forces the update here: compilers defer it, and keep all floats in registers until then.
  __device__ __forceinline__ void force_update() {
#ifndef AUTOTUNE_EMULATE
    asm volatile("" : "+f"(top));
#endif
  }
  __device__ __forceinline__ bool unsplittable() const { return !(top < TOO_LARGE); }
};

struct Pieces {
  unsigned word[2];
};

// Splits two neighbours along K.
__device__ __forceinline__ Pieces split(float low, float high, SplitStatistics& statistics) {
  Pieces pieces;
  statistics.top = fmaxf(statistics.top, fmaxf(fabsf(low), fabsf(high)));
  pieces.word[0] = pack_pair(low, high);
  low -= __uint_as_float(pieces.word[0] << 16);
  high -= __uint_as_float(pieces.word[0] & 0xffff0000u);
  pieces.word[1] = pack_pair(low, high);
  return pieces;
}
