static inline __attribute__((always_inline)) int floor_div_i32(int a, int b) {
  int q = a / b;
  return q - (a % b != 0 && (a < 0) != (b < 0));
}

static inline __attribute__((always_inline)) int floor_mod_i32(int a, int b) {
  int r = a % b;
  return r + (r != 0 && (r < 0) != (b < 0) ? b : 0);
}

void floor_division_c(const int* restrict X, int* restrict Y) {
  for (int i = 0; i < 100; ++i) {
    Y[i] = floor_div_i32(X[i] - 50, 7) + floor_mod_i32(X[i] - 50, 7);
  }
}
