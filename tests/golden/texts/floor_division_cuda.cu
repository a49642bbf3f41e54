// floor_division_cuda_kernel0(X, Y) grid (2, 1, 1) block (64, 1, 1) shared 0
// helper floor_div_i32

// helper floor_mod_i32

extern "C" __global__ void __launch_bounds__(64)
floor_division_cuda_kernel0(const int* __restrict__ X, int* __restrict__ Y) {
  const int bx = blockIdx.x;
  const int tx = threadIdx.x;
  if (bx * 64 + tx < 100) {
    Y[bx * 64 + tx] = floor_div_i32(X[bx * 64 + tx] - 50, 7) + floor_mod_i32(X[bx * 64 + tx] - 50, 7);
  }
}
