static __device__ __forceinline__ int floor_mod_i32(int a, int b) {
  int r = a % b;
  return r + (r != 0 && (r < 0) != (b < 0) ? b : 0);
}
