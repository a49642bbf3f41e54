static inline __attribute__((always_inline)) float round_to_tf32(float value) {
  unsigned bits;
  __builtin_memcpy(&bits, &value, sizeof bits);
  bits = (bits & 0x7f800000u) == 0x7f800000u ? bits : (bits + 0x1000u) & ~0x1fffu;
  __builtin_memcpy(&value, &bits, sizeof value);
  return value;
}
