static inline __attribute__((always_inline)) float_v32 max_float_v32(float_v32 a, float_v32 b) {
  typedef __typeof__(a > b) mask;
  const mask first = a > b;
  return (float_v32)((first & (mask)a) | (~first & (mask)b));
}
