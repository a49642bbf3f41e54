static inline __attribute__((always_inline)) int floor_div_i32(int a, int b) {
  int q = a / b;
  return q - (a % b != 0 && (a < 0) != (b < 0));
}
