static inline __attribute__((always_inline)) int min_int(int a, int b) {
  return a < b ? a : b;
}
