static inline __attribute__((always_inline)) float max_float(float a, float b) {
  return a > b ? a : b;
}
