static inline __attribute__((always_inline)) unsigned float_to_bits(float value) {
  unsigned bits;
  __builtin_memcpy(&bits, &value, sizeof bits);
  return bits;
}
static inline __attribute__((always_inline)) float bits_to_float(unsigned bits) {
  float value;
  __builtin_memcpy(&value, &bits, sizeof value);
  return value;
}
// Selects without a branch, under which compilers would compute an operand and not vectorise it.
static inline __attribute__((always_inline)) float select_f32(int condition, float a, float b) {
  const unsigned mask = -(unsigned)condition;
  return bits_to_float((mask & float_to_bits(a)) | (~mask & float_to_bits(b)));
}
