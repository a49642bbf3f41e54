// helper floor_div_i32

// helper floor_mod_i32

void floor_division_c(const int* restrict X, int* restrict Y) {
  for (int i = 0; i < 100; ++i) {
    Y[i] = floor_div_i32(X[i] - 50, 7) + floor_mod_i32(X[i] - 50, 7);
  }
}
