// Floats as three bfloat16 each, whose sum they are: the nearest, the nearest to what remains, and the rest. A
// float32 has 24 digits and a bfloat16 8. Some have no such pieces: infinities, NaNs, and those with digits below
// the smallest bfloat16; of those of 2^56 and more sums of products could overflow.
constexpr float TOO_LARGE = 72057594037927936.0f;  // 2^56

// What was seen of floats while they were split: the largest, and digits beyond the third piece.
struct Seen {
  float top;
  unsigned low;
  // Has it noted now: compilers put that off, and keep all floats in registers meanwhile.
  __device__ __forceinline__ void settle() {
#ifndef AUTOTUNE_EMULATE
    asm volatile("" : "+f"(top), "+r"(low));
#endif
  }
  __device__ __forceinline__ bool strange() const { return !(top < TOO_LARGE) || (low & 0xffffu) != 0; }
};

struct Pieces {
  unsigned word[3];
};

// Splits two neighbours along K.
__device__ __forceinline__ Pieces split(float low, float high, Seen& seen) {
  Pieces pieces;
  seen.top = fmaxf(seen.top, fmaxf(fabsf(low), fabsf(high)));
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    pieces.word[i] = pack_pair(low, high);
    low -= __uint_as_float(pieces.word[i] << 16);
    high -= __uint_as_float(pieces.word[i] & 0xffff0000u);
  }
  pieces.word[2] = __byte_perm(__float_as_uint(low), __float_as_uint(high), 0x7632);
  seen.low |= __float_as_uint(low) | __float_as_uint(high);
#ifdef AUTOTUNE_EMULATE
  if (low != low || high != high) seen.low |= 1;  // a device's NaN has all of these digits
#endif
  return pieces;
}
