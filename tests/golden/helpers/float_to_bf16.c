static inline __attribute__((always_inline)) uint16_t float_to_bf16(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return 0x7fffu;
  return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}
