static inline __attribute__((always_inline)) int max_int(int a, int b) {
  return a > b ? a : b;
}
