static inline __attribute__((always_inline)) float max_or_nan_float(float a, float b) {
  const float found = a > b ? a : b;
  return a != a ? a : found;
}
