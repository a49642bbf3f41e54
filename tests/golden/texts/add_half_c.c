void add_half_c(const _Float16* restrict A, const _Float16* restrict B, _Float16* restrict C) {
  for (int i = 0; i < 1024; ++i) {
    C[i] = (_Float16)((float)A[i] + (float)B[i]);
  }
}
