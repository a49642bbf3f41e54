static __device__ __forceinline__ float round_to_tf32(float value) {
  const unsigned bits = __float_as_uint(value);
  return (bits & 0x7f800000u) == 0x7f800000u ? value
                                             : __uint_as_float((bits + 0x1000u) & ~0x1fffu);
}
